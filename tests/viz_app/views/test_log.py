"""The terminal shows what the app did, and nothing of what people type."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from headwise.viz_app import export
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.shared import download
from headwise.viz_app.views.shared.log import log_refusal, log_timed
from tests.viz_app.views.driver import Start, choose, errors, widget

SENTENCE = "Where is the Xyzzyplugh dog?"
TARGET = "¿Dónde está el Quuxfrob?"
REFERENCE = "Grault viejo."
TOKEN = "waldogarply"
OURS = logging.getLogger("viz_app")


class _Records(logging.Handler):
    """Collects the text of each record, with all that it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.all = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)  # with the traceback, where there is one
        self.all += f"{text}\n{vars(record)}\n"
        if record.name.startswith("viz_app"):
            self.texts.append(text)


@pytest.fixture
def log() -> Iterator[_Records]:
    """Of every logger at every level, from an app that has done nothing yet."""
    st.cache_resource.clear()
    handler = _Records()
    known = [one for one in logging.root.manager.loggerDict.values() if hasattr(one, "handlers")]
    loggers = {OURS, logging.root, *(one for one in known if not one.propagate)}
    levels = {logger: logger.level for logger in loggers}
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield handler
    for logger, level in levels.items():
        logger.removeHandler(handler)
        logger.setLevel(level)
    st.cache_resource.clear()


def fragments(*typed: str) -> set[str]:
    """All that is written with four letters or more of these words."""
    words = {word for text in typed for word in re.findall(r"\w{4,}", text.lower())}
    return {word[at : at + 4] for word in words for at in range(len(word) - 3)}


def test_work_is_logged_and_nothing_that_was_typed(
    log: _Records, run_root: Path, start_page: Start
) -> None:
    app = start_page("app", q=SENTENCE)
    choose(app, target=TARGET)
    choose(choose(app, below="off"), rank=True)
    choose(app, target="")
    choose(app, decoding="beam")
    choose(app, decoding="greedy")
    choose(app, sentence=9 * SENTENCE)
    assert "the model takes at most" in errors(app)[0]
    start_page("inside", q=SENTENCE)
    app = start_page("training", q=SENTENCE, training="translations")
    choose(app, own_reference=REFERENCE)
    start_page("training", q=SENTENCE, training="play")
    app = start_page("embeddings", q=SENTENCE, section="similarity")
    box = widget(app, "token")
    box.options.append(TOKEN)
    assert TOKEN in errors(box.set_value(TOKEN).run())[0]

    for event in (
        rf"started with the runs in {re.escape(str(run_root))}",
        r"run opened: run tiny, \d+ ms",
        r"checkpoint loaded: run tiny, step 60, sha256 [0-9a-f]{12}, \d+ ms",
        r"trace: run tiny, step 60, heads_off 0, source \d+, target \d+, \d+ ms",
        r"head costs: run tiny, step 60, source \d+, target \d+, \d+ ms",
        r"beam search: run tiny, step 60, source \d+, width 4, \d+ ms",
        r"refused: ValueError from viz_app\.trace\.sentence\.require_source",
        r"layer: run tiny, step 60, of cross 2, \d+ ms",
        r"translated: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"attention: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"refused: ValueError from viz_app\.views\.shared\.vocabulary\.find_token",
    ):
        assert [text for text in log.texts if re.fullmatch(event, text)], event
    written = log.all.lower()
    typed = fragments(SENTENCE, TARGET, REFERENCE, TOKEN)
    assert [part for part in typed if part in written] == []
    assert "?q=" not in written


def test_what_goes_to_the_terminal_is_set_up_once(log: _Records, start_page: Start) -> None:
    for _ in range(2):
        start_page("app").run()
        st.cache_resource.clear()  # as when Streamlit loads an edited app
    assert [type(one) for one in OURS.handlers].count(logging.StreamHandler) == 1
    assert (
        logging.getLogger("headwise.viz_app.views.shared.log").getEffectiveLevel() <= logging.INFO
    )


def test_what_failed_is_not_logged_as_done(log: _Records) -> None:
    with pytest.raises(ValueError, match="secret"), log_timed("trace", run="tiny"):
        raise ValueError("secret")
    assert log.texts == []


def test_a_refusal_is_logged_without_its_message(log: _Records) -> None:
    try:
        int("secret")
    except ValueError as problem:
        log_refusal(problem)
    place = f"{__name__}.test_a_refusal_is_logged_without_its_message"
    assert log.texts == [f"refused: ValueError from {place}"]
    assert "secret" not in log.all


def test_exports_are_logged(log: _Records, trace: Trace, run_root: Path, tmp_path: Path) -> None:
    assert download._export(trace, "json", lambda: b"all") == b"all"
    out = tmp_path / "waldo.json"
    export.main(export.ExportArguments(out, run="tiny", text=SENTENCE, checkpoints=run_root))
    of_app, of_shell = log.texts
    assert re.fullmatch(r"export: run tiny, step 60, form json, bytes 3, \d+ ms", of_app)
    size = out.stat().st_size
    assert of_shell == f"export: run tiny, step 60, form json, bytes {size}"
    assert not any(part in log.all.lower() for part in fragments(SENTENCE, out.stem))
