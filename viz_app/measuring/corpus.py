"""Sentences as a person gives them: a corpus by name, a file, a list of pairs, a pasted text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from headwise.model.runs import Run, require_languages
from headwise.model.training.corpora import CorpusStream, stream_corpus
from headwise.model.training.data import DataError, Pair
from headwise.model.validation import check_text

Pairs = str | Path | Iterable[tuple[str, str]]
"""Source and target texts; or a file or a corpus by name, as the command lines read it."""
MOST_SENTENCES = 512  # that a person may give a page
MOST_BYTES = 256 * 2**10  # of the text that has them


def open_corpus(
    run: Run, name: str, *, split: str = "validation", columns: tuple[str, str] | None = None
) -> CorpusStream:
    """Open a file, or a corpus by name, in the languages of a run."""
    languages = {"source": run.source_language, "target": run.target_language}
    return stream_corpus(name, split=split, columns=columns, **languages)


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


def read_sentences(text: str) -> tuple[Pair, ...]:
    """Read a sentence a line; its target may follow after a tab, in all lines or in none.

    ValueError, naming the line and what to do, if there are too many, or a line has something else.
    """
    size = len(text.encode(errors="replace"))
    if size > MOST_BYTES:
        raise ValueError(
            f"the sentences have {size >> 10:,} KiB; at most {MOST_BYTES >> 10} are measured here: "
            "give fewer, or measure a file from a terminal"
        )
    pairs: list[Pair] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        source, *targets = (side.strip() for side in line.split("\t"))
        if "\ufffd" in line or "\0" in line:
            raise ValueError(f"line {number} is not UTF-8; save the file as UTF-8")
        check_text(line)
        if len(targets) > 1 or not source:
            raise ValueError(
                f"line {number}: expected a sentence, and perhaps a tab and its translation, got "
                f"{len(targets)} tabs"
            )
        pair = Pair(source, "".join(targets))
        if pairs and bool(pair.target) != bool(pairs[0].target):
            has = "has a" if pair.target else "has no"
            raise ValueError(
                f"line {number} {has} translation after a tab, unlike those before; give all of "
                "them, or none: then the model's own are taken"
            )
        pairs.append(pair)
    if not pairs:
        raise ValueError("there is no sentence yet: paste some, one a line, or drop a file of them")
    if len(pairs) > MOST_SENTENCES:
        raise ValueError(
            f"there are {len(pairs):,} sentences; at most {MOST_SENTENCES} are measured here: give "
            "fewer, or measure a file from a terminal"
        )
    return tuple(pairs)
