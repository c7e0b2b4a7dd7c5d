"""What a part of the benchmarks finds: tables and rules, and ``results.md``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

Cell = str | int | float | None
_PACKAGES = (
    *("torch", "streamlit", "plotly", "tokenizers", "transformers"),
    *("ctranslate2", "transformer-lens", "bertviz"),
)
MISSES, MISSED_BY = 2, 0.2
"""Rules that may be missed, each by this part of its limit."""


@dataclass(frozen=True)
class Table:
    """Rows under column names; floats are shown with three digits, None as a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Rule:
    """What must hold of a measured figure."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        """Whether it does; a figure that is not a number does not."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def missed_by(self) -> float:
        """By what part of the limit it is missed, 0 where it is held."""
        return 0.0 if self.held else abs(self.value - self.limit) / self.limit


@dataclass
class Findings:
    """What a part finds; it adds to this as it goes."""

    part: str
    tables: list[Table] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: str = ""
    """Why it could not be measured."""
    seconds: float = 0.0

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Add a table."""
        self.tables.append(Table(title, columns, list(rows)))

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
    versions = dict.fromkeys(_PACKAGES, "not installed")
    versions |= {
        each.name: each.version for each in metadata.distributions() if each.name in versions
    }
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{processor}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    } | versions


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
    blocks = [_HEAD.format(rounds=rounds)]
    blocks += ["\n".join(f"* {name}: {value}" for name, value in machine().items()) + "\n"]
    blocks += ["## What must hold\n", _verdict(rules), _text(Table("", _COLUMNS, _rows(rules)))]
    for part in parts:
        blocks += [f"## {part.part}\n"]
        blocks += [f"Not measured: {part.fault}\n"] if part.fault else []
        blocks += [*map(_text, part.tables), *(f"{note}\n" for note in part.notes)]
        blocks += [f"Took {part.seconds / 60:.1f} min.\n"]
    (folder / "results.md").write_text("\n".join(blocks), encoding="utf-8")


_COLUMNS = ("", "measured", "limit", "")


def _rows(rules: Sequence[Rule]) -> list[tuple[Cell, ...]]:
    return [
        (
            rule.what,
            rule.value,
            f"{'≥' if rule.at_least else '≤'} {shown(rule.limit)}",
            "holds" if rule.held else f"missed by {rule.missed_by:.0%}",
        )
        for rule in rules
    ]


def _verdict(rules: Sequence[Rule]) -> str:
    missed = [rule.missed_by > MISSED_BY for rule in rules if not rule.held]
    said = f"{len(rules) - len(missed)} of {len(rules)} rules hold"
    if missed:
        said += f"; of those missed, {sum(missed)} by more than {MISSED_BY:.0%}"
    return f"{said}. At most {MISSES} may be missed, none by more than {MISSED_BY:.0%}.\n"


def _text(table: Table) -> str:
    return "\n".join(markdown(table)) + "\n"


def markdown(table: Table) -> list[str]:
    """A table's lines in Markdown, its title above it."""
    lines = [f"**{table.title}**", ""] if table.title else []
    lines += ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    return lines + ["| " + " | ".join(map(shown, row)) + " |" for row in table.rows]


def shown(cell: Cell) -> str:
    """A cell as text: three digits of a float, thousands apart, a dash for None."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def told(table: Table, faults: Sequence[str]) -> int:
    """Print a table and the first faults after it; 1 if there are any."""
    print("\n".join([*markdown(table), *faults[:20]]))
    if more := len(faults[20:]):
        print(f"… and {more} more")
    return int(bool(faults))
