"""``benchmarks/parts/growth.py``: sizes are what it says, and too much growth is noticed."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from benchmarks import growth_measures
from benchmarks.parts import growth
from benchmarks.runs import Sentences
from headwise.model.checkpoint import open_trained_run
from tests.floats import near

_FILES = ("trace", "export .html", "export .npz", "export .json", "page")


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that would be started in a process of their own run here."""

    def run(command: Sequence[str], **_: Any) -> CompletedProcess[str]:
        _, flag, module, *arguments = command
        assert flag == "-m"
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [module, *arguments])
            patch.delitem(sys.modules, module)
            runpy.run_module(module, run_name="__main__")
        return CompletedProcess(command, 0, capsys.readouterr().out, "")

    monkeypatch.setattr("subprocess.run", run)


@pytest.mark.usefixtures("in_this_process")
def test_every_step_is_measured_at_every_size() -> None:
    sizes = growth.Sizes((5, 9), (1, 2), 1, 7, (3, 40))
    ticks: list[str] = []
    # In a thread of its own: the browser's tests may have left a running loop in this one.
    with ThreadPoolExecutor(1) as apart:
        found = apart.submit(growth.grow, sizes, rounds=1, tick=ticks.append).result()
    assert len(ticks) == sizes.ticks
    tokens, layers, sentences = found.tables
    of_files = {f"{name} ({unit})" for name in _FILES for unit in ("s", "MB")}
    assert {row[0] for row in tokens.rows} == of_files | {"decoding (s)"}
    assert [row[0] for row in tokens.rows] == [row[0] for row in layers.rows]
    assert [row[0] for row in sentences.rows] == ["measures (s)", "measures (MiB)"]
    assert tokens.columns == ("", "5", "9", "exponent")
    assert layers.columns == ("", "1", "2", "exponent")
    for table in found.tables:
        assert all(value > 0 for _, *values, _ in table.rows for value in values)
    more = {row[0]: row[2] > row[1] for row in (*tokens.rows, *layers.rows) if "MB" in row[0]}
    assert all(more.values()), more


def test_sentences_have_as_many_tokens_as_asked() -> None:
    tokenizers = open_trained_run("en-es").tokenizers
    sentences = Sentences(tokenizers, seed=3)
    for tokens in (2, 17, 1_000):
        text = sentences.of(tokens)
        assert len(tokenizers.encode_source(text)) == tokens
        assert len(tokenizers.encode_target(text)) == tokens + 1


@pytest.mark.usefixtures("in_this_process")
def test_a_corpus_must_be_measured_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_measures, "pairs", lambda count: [("ba", "ba")] * count)
    growth_measures.write_task(tmp_path, [4])
    with pytest.raises(RuntimeError, match="expected measures of 4 sentences, got those of 1"):
        growth_measures.measure_apart(tmp_path, 4)


def test_more_than_the_square_is_noticed() -> None:
    constant_at_first = {x: max(2_500, x**2) for x in (10, 20, 50, 100, 200)}
    assert growth.exponent(constant_at_first) == near(2)
    sizes = growth.Sizes((10, 20, 50), (1, 2), 3, 50, (1_000, 10_000, 100_000))

    def missed(*, tokens: float = 2, layers: float = 1, sentences: float = 1) -> list[str]:
        """Rules that are not held where something grows by these powers."""
        steps = {size: [size.layers**layers * size.tokens**tokens] for size in sizes.rounds(1)}
        measured = {n: growth_measures.CorpusCost(n**sentences, 400) for n in sizes.sentences}
        found = growth.findings(sizes, {"trace (s)": steps}, measured)
        return [rule.what for rule in found.rules if not rule.held]

    assert missed() == []
    assert missed(tokens=2.2) == ["trace (s): exponent of tokens"]
    assert missed(layers=1.2) == ["trace (s): exponent of layers"]
    assert missed(sentences=1.2) == ["measures (s): exponent of sentences"]
