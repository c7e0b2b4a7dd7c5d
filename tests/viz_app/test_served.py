"""Which models the app serves, and the command that starts it."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
from tests.viz_app.views.driver import break_file, without_weights


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is named; put back at the end, whatever a command sets."""
    for name in ("CHECKPOINTS", "MODELS", "DEVICE", "DTYPE", "LESSONS"):
        monkeypatch.setenv(f"HEADWISE_{name}", "")


def test_named_models_come_before_the_runs_of_the_folder_and_are_open_at_first(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(run_root))
    assert served_models() == {"tiny": run_root / "tiny"}
    models = dict.fromkeys(("a", "en-es"), Path())
    assert (first_run(models), first_run({"a": Path()})) == (1, 0)
    serve({"mine": tmp_path, "other/mine": run_root}, DEFAULT_PLACEMENT)
    assert list(served_models()) == ["mine", "other/mine", "tiny"]
    assert served_models()["mine"] == tmp_path
    named = f"mine ({tmp_path}), other/mine ({run_root})"
    assert describe_served() == f"{named}, the runs in {run_root}"
    assert first_run(models) == 0


Start = Callable[..., list[list[str]]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Runs the command; the command lines with which Streamlit is started, in place of that."""
    lines: list[list[str]] = []
    monkeypatch.setattr("runpy.run_module", lambda *_, **__: lines.append(sys.argv))

    def run(*line: str, fails: str = "") -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["headwise", *line])
        if fails:
            with pytest.raises(SystemExit, match=fails):
                main()
        else:
            main()
        return lines

    return run


def test_the_command_serves_the_models_that_it_is_given(
    run_root: Path, unequal_root: Path, start: Start
) -> None:
    given = [str(run_root / "tiny"), str(unequal_root / "tiny")]
    options = ["--checkpoints", str(run_root), "--port", "8600"]
    options += ["--device", "cpu", "--dtype", "bfloat16", "--lessons", str(run_root)]
    [line] = start(*given, *options)
    assert line[:2] == ["streamlit", "run"]
    assert Path(line[2]).name == "app.py"
    assert line[3:] == ["--server.port", "8600"]
    # Both end in "tiny": the second is named by more of its path.
    second = f"{unequal_root.name}/tiny"
    assert served_models() == {"tiny": run_root / "tiny", second: unequal_root / "tiny"}
    assert served_placement() == Placement("cpu", "bfloat16")
    assert runs_folder() == run_root
    assert lesson_folders() == [SHIPPED, run_root]


def test_what_cannot_be_opened_is_named_before_the_app_starts(tmp_path: Path, start: Start) -> None:
    assert lesson_folders() == [SHIPPED]
    assert start("nothing", fails="no run named 'nothing'") == []
    (tmp_path / "model.gguf").touch()
    assert start(str(tmp_path), fails="expected a run") == []
    none = str(tmp_path / "none")
    assert start("--lessons", none, fails="is no folder; name one with lessons") == []


def test_a_training_that_has_no_checkpoint_yet_is_served(
    own_root: Path, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / "begun"
    (begun / "checkpoint-500").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    given = [begun, tmp_path / "new", without_weights(own_root / "tiny")]
    assert len(start(*map(str, given))) == 1
    assert [*served_models().values()][:3] == given
    said = capsys.readouterr().out
    assert said.count("The app shows its first checkpoint when it is complete.") == 3
    start(str(begun), "--ready", fails="wait for the training")


def test_a_replica_is_ready_when_it_has_translated(
    own_root: Path, tmp_path: Path, start: Start
) -> None:
    assert len(start("--checkpoints", str(own_root), "--ready")) == 1
    for path in (own_root / "tiny").glob("step-*.safetensors"):
        break_file(path)
    start("--checkpoints", str(own_root), "--ready", fails=r"error: .*step-0000060\.safetensors: ")
    start("--checkpoints", str(tmp_path / "none"), "--ready", fails="error: there is no run in ")
    assert len(start("--checkpoints", str(own_root))) == 2  # pages say what is wrong
