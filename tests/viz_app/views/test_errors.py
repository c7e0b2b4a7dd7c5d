"""What visitors are told of errors, and what the terminal shows."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from headwise.viz_app.served import FOLDER, LESSONS, MODELS, describe_served
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.log import log_timed
from headwise.viz_app.views.translate import heads
from tests.viz_app.views.driver import Start, errors, token_row, unescaped
from tests.viz_app.views.test_texts_from_outside import drawn

SECRET = "secret/place.py of René"


def test_an_error_of_the_program_is_told_in_our_words_and_the_page_goes_on(
    start_page: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(heads, "_show_mosaic", fail)
    monkeypatch.setattr(logging.getLogger("headwise.viz_app"), "propagate", True)
    app = start_page("translate")
    (told,) = app.exception
    assert told.message.startswith("Something in Headwise itself went wrong here; what it was")
    assert list(told.proto.stack_trace) == []
    assert token_row(app, "source")
    assert not any(SECRET in text for _, text in drawn(app._tree))
    failed = [record for record in caplog.records if record.levelname == "ERROR"]
    problems = [record.exc_info for record in failed if record.name.startswith("headwise.viz_app")]
    assert problems
    assert all(problem and str(problem[1]) == SECRET for problem in problems)


def test_files_are_named_without_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_no_page_shows_where_a_broken_run_is(start_page: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model": {}}))
    (told,) = errors(start_page("app", own_root))
    assert told.startswith("tiny/run.json: ")
    assert str(own_root) not in told


def test_control_characters_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("headwise.viz_app"), "propagate", True)
    with caplog.at_level(logging.INFO), log_timed("trace", run="a\x1b[2J\r\nb", step=5):
        pass
    (said,) = {text for text in caplog.messages if text.startswith("trace: ")}
    assert said.startswith(r"trace: run a\u001b[2J\u000d\u000ab, step 5, ")
    monkeypatch.setenv(FOLDER, os.sep + "runs\x1b[2J")
    monkeypatch.setenv(MODELS, "")
    assert describe_served() == rf"the runs in {os.sep}runs\u001b[2J"
