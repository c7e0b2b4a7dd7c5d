"""Headwise beside the tools that one would pick instead: ``python -m benchmarks``.

Runs all parts, or those that are named, and writes ``results.md`` into a folder. Peers
are in ``benchmarks/requirements.txt``. Nothing else should run meanwhile.
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

from benchmarks.report import Findings, write_results

PARTS = {
    "forward": ("compared.forward", "a pass beside Marian (sdpa) and torch.nn.Transformer"),
    "capture": ("compared.capture", "all attention recorded, beside Marian and TransformerLens"),
    "trace": ("compared.trace", "a trace beside Marian's attention and BertViz's model view"),
    "greedy": ("compared.greedy", "greedy decoding beside Marian's generate and CTranslate2"),
    "training": ("compared.training", "an optimiser step beside Marian and torch.nn.Transformer"),
    "pages": ("pages.measure", "a new sentence in Chromium beside BertViz: bytes and seconds"),
    "reruns": ("reruns.measure", "the server's processor: a sentence, another head or page"),
    "felt": ("web_vitals.measure", "Core Web Vitals of every page and of ten clicks; page turns"),
    "start": ("start.measure", "seconds from the process to the first map, and its imports"),
    "growth": ("growth.measure", "seconds and bytes of a page by the tokens of its sentence"),
    "load": ("load.measure", "1, 5 and 20 sessions at once on one server"),
}
"""Name → function, given ``Findings`` to add to and a number of rounds; what it measures."""
_NAMED = "\n\n".join(f"{name}: {what}." for name, (_, what) in PARTS.items())


@dataclass(frozen=True)
class BenchmarkArguments:
    """Measure Headwise beside its peers."""

    parts: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(help=f"Some, else all.\n\n{_NAMED}")
    ] = ()
    rounds: int = 10
    """Alternating runs of everything that is compared."""
    out: Path = Path(__file__).parent
    """Folder for results.md."""


def main(arguments: BenchmarkArguments) -> int:
    """Measure and write; 1 if a part could not be measured, 2 on wrong arguments."""
    if unknown := set(arguments.parts) - set(PARTS):
        print(f"no part named {min(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if arguments.rounds < 1:
        print(f"rounds: expected at least 1, got {arguments.rounds}", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore", message=".*nested tensors.*")  # what torch.nn itself uses
    parts: list[Findings] = []
    for name in [part for part in PARTS if part in (arguments.parts or PARTS)]:
        print(f"{name}: {PARTS[name][1]}", file=sys.stderr)
        parts.append(measured(name, arguments.rounds))
        write_results(parts, arguments.out, rounds=arguments.rounds)  # what is there, if it stops
    for part in parts:
        for rule in part.rules:
            print("holds " if rule.missed_by is None else "MISSED", rule.what, f"{rule.value:.3g}")
        if part.fault:
            print(f"{part.part}: {part.fault}", file=sys.stderr)
    print(f"written: {arguments.out / 'results.md'}")
    return int(any(part.fault for part in parts))


def measured(name: str, rounds: int) -> Findings:
    """What a part finds, or why it could not be measured."""
    module, _, function = PARTS[name][0].partition(".")
    found, began = Findings(name), time.monotonic()
    try:
        getattr(importlib.import_module(f"benchmarks.{module}"), function)(found, rounds)
    except ModuleNotFoundError as error:
        install = "pip install -r requirements-dev.txt -r benchmarks/requirements.txt"
        found = Findings(name, fault=f"{error}; {install}")
    except (RuntimeError, ValueError, OSError, AssertionError) as error:
        found = Findings(name, fault=f"{type(error).__name__}: {error}")
    found.seconds = time.monotonic() - began
    return found


if __name__ == "__main__":
    sys.exit(main(tyro.cli(BenchmarkArguments)))
