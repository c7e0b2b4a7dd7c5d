"""What a part of the benchmarks finds, tables and rules, and ``results.md``; measuring in rounds.

Everything that is compared runs once in each round, in turn: what disturbs the machine then
disturbs all of them. Ratios are taken round by round.
"""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

Cell = str | int | float | None
Seconds = dict[str, list[float]]
"""What was measured → seconds a call, one for each round."""
_AT_LEAST = 0.05
"""Seconds of one measurement: quicker calls are repeated within it."""
_PACKAGES = (
    *("torch", "streamlit", "plotly", "tokenizers", "transformers"),
    *("ctranslate2", "transformer-lens", "bertviz"),
)
MISSES, MISSED_BY = 2, 0.2
"""Rules that may be missed, each by this part of its limit."""


@dataclass(frozen=True)
class Rule:
    """What must hold of a measured figure."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def missed_by(self) -> float | None:
        """By what part of the limit it is missed; None where it is held, not by NaN."""
        held = self.value >= self.limit if self.at_least else self.value <= self.limit
        return None if held else abs(self.value - self.limit) / (self.limit or 1)


@dataclass
class Findings:
    """What a part finds; it adds to this as it goes."""

    part: str
    tables: list[str] = field(default_factory=list)
    """In Markdown."""
    rules: list[Rule] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: str = ""
    """Why it could not be measured."""
    seconds: float = 0.0

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Add a table."""
        self.tables.append(f"**{title}**\n\n{markdown(columns, rows)}")

    def rule(self, what: str, value: float, limit: float, *, at_least: bool = False) -> None:
        """Add what must hold."""
        self.rules.append(Rule(what, value, limit, at_least))


def machine() -> dict[str, str]:
    """What it was measured on: system, processor, cores, Python, packages."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():  # Linux says nothing of it elsewhere
        lines = cpuinfo.read_text().splitlines()
        named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        processor = next(named, processor)
    installed = {each.name: each.version for each in metadata.distributions()}
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{processor}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    } | {name: installed.get(name, "not installed") for name in _PACKAGES}


_HEAD = """# Results

Written by `python -m benchmarks`; `README.md` beside it says how to read it.
Medians of {rounds} rounds in which everything that is compared runs in turn; ratios are
medians of the rounds' own ratios. D = 128, 4 heads, 3 + 3 layers, d_ff = 512, 9,760
tokens, float32, unless said.
"""


def write_results(parts: Sequence[Findings], folder: Path, *, rounds: int) -> None:
    """Write ``results.md`` anew."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = [rule for part in parts for rule in part.rules]
    missed = [rule.missed_by for rule in rules if rule.missed_by is not None]
    said = f"{len(rules) - len(missed)} of {len(rules)} rules hold"
    if missed:
        by_more = sum(by > MISSED_BY for by in missed)
        said += f"; of those missed, {by_more} by more than {MISSED_BY:.0%}"
    said += f". At most {MISSES} may be missed, none by more than {MISSED_BY:.0%}.\n"
    rows: list[Sequence[Cell]] = []
    for rule in rules:
        limit = f"{'≥' if rule.at_least else '≤'} {shown(rule.limit)}"
        by = "holds" if rule.missed_by is None else f"missed by {rule.missed_by:.0%}"
        rows.append((rule.what, rule.value, limit, by))
    blocks = [_HEAD.format(rounds=rounds)]
    blocks += ["\n".join(f"* {name}: {value}" for name, value in machine().items()) + "\n"]
    blocks += ["## What must hold\n", said, markdown(("", "measured", "limit", ""), rows)]
    for part in parts:
        blocks += [f"## {part.part}\n"]
        blocks += [f"Not measured: {part.fault}\n"] if part.fault else []
        blocks += [*part.tables, *(f"{note}\n" for note in part.notes)]
        blocks += [f"Took {part.seconds / 60:.1f} min.\n"]
    (folder / "results.md").write_text("\n".join(blocks), encoding="utf-8")


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(shown, row)) + " |" for row in rows), ""])


def shown(cell: Cell) -> str:
    """A cell as text: three digits of a float, thousands apart, a dash for None."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def in_rounds(calls: Mapping[str, Callable[[], object]], rounds: int) -> Seconds:
    """Seconds of each call in each round, after a warm-up; the order turns from round to round."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    seconds: Seconds = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for round in range(rounds):
            first = round % len(names)
            for name in names[first:] + names[:first]:
                began = time.perf_counter()
                for _ in range(repeats[name]):
                    calls[name]()
                seconds[name].append((time.perf_counter() - began) / repeats[name])
    finally:
        gc.enable()
    return seconds


def _repeats(call: Callable[[], object]) -> int:
    for _ in range(2):  # the first is a warm-up
        began = time.perf_counter()
        call()
        taken = time.perf_counter() - began
    return max(1, round(_AT_LEAST / taken))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over rounds of ours / theirs."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
