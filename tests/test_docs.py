"""What README, docs and notebooks say can be done as it stands there: links, Python, commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tyro

import headwise
from benchmarks.__main__ import BenchmarkArguments
from benchmarks.load import LoadArguments
from headwise.model.checkpoint import CheckpointError, load_weights, open_trained_run
from headwise.model.evaluate import EvaluateArguments
from headwise.model.training.options import parse as parse_training
from headwise.model.translate import TranslateArguments
from headwise.viz_app.__main__ import AppArguments
from headwise.viz_app.align import HeadAlignArguments
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.export import ExportArguments
from headwise.viz_app.find import FindArguments
from headwise.viz_app.measure import MeasureArguments
from headwise.viz_app.measuring.align import AlignArguments
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.patch import PatchArguments
from headwise.viz_app.why.__main__ import WhyArguments
from tests.commands import run_module
from tests.floats import PASS, near, rounding
from tests.imports import ROOT
from tests.printed import (
    NOTEBOOKS,
    PRINTED,
    assert_same_text,
    cells_of,
    code_cells,
    examples,
    given_by,
    run_cell,
    texts_of,
)

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
PARSERS: dict[str, Callable[..., object]] = {
    "headwise.model.train": lambda args: parse_training(args),
    "headwise.model.evaluate": partial(tyro.cli, EvaluateArguments),
    "headwise.model.translate": partial(tyro.cli, TranslateArguments),
    "headwise.viz_app": partial(tyro.cli, AppArguments),
    "headwise.viz_app.align": partial(tyro.cli, HeadAlignArguments),
    "headwise.viz_app.export": partial(tyro.cli, ExportArguments),
    "headwise.viz_app.find": partial(tyro.cli, FindArguments),
    "headwise.viz_app.measure": partial(tyro.cli, MeasureArguments),
    "headwise.viz_app.patch": partial(tyro.cli, PatchArguments),
    "headwise.viz_app.why": partial(tyro.cli, WhyArguments),
    "headwise.viz_app.measuring.align": partial(tyro.cli, AlignArguments),
    "benchmarks": partial(tyro.cli, BenchmarkArguments),
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


@contextmanager
def standard_input(text: str) -> Iterator[None]:
    """Have a text come through a pipe, as from another command."""
    before, (end, begin) = os.dup(0), os.pipe()
    os.write(begin, text.encode())
    os.close(begin)
    os.dup2(end, 0)
    os.close(end)
    yield
    os.dup2(before, 0)
    os.close(before)


@pytest.mark.usefixtures("datasets_cache")
def test_commands_of_the_page_from_the_shell_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after another, in a folder that has the files which they name; in one process."""
    pairs = (ROOT / "tests" / "data" / "valid.jsonl").read_text(encoding="utf-8").splitlines()[:6]
    for name in ("test.jsonl", "valid.jsonl", "train.jsonl"):
        (tmp_path / name).write_text("\n".join(pairs) + "\n", encoding="utf-8")
    (tmp_path / "test.links").write_text("0-0\n" * len(pairs), encoding="utf-8")
    (tmp_path / "sentences.txt").write_text("The cat runs.\n", encoding="utf-8")
    given = {path.name for path in tmp_path.iterdir()}
    written = blocks(DOCS / "from-the-shell.md", "")
    script = "".join(block for block in written if ".venv/bin/python" in block)
    monkeypatch.chdir(tmp_path)
    for line in script.splitlines():
        echoed, _, command = line.rpartition(" | ")
        words = shlex.split(command)
        if words[0] == "echo":
            _, text, into, name = words
            assert into == ">"
            Path(name).write_text(f"{text}\n", encoding="utf-8")
            continue
        python, option, module, *arguments = words
        assert (python, option) == (".venv/bin/python", "-m")
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        with standard_input("".join(f"{text}\n" for text in shlex.split(echoed)[1:])):
            run_module(module, monkeypatch)
        printed = capsys.readouterr().out
        assert "¿Dónde está mi libro?" in printed or not echoed or "--temperature" in arguments
    new = {path.name for path in tmp_path.iterdir()} - given
    assert new >= {"page.html", "trace.npz", "trace.json", "pair.jsonl", "heads.json", "test.align"}


