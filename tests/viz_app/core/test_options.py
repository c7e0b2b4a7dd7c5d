"""Options that commands share: each command has them, and each reaches what it is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

import headwise
from headwise.model.checkpoint import CheckpointError
from headwise.viz_app import align, export, find, patch
from headwise.viz_app.why import __main__ as why

TEXT, OTHER = "Where is the old dog?", "Where is the red dog?"
Command = tuple[Callable[[Any], None], Any, list[str]]
PAIR = "pairs.tsv"
COMMANDS: dict[str, Command] = {
    "find": (find.main, find.FindArguments, ["rows.json", "--on", "special"]),
    "patch": (patch.main, patch.PatchArguments, ["a.npz", "--text", TEXT, "--other", OTHER]),
    "why": (why.main, why.WhyArguments, ["why.npz", "--text", TEXT, "--at", "2"]),
    "align": (align.main, align.HeadAlignArguments, [PAIR, "--head", "cross.2.1"]),
    "export": (export.main, export.ExportArguments, ["trace.npz", "--text", TEXT]),
}


@pytest.fixture
def call(run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a command on the run ``tiny``, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path(PAIR).write_text("en\tes\nA dog.\tUn perro.\n", encoding="utf-8")

    def run(name: str, *rest: str) -> None:
        main, arguments, line = COMMANDS[name]
        given = ["--run", "tiny", "--checkpoints", str(run_root), *line, *rest]
        main(tyro.cli(arguments, args=given))

    return run


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("rest", "error", "message"),
    [
        (["--step", "7"], CheckpointError, "no weights of step 7"),
        (["--languages.source", "eng"], ValueError, "eng"),
        (["--checkpoints", "nowhere"], CheckpointError, "nowhere"),
    ],
)
def test_every_command_opens_what_it_is_asked_to(
    call: Callable[..., None], name: str, rest: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(name, *rest)


def test_why_is_asked_of_the_model_as_it_is_turned(
    call: Callable[..., None], run_root: Path
) -> None:
    call("why", "--turn", "cross.2.1", "cross.2.2:-0.5", "--pin", "cross.1.1:2:4")
    account = headwise.open("tiny", root=run_root)[-1].why(
        TEXT,
        2,
        ablated=["cross.2.1"],
        strengths={"cross.2.2": -0.5},
        pinned=[("cross.1.1", 1, 3)],
    )
    with np.load("why.npz") as arrays:
        assert arrays["difference"] == pytest.approx(account.difference, abs=1e-5)
        parts = dict(zip(arrays["part_names"].tolist(), arrays["parts"].tolist(), strict=True))
    assert parts == pytest.approx(dict(account.named()), abs=1e-5)
    assert parts["cross.2.1"] == 0
