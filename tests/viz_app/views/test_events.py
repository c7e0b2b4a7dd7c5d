"""What the app tells its terminal: what it did, and nothing of what people type."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from viz_app import export
from viz_app.records import Trace
from viz_app.views import take
from viz_app.views._events import tell_refusal, told

APP = Path(__file__).resolve().parents[3] / "viz_app" / "app.py"
SENTENCE = "Where is the Xyzzyplugh dog?"
TARGET = "¿Dónde está el Quuxfrob?"
REFERENCE = "Grault viejo."
TOKEN = "waldogarply"
OURS = logging.getLogger("viz_app")


class _Kept(logging.Handler):
    """Keeps each record, with all that it carries."""

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
def log() -> Iterator[_Kept]:
    """Of every logger at every level, from an app that has done nothing yet."""
    st.cache_resource.clear()
    handler = _Kept()
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


def shown(app: AppTest) -> str:
    """What it was refused with."""
    assert not app.exception
    return " ".join(error.value for error in app.error)


def test_work_is_told_and_nothing_that_was_typed(
    log: _Kept,
    run_root: Path,
    start_page: Callable[..., AppTest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(run_root))
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params["q"] = SENTENCE
    app.run()
    app.text_input(key="target").set_value(TARGET).run()
    app.toggle(key="rank").set_value(True).run()
    app.text_input(key="target").set_value("").run()
    app.segmented_control(key="decoding").set_value("beam").run()
    app.segmented_control(key="decoding").set_value("greedy").run()
    app.text_input(key="sentence").set_value(9 * SENTENCE).run()
    assert "the model takes at most" in shown(app)
    start_page("inside", q=SENTENCE)
    app = start_page("training", q=SENTENCE, training="translations")
    app.text_input(key="own_reference").set_value(REFERENCE).run()
    start_page("training", q=SENTENCE, training="play")
    app = start_page("embeddings", q=SENTENCE, room="similarity")
    box = app.selectbox(key="token")
    box.options.append(TOKEN)
    assert TOKEN in shown(box.set_value(TOKEN).run())

    for event in (
        rf"started with the runs in {re.escape(str(run_root))}",
        r"run opened: run tiny, \d+ ms",
        r"checkpoint loaded: run tiny, step 60, sha256 [0-9a-f]{12}, \d+ ms",
        r"trace: run tiny, step 60, heads_off 0, source \d+, target \d+, \d+ ms",
        r"head costs: run tiny, step 60, source \d+, target \d+, \d+ ms",
        r"beam search: run tiny, step 60, source \d+, width 4, \d+ ms",
        r"refused: ValueError from viz_app\.trace\._target_ids",
        r"layer: run tiny, step 60, of cross 2, \d+ ms",
        r"translated: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"attention: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"refused: ValueError from viz_app\.views\.embeddings\.side\.find_token",
    ):
        assert [text for text in log.texts if re.fullmatch(event, text)], event
    written = log.all.lower()
    typed = fragments(SENTENCE, TARGET, REFERENCE, TOKEN)
    assert [part for part in typed if part in written] == []
    assert "?q=" not in written


def test_what_goes_to_the_terminal_is_set_up_once(
    log: _Kept, run_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(run_root))
    for _ in range(2):
        AppTest.from_file(str(APP), default_timeout=60).run().run()
        st.cache_resource.clear()  # as when Streamlit loads an edited app
    assert [type(one) for one in OURS.handlers].count(logging.StreamHandler) == 1
    assert logging.getLogger("viz_app.views._events").getEffectiveLevel() <= logging.INFO


def test_what_failed_is_not_told_as_done(log: _Kept) -> None:
    with pytest.raises(ValueError, match="secret"), told("trace", run="tiny"):
        raise ValueError("secret")
    assert log.texts == []


def test_a_refusal_is_told_without_its_message(log: _Kept) -> None:
    try:
        int("secret")
    except ValueError as problem:
        tell_refusal(problem)
    place = f"{__name__}.test_a_refusal_is_told_without_its_message"
    assert log.texts == [f"refused: ValueError from {place}"]
    assert "secret" not in log.all


def test_exports_are_told(log: _Kept, trace: Trace, run_root: Path, tmp_path: Path) -> None:
    assert take._written(trace, "json", lambda: b"all") == b"all"
    out = tmp_path / "waldo.json"
    export.main(export.Arguments(out, run="tiny", text=SENTENCE, checkpoints=run_root))
    of_app, of_shell = log.texts
    assert re.fullmatch(r"export: run tiny, step 60, form json, bytes 3, \d+ ms", of_app)
    size = out.stat().st_size
    assert of_shell == f"export: run tiny, step 60, form json, bytes {size}"
    assert not any(part in log.all.lower() for part in fragments(SENTENCE, out.stem))
