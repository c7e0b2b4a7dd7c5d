"""What the parts found, written as ``results.md``, ``results.json`` and ``results.svg``."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.report import Cell, Findings, Plot, Rule, Table

_PACKAGES = (
    "torch",
    "streamlit",
    "plotly",
    "tokenizers",
    "transformers",
    "ctranslate2",
    "transformer-lens",
    "bertviz",
)
MISSES = 2
"""Rules that may be missed, …"""
MISSED_BY = 0.2
"""… each by this part of its limit."""


@dataclass(frozen=True)
class Part:
    """A part that was run."""

    name: str
    findings: Findings
    seconds: float


def machine() -> dict[str, str]:
    """What it was measured on: system, processor, cores, Python, packages."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():  # Linux says nothing of it elsewhere
        lines = cpuinfo.read_text().splitlines()
        named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        processor = next(named, processor)
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{processor}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    } | versions


def write_results(parts: Sequence[Part], folder: Path, *, rounds: int) -> None:
    """Write all three files anew."""
    folder.mkdir(parents=True, exist_ok=True)
    on = machine()
    content = {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "rounds": rounds,
        "machine": on,
        "parts": [asdict(part) for part in parts],
    }
    (folder / "results.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    plots = [plot for part in parts for plot in part.findings.plots]
    if plots:
        _draw(plots, folder / "results.svg")
    lines = [
        "# Results",
        "",
        "Written by `python -m benchmarks`; `README.md` beside it says how to read it.",
        f"Medians of {rounds} rounds in which everything that is compared runs in turn; ratios are",
        "medians of the rounds' own ratios. D = 128, 4 heads, 3 + 3 layers, d_ff = 512, 9,760",
        "tokens, float32, unless said.",
        "",
        *(f"* {name}: {value}" for name, value in on.items()),
        "",
        *_rules(parts),
    ]
    for part in parts:
        lines += [f"## {part.name}", ""]
        if part.findings.fault:
            lines += [f"Not measured: {part.findings.fault}", ""]
        for table in part.findings.tables:
            lines += [*markdown(table), ""]
        for note in part.findings.notes:
            lines += [note, ""]
        lines += [f"Took {part.seconds / 60:.1f} min.", ""]
    (folder / "results.md").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")


def _rules(parts: Iterable[Part]) -> list[str]:
    rules = [rule for part in parts for rule in part.findings.rules]
    missed = [rule for rule in rules if not rule.held]
    far = sum(rule.missed_by > MISSED_BY for rule in missed)
    rows = tuple((rule.what, rule.value, _limit(rule), _verdict(rule)) for rule in rules)
    said = f"{len(rules) - len(missed)} of {len(rules)} rules hold"
    if missed:
        said += f"; of those missed, {far} by more than {MISSED_BY:.0%}"
    return [
        "## What must hold",
        "",
        f"{said}. At most {MISSES} may be missed, none by more than {MISSED_BY:.0%}.",
        "",
        *markdown(Table("", ("", "measured", "limit", ""), rows)),
        "",
    ]


def _limit(rule: Rule) -> str:
    return f"{'≥' if rule.at_least else '≤'} {shown(rule.limit)}"


def _verdict(rule: Rule) -> str:
    return "holds" if rule.held else f"missed by {rule.missed_by:.0%}"


def markdown(table: Table) -> list[str]:
    """A table's lines in Markdown, its title above it."""
    if len(table.rows) == 0:
        return [f"**{table.title}**: nothing measured"]
    lines = [f"**{table.title}**", ""] if table.title else []
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|" + "---|" * len(table.columns))
    lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in table.rows]
    return lines


def shown(cell: Cell) -> str:
    """A cell as text: three digits of a float, thousands apart, a dash for None."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def _draw(plots: Sequence[Plot], path: Path) -> None:
    from matplotlib.figure import Figure  # only where there is something to draw

    figure = Figure(figsize=(12, 4.2 * -(-len(plots) // 2)), layout="constrained")
    for place, plot in enumerate(plots, 1):
        axes = figure.add_subplot(-(-len(plots) // 2), 2, place)
        for curve in plot.curves:
            axes.loglog(curve.x, curve.y, marker="o", markersize=4, label=curve.name)
        axes.set(title=plot.title, xlabel=plot.x_title, ylabel=plot.y_title)
        low, high = axes.get_ylim()
        if high < 2 * low:  # or noise would fill the plot
            axes.set_ylim(low / 2, high * 2)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})
