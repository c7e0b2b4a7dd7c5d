"""Compute every claim about the runs that ship, and write them as a table.

python -m benchmarks.claims writes benchmarks/claims.md; the status is 1 if one does not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.claims.of_corpora import OF_CORPORA
from benchmarks.claims.record import ROOT, Claim, Found, OfCorpora
from benchmarks.claims.table import CLAIMS

_HEAD = """# What is said of the runs that ship

Written by `python -m benchmarks.claims`: each claim that a page, a lesson or a document makes
about a shipped run, with its figures as they are in the files of `checkpoints/`. The functions are
in `benchmarks/claims/`. A test computes each anew, and fails where it is not so any more, or where
the place does not have these words.

| claim | where | function | seen by |
|---|---|---|---|
"""
_CORPORA = """
## For which the corpora are needed

These figures are of data that do not ship. The test sees only that the words stand there; the
command computes them.

| claim | where | computed by |
|---|---|---|
"""


@dataclass(frozen=True)
class ClaimsArguments:
    """Compute every claim about the runs that ship, and write them as a table."""

    out: Path = ROOT / "benchmarks" / "claims.md"
    """File to write."""


def written(found: Iterable[tuple[Claim, Found]], of_corpora: Iterable[OfCorpora]) -> str:
    """Write the two tables as Markdown."""
    rows = [
        _row(claim.title or claim.said(each), f"`{claim.where}`", f"`{claim.function}`", each.seen)
        for claim, each in found
    ]
    others = [_row(each.words, f"`{each.where}`", f"`{each.by}`") for each in of_corpora]
    return _HEAD + "".join(rows) + _CORPORA + "".join(others)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").strip() for cell in cells) + " |\n"


def main(arguments: ClaimsArguments) -> int:
    """Compute and write; 1 if a claim does not hold, or is not said where it should be."""
    found = [(claim, claim.find()) for claim in CLAIMS]
    wrong = [claim for claim, each in found if not (each.holds and claim.stands(each))]
    for claim in wrong:
        print(f"{claim.where}: {claim.function} finds something else", file=sys.stderr)
    arguments.out.write_text(written(found, OF_CORPORA), encoding="utf-8")
    print(f"{len(found) - len(wrong)} of {len(found)} claims hold: {arguments.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(ClaimsArguments)))
