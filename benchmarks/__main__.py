"""Headwise beside the tools that one would pick instead: ``python -m benchmarks``.

Runs all parts, or those that are named, and writes ``results.md``, ``results.json`` and, with
``growth``, ``results.svg`` into a folder; git keeps only the first. Peers are in
``benchmarks/requirements.txt``. Nothing else should run meanwhile.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from benchmarks.report import Findings, Tick
from benchmarks.written import Part, write_results

PARTS = (
    "forward",
    "capture",
    "trace",
    "pretrained",
    "research",
    "account",
    "patching",
    "greedy",
    "training",
    "pages",
    "reruns",
    "felt",
    "start",
    "growth",
    "live",
    "plenty",
    "load",
)
"""Modules of ``benchmarks.parts``, in the order in which they run."""


@dataclass(frozen=True)
class BenchmarkArguments:
    """Measure Headwise beside its peers."""

    parts: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Some of forward, capture, trace, pretrained, research, account, patching, greedy, training,
    pages, reruns, felt, start, growth, live, plenty, load; else all."""
    rounds: int = 10
    """Alternating runs of everything that is compared."""
    out: Path = Path(__file__).parent
    """Folder for results.md, results.json and results.svg."""


def main(arguments: BenchmarkArguments) -> int:
    """Measure and write; 1 if a part could not be measured, 2 on wrong arguments."""
    if unknown := set(arguments.parts) - set(PARTS):
        print(f"no part named {min(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if arguments.rounds < 1:
        print(f"rounds: expected at least 1, got {arguments.rounds}", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore", message=".*nested tensors.*")  # what torch.nn itself uses
    parts = [part for part in PARTS if part in (arguments.parts or PARTS)]
    found: list[Part] = []
    for name in parts:
        began = time.monotonic()
        try:
            module = importlib.import_module(f"benchmarks.parts.{name}")
            with tqdm(total=module.STEPS, desc=name, unit="step") as progress:
                findings = module.measure(rounds=arguments.rounds, tick=_tick(progress))
        except ModuleNotFoundError as error:
            message = f"{error}; pip install -r requirements-dev.txt -r benchmarks/requirements.txt"
            findings = Findings((), fault=message)
        except (RuntimeError, ValueError, OSError, AssertionError) as error:
            findings = Findings((), fault=f"{type(error).__name__}: {error}")
        found.append(Part(name, findings, time.monotonic() - began))
        write_results(found, arguments.out, rounds=arguments.rounds)  # what is there, if it stops
    for part in found:
        for rule in part.findings.rules:
            print("holds " if rule.held else "MISSED", rule.what, f"{rule.value:.3g}")
        if part.findings.fault:
            print(f"{part.name}: {part.findings.fault}", file=sys.stderr)
    print(f"written: {arguments.out / 'results.md'}")
    return int(any(part.findings.fault for part in found))


def _tick(progress: tqdm[None]) -> Tick:
    def tick(what: str) -> None:
        progress.set_postfix_str(what)
        progress.update()

    return tick


if __name__ == "__main__":
    sys.exit(main(tyro.cli(BenchmarkArguments)))
