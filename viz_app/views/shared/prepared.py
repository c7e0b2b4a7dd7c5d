"""Pairs of sentences that differ in one thing, and a sentence with one word changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from headwise.model.files import lines_of
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.cache import cached

_FOLDER = Path(__file__).parents[2] / "sentences"
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class PreparedPair:
    """Two sentences that differ in one thing."""

    phenomenon: str
    a: str
    b: str


def prepared_pairs(run: Run) -> tuple[PreparedPair, ...]:
    """Return the pairs that come with Headwise in the source language of a run.

    Those with words that the run's vocabulary lacks are left out; so are all of other languages.
    """
    path = _FOLDER / f"two-{run.source_language}-{run.target_language}.jsonl"
    reader = TypeAdapter(PreparedPair)

    def read() -> tuple[PreparedPair, ...]:
        if not path.is_file():
            return ()
        rows = lines_of(path.read_bytes())
        pairs = (reader.validate_json(row) for row in rows)
        unknown = run.tokenizers.source.unknown
        return tuple(pair for pair in pairs if not (unknown(pair.a) or unknown(pair.b)))

    return cached("prepared pairs", (path.name, run.tokenizers_sha256), read)


def words_in(text: str) -> list[str]:
    """Return the words and marks of a text, in order."""
    return _WORD.findall(text)


def with_word(text: str, place: int, instead: str) -> str:
    """Return a text with one of ``words_in`` it replaced, or, by an empty one, left out."""
    found = list(_WORD.finditer(text))[place]
    changed = text[: found.start()] + instead.strip() + text[found.end() :]
    return changed if instead.strip() else " ".join(changed.split())
