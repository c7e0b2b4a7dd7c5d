"""Sentence pairs as a person gives them: a list, a file, or a corpus by name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from headwise.model.runs import Run, require_languages
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.measuring.batches import open_corpus

Pairs = str | Path | Iterable[tuple[str, str]]
"""Source and target texts; or a file or a corpus by name, as the command lines read it."""


def read_pairs(
    pairs: Pairs, run: Run, *, columns: tuple[str, str] | None = None, most: int | None = None
) -> list[Pair]:
    """Read pairs for the languages of a run, at most so many.

    DataError if a file cannot be read as pairs, or there are none. ValueError if what is given is
    no pairs of texts, or no language is known.
    """
    if isinstance(pairs, str | Path):
        require_languages(run, columns)
        found = list(islice(open_corpus(run, str(pairs), columns=columns).pairs, most))
    else:
        found = [_pair(each) for each in islice(pairs, most)]
    if not found:
        raise DataError("expected pairs of a source and a target, got none")
    return found


def _pair(given: object) -> Pair:
    if (
        isinstance(given, tuple | list)
        and len(given) == 2
        and all(isinstance(x, str) for x in given)
    ):
        return Pair(*(text.strip() for text in given))
    raise ValueError(f"pairs: expected (source, target) texts, got {given!r:.60}")