def test_python_of_the_readme_runs() -> None:
    names: dict[str, Any] = {}
    for block in blocks(ROOT / "README.md", "python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["trace"].run == "en-es"


@pytest.mark.parametrize("page", PRINTED, ids=lambda page: page.stem)
def test_statements_give_what_is_printed_below_them(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on from those before them, and write their files into the folder they run in."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    statements = list(examples(page))
    assert sum(bool(each.want) for each in statements) >= 20
    for each in statements:
        assert_same_text(given_by(each, names), each.want)
    assert {path.name for path in tmp_path.iterdir()} == {"trace.html", "trace.npz"}
    # What the page says of its integrated gradients.
    path = names["logit"](1) - names["logit"](0)
    assert float(names["shares"].sum()) == pytest.approx(path, rel=0.02)


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
    names: dict[str, Any] = {}
    exec(compile(block, "add-a-measure.md", "exec"), names)
    weights = torch.tensor([[[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]]])
    found = names["reach"](weights, torch.ones(1, 3, 3, dtype=torch.bool).tril())
    assert found.tolist() == [[[0, 0.25, 1.25]]]


# The notebooks, from the first cell to the last


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_has_kept(notebook: Path) -> None:
    """Its cells run as they stand, and their texts, numbers and figures are those in the file."""
    cells, names = code_cells(notebook), dict[str, Any]()
    assert len(cells) >= 6
    for number, cell in enumerate(cells):
        found = run_cell("".join(cell["source"]), names, f"{notebook.name}, cell {number}")
        kept = cell["outputs"]
        assert [each["output_type"] for each in found] == [each["output_type"] for each in kept]
        for one, other in zip(texts_of(found), texts_of(kept), strict=True):
            assert_same_text(one, other)
        for one, other in zip(found, kept, strict=True):
            data, kept_data = one.get("data", {}), other.get("data", {})
            assert data.keys() == kept_data.keys()
            for drawn, expected in zip(cells_of(data), cells_of(kept_data), strict=True):
                bound = rounding(np.float32, 1, PASS)
                np.testing.assert_allclose(drawn, expected, rtol=0, atol=bound)
            assert len("".join(kept_data.get("text/html", ""))) <= 300_000
    _CHECKS[notebook.stem](names)


def check_a_sentence(names: dict[str, Any]) -> None:
    trace = names["trace"]
    assert {path.name for path in names["folder"].iterdir()} == {"dog.html", "dog.npz"}
    assert names["distance"] == near(0, dtype=np.float32, size=1)  # the last checkpoint's
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


def check_a_training(names: dict[str, Any]) -> None:
    run = open_trained_run("copy")
    first, last = (names["on_diagonal"][step].max() for step in (run.steps()[0], run.steps()[-1]))
    assert first < 0.3 < 0.8 < last
    assert len(names["maps"]) == 4
    measured = read_measures(run.folder, run.steps()[-1]).values["cost"]["cross"]
    np.testing.assert_array_equal(names["cost"][-1], measured)
    assert names["onset"].step == 2_000


def check_a_model_of_ones_own(names: dict[str, Any]) -> None:
    """What is wrapped gives what the run gives that it was made of, and is still in training."""
    trace = names["trace"]
    own = headwise.open("de-en")[-1].trace(trace.source_text)
    assert trace.target_text == own.target_text
    assert names["model"].training
    np.testing.assert_allclose(trace.attention["cross"], own.attention["cross"], atol=1e-3)
    np.testing.assert_array_equal(names["figure"].data[0].z, trace.attention["cross"][-1, 0])
    for kind, costs in names["costs"].items():
        assert costs.shape == trace.attention[kind].shape[:2]


_CHECKS = {
    "from-python": check_a_sentence,
    "a-training": check_a_training,
    "hugging-face": check_a_model_of_ones_own,
}
