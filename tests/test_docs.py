"""What README, docs and notebooks say can be done as it stands there: links, Python, commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
import tyro

from benchmarks.__main__ import BenchmarkArguments
from benchmarks.beyond import BeyondArguments
from benchmarks.load import LoadArguments
from headwise.model.checkpoint import CheckpointError, load_weights, open_trained_run
from headwise.model.evaluate import EvaluateArguments
from headwise.model.pretrained.folders import quiet
from headwise.model.training.options import parse as parse_training
from headwise.model.translate import TranslateArguments
from headwise.viz_app.__main__ import AppArguments
from headwise.viz_app.align import HeadAlignArguments
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.export import ExportArguments
from headwise.viz_app.measure import MeasureArguments
from headwise.viz_app.measuring.align import AlignArguments
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.patch import PatchArguments
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.why import WhyArguments
from tests.floats import near, rounding
from tests.imports import ROOT
from tests.model.pretrained.tiny import FOLDERS

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
PARSERS: dict[str, Callable[..., object]] = {
    "headwise.model.train": lambda args: parse_training(args),
    "headwise.model.evaluate": partial(tyro.cli, EvaluateArguments),
    "headwise.model.translate": partial(tyro.cli, TranslateArguments),
    "headwise.viz_app": partial(tyro.cli, AppArguments),
    "headwise.viz_app.align": partial(tyro.cli, HeadAlignArguments),
    "headwise.viz_app.export": partial(tyro.cli, ExportArguments),
    "headwise.viz_app.measure": partial(tyro.cli, MeasureArguments),
    "headwise.viz_app.patch": partial(tyro.cli, PatchArguments),
    "headwise.viz_app.why": partial(tyro.cli, WhyArguments),
    "headwise.viz_app.measuring.align": partial(tyro.cli, AlignArguments),
    "benchmarks": partial(tyro.cli, BenchmarkArguments),
    "benchmarks.beyond": partial(tyro.cli, BeyondArguments),
    "benchmarks.load": partial(tyro.cli, LoadArguments),
}
"""Module that is run → what reads its command line."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def blocks(page: Path, language: str) -> list[str]:
    """Blocks of a page that are marked with a language; "": with none."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for marked, text in found if marked == language]


def commands() -> list[tuple[str, list[str]]]:
    """Module and arguments of each command of the pages that is given whole."""
    found = []
    for page in PAGES:
        for line in "".join(blocks(page, "")).replace("\\\n", " ").splitlines():
            if "venv/bin/" not in line or "…" in line:
                continue
            words = shlex.split(line.partition(" | ")[2] or line, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            if words[0].endswith("headwise"):
                found.append(("headwise.viz_app", words[1:]))
            elif words[0].endswith("python") and words[1] == "-m" and words[2] in PARSERS:
                found.append((words[2], words[3:]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    missing = [to for to in _LINK.findall(page.read_text()) if not (page.parent / to).exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("module", "arguments"), commands(), ids=lambda given: given if isinstance(given, str) else ""
)
def test_options_of_commands_are_known(module: str, arguments: list[str]) -> None:
    PARSERS[module](args=arguments)


def test_every_kind_of_command_is_there() -> None:
    found = [module for module, _ in commands()]
    assert len(found) >= 40
    assert set(found) >= {
        "headwise.viz_app",
        *(name for name in PARSERS if name.startswith("headwise.model.")),
    }


def test_commands_of_the_page_from_the_shell_run(tmp_path: Path) -> None:
    """One after another, in a folder that has the files which they name."""
    pairs = (ROOT / "tests" / "data" / "valid.jsonl").read_text(encoding="utf-8").splitlines()[:6]
    for name in ("test.jsonl", "valid.jsonl", "train.jsonl"):
        (tmp_path / name).write_text("\n".join(pairs) + "\n", encoding="utf-8")
    (tmp_path / "test.links").write_text("0-0\n" * len(pairs), encoding="utf-8")
    (tmp_path / "sentences.txt").write_text("The cat runs.\n", encoding="utf-8")
    given = {path.name for path in tmp_path.iterdir()}
    written = blocks(DOCS / "from-the-shell.md", "")
    script = "".join(block for block in written if ".venv/bin/python" in block)
    script = script.replace(".venv/bin/python", shlex.quote(sys.executable))
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "¿Dónde está mi libro?" in done.stdout
    new = {path.name for path in tmp_path.iterdir()} - given
    assert new >= {"page.html", "trace.npz", "trace.json", "pair.jsonl", "heads.json", "test.align"}


def test_python_of_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks go on from those before them; they write their files into the folder they run in."""
    monkeypatch.chdir(tmp_path)
    for page in (ROOT / "README.md", DOCS / "from-python.md"):
        names: dict[str, object] = {}
        for block in blocks(page, "python"):
            exec(compile(block, page.name, "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {"trace.html", "trace.npz"}


def test_a_run_needs_the_files_of_the_first_table_and_no_others(tmp_path: Path) -> None:
    text = (DOCS / "files-of-a-run.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z0-9.-]+\.(?:json|jsonl|safetensors))`", text.split("\n\n")[2])
    shipped, folder = ROOT / "checkpoints" / "copy", tmp_path / "copy"
    folder.mkdir()
    for path in shipped.iterdir():
        if re.sub(r"\d{7}", "0000500", path.name) in named:
            shutil.copy(path, folder)

    def load() -> None:
        run = open_trained_run("copy", root=tmp_path)
        assert run.tokenizers.source.vocab_size == run.info.model.source_vocab_size
        load_weights(run, 2000)

    load()
    for name in ("run.json", "tokenizer.json", "step-0002000.safetensors"):
        aside = (folder / name).rename(tmp_path / name)
        with pytest.raises(CheckpointError):
            load()
        aside.rename(folder / name)


def test_the_measure_of_the_example() -> None:
    [block] = blocks(DOCS / "add-a-measure.md", "python")
    names: dict[str, object] = {}
    exec(compile(block, "add-a-measure.md", "exec"), names)
    weights = torch.tensor([[[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]]])
    found = names["reach"](weights, torch.ones(1, 3, 3, dtype=torch.bool).tril())  # type: ignore[operator]
    assert (found.total.item(), found.count.item()) == (0.25 + 1.25, 2)


# The notebooks, from the first cell to the last

NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
ON_THE_HUB = '"Helsinki-NLP/opus-mt-en-es"'

Run = Callable[..., dict[str, Any]]


def sources(notebook: Path) -> list[str]:
    """Sources of the cells of code."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def run_notebook(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a notebook; what its cells have named in the end. Figures are not opened."""
    monkeypatch.setattr(go.Figure, "show", lambda figure: None)

    def run(name: str, **replaced: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for number, source in enumerate(sources(DOCS / name)):
            for old, new in replaced.items():
                source = source.replace(old, new)
            exec(compile(source, f"{name}, cell {number}", "exec"), names)
        return names

    return run


def test_a_sentence(run_notebook: Run) -> None:
    names = run_notebook("from-python.ipynb")
    trace = names["trace"]
    assert isinstance(trace, Trace)
    assert trace.target_text.startswith("Vimos tres gatos negros")
    assert {path.name for path in names["folder"].iterdir()} == {"cats.html", "cats.npz"}
    of_itself = names["distance"]  # the last checkpoint's, by two passes
    assert of_itself == near(0, dtype=np.float32, size=1)
    layer = names["layer"]
    largest = max(
        float(np.abs(each).max())
        for each in (
            layer.attention.scores[0, 3],
            layer.attention.key[0],
            layer.feed_forward.result,
        )
    )
    off = max(names["deviations"](layer, head=0, row=3).values())
    assert off < rounding(np.float32, largest)
    grid = make_grid(trace, "cross", GridOptions(units="words"))
    assert names["grid"].rows == grid.rows
    [drawn] = names["attention_map"](names["through"], theme=names["LIGHT"], **names["axes"]).data
    assert drawn.z.shape == (len(grid.rows), len(grid.columns))


def test_a_training(run_notebook: Run) -> None:
    names = run_notebook("a-training.ipynb")
    run = open_trained_run("copy")
    first, last = (names["on_diagonal"][step].max() for step in (run.steps()[0], run.steps()[-1]))
    assert first < 0.3 < 0.8 < last
    assert len(names["maps"]) == 4
    measured = read_measures(run.folder, run.steps()[-1]).values["cost"]["cross"]
    np.testing.assert_array_equal(names["cost"][-1], measured)
    cells = names["matrix"].data[0].z
    np.testing.assert_array_equal(cells[1:, -1], np.ravel(measured))
    assert names["onset"].step == 2_000


def test_somebody_s_model(run_notebook: Run, tmp_path: Path, data_folder: Path) -> None:
    rows = [json.loads(line) for line in (data_folder / "train.jsonl").read_text().splitlines()]
    with quiet():
        FOLDERS["marian"](tmp_path, {side: [row[side] for row in rows] for side in ("en", "es")})
    assert any(ON_THE_HUB in source for source in sources(DOCS / "hugging-face.ipynb"))
    names = run_notebook("hugging-face.ipynb", **{ON_THE_HUB: repr(str(tmp_path))})
    trace = names["trace"]
    assert trace.source_text == "The dog sees a red house."
    np.testing.assert_array_equal(names["figure"].data[0].z, trace.attention["cross"][-1, 0])
    assert trace.target_text in names["page"].read_text()
    for kind, costs in names["costs"].items():
        assert costs.shape == trace.attention[kind].shape[:2]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_a_notebook_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    assert len(sources(notebook)) >= 6
    assert all(not cell.get("outputs") for cell in content["cells"])
