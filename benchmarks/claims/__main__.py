"""Compute every claim about the runs that ship and print it: ``python -m benchmarks.claims``.

Ends with 1 if one does not hold, or does not stand where it should.
"""

from __future__ import annotations

import sys

from benchmarks.claims.table import CLAIMS, OF_CORPORA


def main() -> int:
    """Print what each claim says now, where, and by what it was seen; 1 if one is wrong."""
    wrong = 0
    for claim in CLAIMS:
        found = claim.find()
        right = found.holds and claim.stands(found)
        wrong += not right
        seen = f" ({found.seen})" if found.seen else ""
        print("holds " if right else "WRONG ", f"{claim.where}: {claim.said(found)}{seen}")
    for each in OF_CORPORA:
        print("corpus", f"{each.where}: {each.words} (by {each.by})")
    print(f"{len(CLAIMS) - wrong} of {len(CLAIMS)} claims hold; others need corpora")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
