"""Which models the app serves, and the command that starts it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.viz_app.__main__ import main
from headwise.viz_app.lessons.reading import SHIPPED
from headwise.viz_app.served import (
    describe_served,
    first_run,
    lesson_folders,
    runs_folder,
    serve,
    served_models,
    served_placement,
)

VARIABLES = (
    *("HEADWISE_CHECKPOINTS", "HEADWISE_MODELS", "HEADWISE_DEVICE", "HEADWISE_DTYPE"),
    "HEADWISE_LESSONS",
)


def test_named_models_come_before_the_runs_of_the_folder(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(run_root))
    for name in VARIABLES[1:]:
        monkeypatch.setenv(name, "")
    assert served_models() == {"tiny": run_root / "tiny"}
    serve({"mine": tmp_path, "other/mine": run_root}, DEFAULT_PLACEMENT)
    assert list(served_models()) == ["mine", "other/mine", "tiny"]
    assert served_models()["mine"] == tmp_path
    named = f"mine ({tmp_path}), other/mine ({run_root})"
    assert describe_served() == f"{named}, the runs in {run_root}"


def test_a_named_model_is_open_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    models = dict.fromkeys(("a", "en-es"), Path())
    monkeypatch.delenv("HEADWISE_MODELS", raising=False)
    assert first_run(models) == 1
    assert first_run({"a": Path()}) == 0
    monkeypatch.setenv("HEADWISE_MODELS", "a\t/a")
    assert first_run(models) == 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines with which Streamlit is started, in place of starting it."""
    lines: list[list[str]] = []
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # put back at the end, whatever the command sets
    monkeypatch.setattr("runpy.run_module", lambda *_, **__: lines.append(sys.argv))
    return lines


def test_the_command_serves_the_models_that_it_is_given(
    run_root: Path,
    unequal_root: Path,
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [str(run_root / "tiny"), str(unequal_root / "tiny")]
    options = ["--checkpoints", str(run_root), "--port", "8600"]
    options += ["--device", "cpu", "--dtype", "bfloat16", "--lessons", str(run_root)]
    monkeypatch.setattr(sys, "argv", ["headwise", *given, *options])
    main()
    [line] = started
    assert line[:2] == ["streamlit", "run"]
    assert Path(line[2]).name == "app.py"
    assert line[3:] == ["--server.port", "8600"]
    # Both end in "tiny": the second is named by more of its path.
    second = f"{unequal_root.name}/tiny"
    assert served_models() == {"tiny": run_root / "tiny", second: unequal_root / "tiny"}
    assert served_placement() == Placement("cpu", "bfloat16")
    assert runs_folder() == run_root
    assert lesson_folders() == [SHIPPED, run_root]


def test_a_model_that_cannot_be_opened_is_named_before_the_app_starts(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for model, message in (
        ("nothing", "no run named 'nothing'"),
        (str(tmp_path), "expected a run"),
    ):
        monkeypatch.setattr(sys, "argv", ["headwise", model])
        with pytest.raises(SystemExit, match=message):
            main()
    assert started == []


def test_a_folder_of_lessons_that_is_none_is_named(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lesson_folders() == [SHIPPED]
    monkeypatch.setattr(sys, "argv", ["headwise", "--lessons", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="is no folder; name one with lessons"):
        main()
    assert started == []
