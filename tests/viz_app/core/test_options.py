"""Options that commands share: each command has them, and each reaches what it is for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import numpy as np
import pytest
import tyro

import headwise
from headwise.model import evaluate, translate
from headwise.model.checkpoint import CheckpointError
from headwise.model.pretrained.folders import quiet
from headwise.viz_app import align, export, find, measure, patch
from headwise.viz_app.measuring import align as reference
from headwise.viz_app.why import __main__ as why
from tests.model.pretrained.tiny import FOLDERS

TEXT, OTHER = "Where is the old dog?", "Where is the red dog?"
Command = tuple[Callable[[Any], None], Any, list[str]]
PAIR, TEXTS = "pairs.tsv", "texts.txt"
COMMANDS: dict[str, Command] = {
    "find": (find.main, find.FindArguments, ["rows.json", "--on", "special", "--data", PAIR]),
    "patch": (patch.main, patch.PatchArguments, ["a.npz", "--text", TEXT, "--other", OTHER]),
    "why": (why.main, why.WhyArguments, ["why.npz", "--text", TEXT, "--at", "2"]),
    "align": (align.main, align.HeadAlignArguments, [PAIR, "--head", "cross.2.1"]),
    "reference alignments": (reference.main, reference.AlignArguments, ["--data", PAIR]),
    "measure": (measure.main, measure.MeasureArguments, ["--data", PAIR]),
    "evaluate": (evaluate.main, evaluate.EvaluateArguments, ["--data", PAIR]),
    "translate": (translate.main, translate.TranslateArguments, [TEXTS]),
    "export": (export.main, export.ExportArguments, ["trace.npz", "--text", TEXT]),
}

STEPLESS = ("measure", "reference alignments")
"""Commands that are of several checkpoints, or of none."""


class AlignsNothing:
    """Stands for eflomal, which is not installed, and links no words."""

    def align(self, source: list[str], target: list[str], *files: str) -> None:
        assert len(source) == len(target)
        for file in files:
            Path(file).write_text("\n" * len(source))


@pytest.fixture
def call(run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a command on the run ``tiny``, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path(PAIR).write_text("en\tes\nA dog.\tUn perro.\n", encoding="utf-8")
    Path(TEXTS).write_text(f"{TEXT}\n", encoding="utf-8")
    aligner = ModuleType("eflomal")
    aligner.Aligner = AlignsNothing
    monkeypatch.setitem(sys.modules, "eflomal", aligner)
    monkeypatch.setattr(reference, "version", lambda name: "0")

    def run(name: str, *rest: str) -> None:
        main, arguments, line = COMMANDS[name]
        given = ["--run", "tiny", "--checkpoints", str(run_root), *line, *rest]
        main(tyro.cli(arguments, args=given))

    return run


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """The folder of a Marian that does not name its languages."""
    rows = [json.loads(line) for line in (data_folder / "train.jsonl").read_text().splitlines()]
    folder = tmp_path_factory.mktemp("theirs") / "marian"
    folder.mkdir()
    with quiet():
        FOLDERS["marian"](folder, {of: [row[of] for row in rows] for of in ("en", "es")})
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_opens_the_folder_of_a_hugging_face_model(
    call: Callable[..., None], theirs: Path, name: str
) -> None:
    has_columns = "columns" in get_type_hints(COMMANDS[name][1])
    call(name, "--run", str(theirs), *["--columns", "en", "es"] * has_columns)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("step", "7", CheckpointError, "no weights of step 7"),
        ("languages.source", "eng", ValueError, "eng"),
        ("checkpoints", "nowhere", CheckpointError, "nowhere"),
    ],
)
def test_every_command_opens_what_it_is_asked_to(
    call: Callable[..., None],
    name: str,
    option: str,
    value: str,
    error: type[Exception],
    message: str,
) -> None:
    if option == "step" and name in STEPLESS:
        return
    with pytest.raises(error, match=message):
        call(name, f"--{option}", value)


def test_why_is_asked_of_the_model_as_turned(call: Callable[..., None], run_root: Path) -> None:
    call("why", "--turn", "cross.2.1", "cross.2.2:-0.5", "--pin", "cross.1.1:2:4")
    account = headwise.open("tiny", root=run_root)[-1].why(
        TEXT, 2, ablated=["cross.2.1"], strengths={"cross.2.2": -0.5}, pinned=[("cross.1.1", 1, 3)]
    )
    with np.load("why.npz") as arrays:
        assert arrays["difference"] == pytest.approx(account.difference, abs=1e-5)
        parts = dict(zip(arrays["part_names"].tolist(), arrays["parts"].tolist(), strict=True))
    assert parts == pytest.approx(dict(account.named()), abs=1e-5)
    assert parts["cross.2.1"] == 0
