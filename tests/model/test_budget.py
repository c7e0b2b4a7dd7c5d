"""Every door asks for memory before it traces or measures: Python and the shell, not only pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headwise
from headwise.model import budget
from headwise.model.checkpoint import TrainedRun
from headwise.model.decoding import greedy
from headwise.viz_app import export, measure
from headwise.viz_app.core.options import SentenceOptions
from tests.tiny import DATA

TEXT = "Where is the old dog?"
DOORS: dict[str, Callable[[Path, Path, Path], object]] = {
    "trace": lambda root, data, out: headwise.open("tiny", root=root)[-1].trace(TEXT),
    "logits and tensors": lambda root, data, out: headwise.open("tiny", root=root)[
        -1
    ].run_with_cache(TEXT),
    "export": lambda root, data, out: export.main(
        export.ExportArguments(
            out=out / "a.npz", sentence=SentenceOptions(run="tiny", text=TEXT, checkpoints=root)
        )
    ),
    "measures in Python": lambda root, data, out: headwise.measure(
        headwise.open("tiny", root=root)[-1], [(TEXT, TEXT)], ours="entropy"
    ),
    "measures from the shell": lambda root, data, out: measure.main(
        measure.MeasureArguments(run="tiny", data=str(data), only="resamples", checkpoints=root)
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_refuses_what_memory_has_no_room_for(
    trained_run: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    def decode(*_: object, **__: object) -> None:
        raise AssertionError("it was decoded before memory was asked for")

    monkeypatch.setattr(greedy, "decode_step_by_step", decode)
    monkeypatch.setattr(budget, "used", lambda: 700 * 2**20)
    monkeypatch.setenv(budget.MEMORY, str(700 * 2**20 + 1_000))
    expected = r"takes some \d+ MiB of memory, and 0 are free here; give a shorter text, or more"
    with pytest.raises(ValueError, match=expected):
        DOORS[door](trained_run.folder.parent, DATA / "valid.jsonl", tmp_path)
