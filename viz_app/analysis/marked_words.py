"""A sentence as its words, of which those of some pieces are marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viz_app.analysis.labels import visible
from viz_app.measure_records import Example
from viz_app.records import Kind, Tokens

ROLES: Mapping[Kind, tuple[str, str]] = {
    "encoder_self": ("query: the word that looks", "key: the word it looks at"),
    "decoder_self": (
        "query: the word just consumed, after which the next is predicted",
        "key: the word it looks at",
    ),
    "cross": ("query: the word to be predicted", "key: the source word it looks at"),
}
"""What the two marked words of an example are, for people."""


@dataclass(frozen=True)
class MarkedWord:
    """A word and what is before it: ``query``, ``key``, both, or nothing marks it."""

    before: str
    text: str
    mark: str


def marked_places(kind: Kind, example: Example) -> tuple[dict[int, str], dict[int, str]]:
    """Pieces to mark in the source and in the whole target, ``<s>`` included: place → mark.

    A decoder row t consumes piece t of the whole target and predicts piece t + 1. In
    cross-attention it is the predicted one that is marked; in decoder self-attention the consumed
    one, as its keys are consumed pieces too.
    """
    source: dict[int, str] = {}
    target: dict[int, str] = {}
    queries = source if kind == "encoder_self" else target
    keys = target if kind == "decoder_self" else source
    queries[example.query + (kind == "cross")] = "query"
    keys[example.key] = f"{keys.get(example.key, '')} key".strip()
    return source, target


def marked_words(tokens: Tokens, marks: Mapping[int, str]) -> list[MarkedWord]:
    """The words of a sentence, with the marks of their pieces.

    Args:
        tokens: of the sentence.
        marks: place of a piece → mark; others have none.
    """
    spaced = any(piece.startswith(" ") for piece in tokens.pieces)
    words: list[MarkedWord] = []
    for word in tokens.words:
        apart = tokens.pieces[word.start].startswith(" ") or not spaced
        special = tokens.ids[word.start] in (2, 3)
        found = [marks[at] for at in range(word.start, word.stop) if at in marks]
        roles = dict.fromkeys(role for mark in found for role in mark.split())
        before = " " if words and (apart or special) else ""
        words.append(MarkedWord(before, visible(word.text), " ".join(roles)))
    return words
