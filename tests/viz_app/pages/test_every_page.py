"""What holds for every page: nothing is written, markup is text, what errors and logs tell."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from headwise.viz_app import export
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.served import FOLDER, LESSONS, MODELS, describe_served
from headwise.viz_app.session import download
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.log import log_refusal, log_timed
from headwise.viz_app.session.markdown import table_cell
from tests.viz_app.pages.driver import CATS, Start, drawn, patch_views, unescaped


@pytest.mark.parametrize(
    ("page", "address", "awaited"),
    [
        ("translate", {"kind": "cross"}, {"mosaic", "large"}),
        ("why", {}, {"account_parts", "head_map"}),
        ("why", {"answer": "tokens", "kind": "decoder_self"}, {"account_decoder_self"}),
    ],
)
def test_pictures_that_a_person_waits_for_are_sent_before_the_rest(
    start_page: Start,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    address: dict[str, str],
    awaited: set[str],
) -> None:
    """A page that ends where the browser is given time to draw has these, and no others."""
    patch_views(monkeypatch, page, let_browser_draw=st.stop)
    assert start_page(page, q=CATS, **address).charts.keys() == awaited


def test_no_spreadsheet_computes_what_a_table_says(
    start_page: Start, unequal_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sign in ("=", "+", "-", "@", " =", "\t@"):
        assert table_cell(f"{sign}1") == f"\u2060{sign}1"
    assert [table_cell(text) for text in ("", "a=1", "<s>", "niña-")] == ["", "a=1", "<s>", "niña-"]
    layers = {layer: ["=1+1"] for layer in range(4)}
    patch_views(monkeypatch, "model", decoder_lens_so_far=lambda *_: layers)
    app = start_page("model", unequal_root, q=CATS, section="layers")
    column = "the decoder writes"
    [table] = [each.value for each in app.dataframe if column in each.value]
    assert table[column].tolist() == ["\u2060=1+1"] * 4


# What visitors are told of errors


def test_an_error_of_the_program_is_told_in_our_words_and_the_page_goes_on(
    start_page: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "secret/place.py of René"

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(secret)

    patch_views(monkeypatch, "translate", _show_mosaic=fail)
    monkeypatch.setattr(logging.getLogger("headwise.viz_app"), "propagate", True)
    app = start_page("translate")
    (told,) = app.exception
    assert told.message.startswith("Something in Headwise itself went wrong here; what it was")
    assert list(told.proto.stack_trace) == []
    assert app.token_row("source")
    assert not any(secret in text for _, text in drawn(app._tree))
    failed = [record for record in caplog.records if record.levelname == "ERROR"]
    problems = [record.exc_info for record in failed if record.name.startswith("headwise.viz_app")]
    assert problems
    assert all(problem and str(problem[1]) == secret for problem in problems)


def test_files_are_named_without_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, model, lessons = tmp_path / "a b" / "runs", tmp_path / "models" / "mine", tmp_path / "l"
    for folder in (root / "tiny", model, lessons):
        folder.mkdir(parents=True)
    (root / "tiny" / "run.json").touch()
    link = tmp_path / "link"
    link.symlink_to(root)
    monkeypatch.setenv(FOLDER, str(link))
    monkeypatch.setenv(MODELS, f"mine\t{model}")
    monkeypatch.setenv(LESSONS, str(lessons))
    for told, expected in {
        f"{link}/tiny/run.json: not JSON": "tiny/run.json: not JSON",
        f"{root}/tiny/measures/x.json: not JSON": "tiny/measures/x.json: not JSON",
        f"{root}/gone/run.json: not JSON": "runs/gone/run.json: not JSON",
        f"there is no run in {link}: train one": "there is no run in link: train one",
        f"{model}/config.json: not JSON, {model}": "mine/config.json: not JSON, mine",
        f"{lessons}/01.md, line 1": "l/01.md, line 1",
        f"{Path.home()}/.cache/hub: no": "~/.cache/hub: no",
        "“/usr/bin” is no token": "“/usr/bin” is no token",
    }.items():
        assert unescaped(describe_error(ValueError(told))) == expected
    with pytest.raises(FileNotFoundError) as raised:
        (tmp_path / "elsewhere" / "none.npz").read_bytes()
    assert unescaped(describe_error(raised.value)) == "none.npz: No such file or directory"


# What the terminal shows: what the app did, and nothing of what people type

SENTENCE = "Where is the Xyzzyplugh dog?"
TARGET, REFERENCE, WORD = "¿Dónde está el Quuxfrob?", "Grault viejo.", "waldogarply"
OURS = logging.getLogger("headwise.viz_app")


class _Records(logging.Handler):
    """Collects the text of each record, with all that it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.all = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)  # with the traceback, where there is one
        self.all += f"{text}\n{vars(record)}\n"
        if record.name.startswith(OURS.name):
            self.texts.append(text)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Records]:
    """Of every logger at every level, from an app that has done nothing yet."""
    st.cache_resource.clear()
    monkeypatch.setattr(OURS, "propagate", False)  # as Streamlit has it once the app has begun
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


