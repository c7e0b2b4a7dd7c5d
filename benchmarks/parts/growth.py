"""How time, bytes and memory grow with the sentence, the model's layers, and the corpus.

Attention compares every token with every other: nothing may grow faster than the square of the
sentence's length. Heads are measured in as much memory however long the corpus is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.growth_measures import CorpusCost, measure_apart, write_task
from benchmarks.growth_page import draw_pages
from benchmarks.growth_steps import run_steps
from benchmarks.report import Curve, Findings, Plot, Rule, Table, Tick
from benchmarks.rounds import median
from benchmarks.runs import Figures, Size, write_run
from benchmarks.sizes import model_of
from headwise.model.checkpoint import open_trained_run

_TOKENIZERS_OF = "en-es"
_SQUARE, _LINEAR = 2.1, 1.1
"""Most that an exponent may be; 0.1 is left to noise."""
_MORE_MEMORY = 10.0
"""MiB that the longest corpus may take more than that of the middle size."""
_TOKENS = 1_000
"""Of all rounds of a size, if these are more than two."""
_NOTES = (
    "Trace and page are of a forced target, as long as the source; the decoding of one as long "
    "stands beside them. A page is drawn by a server with one thread: from the sentence sent to "
    "its script finished, and all bytes received meanwhile.",
    "The exponent is the slope of log y over log x from the middle size on, where what does not "
    "grow counts for little.",
    f"Sentences of more than {_TOKENS // 10} tokens are measured in fewer rounds, in two at least; "
    "each corpus once, without the start of Python.",
    f"{_MORE_MEMORY:.0f} MiB are 100 bytes a sentence, less than its two short texts alone would "
    "take if they were kept. (A tenth of all memory would let four times as much pass, since "
    "libraries alone take 400 MiB.)",
)
Grown = Mapping[str, Mapping[int, float]]
"""Step with its unit → size → median."""


@dataclass(frozen=True)
class Sizes:
    """What is measured against what."""

    tokens: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1_000)
    layers: tuple[int, ...] = (1, 2, 3, 6, 12)
    at_layers: int = 3
    at_tokens: int = 50
    sentences: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)

    @property
    def by_tokens(self) -> dict[int, Size]:
        """Growing sentences."""
        return {n: Size(self.at_layers, n) for n in self.tokens}

    @property
    def by_layers(self) -> dict[int, Size]:
        """Growing models."""
        return {n: Size(n, self.at_tokens) for n in self.layers}

    def rounds(self, most: int) -> dict[Size, int]:
        """How often each size is measured: long sentences less often, but twice."""
        sizes = [*self.by_tokens.values(), *self.by_layers.values()]
        return {size: min(most, max(2, _TOKENS // size.tokens)) for size in sizes}

    @property
    def ticks(self) -> int:
        """How often ``grow`` ticks."""
        return 2 * len(self.rounds(1)) + len(self.sentences)


_SIZES = Sizes()
STEPS = _SIZES.ticks


def measure(*, rounds: int, tick: Tick) -> Findings:
    """All steps over all sizes."""
    return grow(_SIZES, rounds=rounds, tick=tick)


def grow(sizes: Sizes, *, rounds: int, tick: Tick) -> Findings:
    """All steps over some sizes.

    Raises:
        RuntimeError: if what was measured is not right.
    """
    tokenizers = open_trained_run(_TOKENIZERS_OF).tokenizers
    often = sizes.rounds(rounds)
    figures = run_steps(tokenizers, often, tick)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        longest = max(size.tokens for size in often)
        runs = {size.layers: f"layers-{size.layers}" for size in often}
        for layers, name in runs.items():
            model = model_of(n_layers=layers, max_length=longest)
            write_run(root / name, model, tokenizers, source="en", target="es")
        figures |= draw_pages(root, runs, often, tick)
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        write_task(Path(folder), sizes.sentences)
        for size in sizes.sentences:
            measured[size] = measure_apart(Path(folder), size)
            tick(f"measures over {size:,} sentences")
    return findings(sizes, figures, measured)


def findings(sizes: Sizes, figures: Figures, measured: Mapping[int, CorpusCost]) -> Findings:
    """Tables, curves and rules of what was measured."""
    axes: dict[str, Grown] = {
        axis: {
            name: {x: median(by_size[size]) for x, size in among.items()}
            for name, by_size in figures.items()
        }
        for axis, among in (("tokens", sizes.by_tokens), ("layers", sizes.by_layers))
    }
    axes["sentences"] = {
        "measures (s)": {size: found.seconds for size, found in measured.items()},
        "measures (MiB)": {size: found.memory for size, found in measured.items()},
    }
    middle, most = sizes.sentences[_middle(sizes.sentences)], sizes.sentences[-1]
    constant = Rule(
        f"measures: MiB more over {most:,} sentences than over {middle:,}",
        measured[most].memory - measured[middle].memory,
        _MORE_MEMORY,
    )
    raw = {
        f"{name}, {size.tokens:,} tokens, {size.layers} layers": values
        for name, by_size in figures.items()
        for size, values in by_size.items()
    }
    raw |= {f"{name}, by corpus": list(v.values()) for name, v in axes["sentences"].items()}
    return Findings(
        tables=tuple(_table(axis, grown) for axis, grown in axes.items()),
        rules=(*(rule for axis, grown in axes.items() for rule in _rules(axis, grown)), constant),
        notes=_NOTES,
        plots=tuple(plot for axis, grown in axes.items() for plot in _plots(axis, grown)),
        raw=raw,
    )


def exponent(values: Mapping[int, float]) -> float:
    """The slope of log y over log x by least squares, from the middle size on."""
    x, y = np.log([*values.items()]).T[:, _middle(values) :]
    return float(np.polyfit(x, y, 1)[0])


def _middle(sizes: Collection[int]) -> int:
    return (len(sizes) - 1) // 2


def _table(axis: str, grown: Grown) -> Table:
    sizes = next(iter(grown.values()))
    return Table(
        f"Growth with {axis}",
        ("", *(f"{size:,}" for size in sizes), "exponent"),
        tuple((name, *values.values(), exponent(values)) for name, values in grown.items()),
    )


def _rules(axis: str, grown: Grown) -> list[Rule]:
    limit = _SQUARE if axis == "tokens" else _LINEAR
    return [
        Rule(f"{name}: exponent of {axis}", exponent(values), limit)
        for name, values in grown.items()
        if not name.endswith("(MiB)")  # memory has a rule of its own
    ]


def _plots(axis: str, grown: Grown) -> list[Plot]:
    """One for each unit; a curve's name has its exponent."""
    by_unit: dict[str, list[Curve]] = {}
    for name, values in grown.items():
        step, _, unit = name.rpartition(" ")
        slope = f"{step} ({exponent(values):.2f})"
        curve = Curve(slope, tuple(map(float, values)), tuple(values.values()))
        by_unit.setdefault(unit.strip("()"), []).append(curve)
    return [
        Plot(f"Growth with {axis}", axis, unit, tuple(curves)) for unit, curves in by_unit.items()
    ]