def test_work_is_logged_and_nothing_typed(log: _Records, run_root: Path, start_page: Start) -> None:
    app = start_page("app", q=SENTENCE)
    app.choose(target=TARGET)
    app.choose(below="off").choose(rank=True)
    app.choose(target="")
    app.choose(decoding="beam")
    app.choose(decoding="greedy")
    app.choose(sentence=9 * SENTENCE)
    assert "are read; shorten it" in app.errors[0]
    start_page("inside", q=SENTENCE)
    app = start_page("training", q=SENTENCE, training="translations")
    app.choose(own_reference=REFERENCE)
    start_page("training", q=SENTENCE, training="watch")
    app = start_page("model", q=SENTENCE, section="similarity")
    box = app.widget("token")
    box.options.append(WORD)
    assert WORD in box.set_value(WORD).run().errors[0]

    for event in (
        rf"started with the runs in {re.escape(str(run_root))}",
        r"run opened: run tiny, \d+ ms",
        r"checkpoint loaded: run tiny, step 60, sha256 [0-9a-f]{12}, \d+ ms",
        r"trace: run tiny, step 60, heads_turned 0, source \d+, target \d+, \d+ ms",
        r"head costs: run tiny, step 60, source \d+, target \d+, \d+ ms",
        r"beam search: run tiny, step 60, source \d+, width 4, \d+ ms",
        r"refused: ValueError from headwise\.viz_app\.trace\.sentence\.require_source",
        r"layer: run tiny, step 60, of cross 2, \d+ ms",
        r"translated: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"attention: run tiny, step 20, source \d+, target \d+, \d+ ms",
        r"refused: ValueError from headwise\.viz_app\.session\.vocabulary\.find_token",
    ):
        assert [text for text in log.texts if re.fullmatch(event, text)], event
    written = log.all.lower()
    typed = fragments(SENTENCE, TARGET, REFERENCE, WORD)
    assert [part for part in typed if part in written] == []
    assert "?q=" not in written


def test_the_terminal_is_set_up_once(log: _Records, start_page: Start) -> None:
    for _ in range(2):
        start_page("app").run()
        st.cache_resource.clear()  # as when Streamlit loads an edited app
    assert [type(one) for one in OURS.handlers].count(logging.StreamHandler) == 1
    assert logging.getLogger(f"{OURS.name}.any").getEffectiveLevel() <= logging.INFO


def test_a_failure_is_not_logged_as_done_nor_with_its_message(log: _Records) -> None:
    try:
        with log_timed("trace", run="tiny"):
            int("secret")
    except ValueError as problem:
        log_refusal(problem)
    place = f"{__name__}.test_a_failure_is_not_logged_as_done_nor_with_its_message"
    assert log.texts == [f"refused: ValueError from {place}"]
    assert "secret" not in log.all


def test_exports_are_logged(log: _Records, trace: Trace, run_root: Path, tmp_path: Path) -> None:
    assert download._export("tiny", 60, "json", lambda: b"all") == b"all"
    out = tmp_path / "waldo.json"
    sentence = SentenceOptions(run="tiny", text=SENTENCE, checkpoints=run_root)
    export.main(export.ExportArguments(out, sentence))
    of_app, of_shell = log.texts
    assert re.fullmatch(r"export: run tiny, step 60, form json, bytes 3, \d+ ms", of_app)
    size = out.stat().st_size
    assert of_shell == f"export: run tiny, step 60, form json, bytes {size}"
    assert not any(part in log.all.lower() for part in fragments(SENTENCE, out.stem))


def test_the_terminal_gets_no_control_codes(log: _Records, monkeypatch: pytest.MonkeyPatch) -> None:
    with log_timed("trace", run="a\x1b[2J\r\nb", step=5):
        pass
    (said,) = log.texts
    assert said.startswith(r"trace: run a\u001b[2J\u000d\u000ab, step 5, ")
    monkeypatch.setenv(FOLDER, os.sep + "runs\x1b[2J")
    monkeypatch.setenv(MODELS, "")
    assert describe_served() == rf"the runs in {os.sep}runs\u001b[2J"
