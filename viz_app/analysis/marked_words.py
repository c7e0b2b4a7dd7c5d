"""The words of a sentence, with marks on the query and the key of an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwise.model.interface import Kind
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.measures import Example
from headwise.viz_app.records.trace import Tokens

ROLES: Mapping[Kind, tuple[str, str]] = {
    "encoder_self": ("query: the word that looks", "key: the word it looks at"),
    "decoder_self": (
        "query: the word just consumed, after which the next is predicted",
        "key: the word it looks at",
    ),
    "cross": ("query: the word to be predicted", "key: the source word it looks at"),
}
"""What the marked query and key words of each kind are, for people."""


@dataclass(frozen=True)
class MarkedWord:
    """A word of a sentence may be marked as query, key or both."""

    before: str
    """White space before the word."""
    text: str
    mark: str
    """``query``, ``key``, ``query key`` or an empty string."""


def token_marks(kind: Kind, example: Example) -> tuple[dict[int, str], dict[int, str]]:
    """Return the tokens to mark in the source and in the whole target, as index → mark.

    Decoder row t consumes token t of the whole target (token 0 is ``<s>``) and predicts token
    t + 1. In cross-attention the predicted token is marked, in decoder self-attention the consumed
    one, since its keys are consumed tokens too.
    """
    source: dict[int, str] = {}
    target: dict[int, str] = {}
    queries = source if kind == "encoder_self" else target
    keys = target if kind == "decoder_self" else source
    queries[example.query + (kind == "cross")] = "query"
    keys[example.key] = f"{keys.get(example.key, '')} key".strip()
    return source, target


def marked_words(tokens: Tokens, marks: Mapping[int, str]) -> list[MarkedWord]:
    """Split a sentence into words, each with the marks of its tokens.

    Args:
        tokens: the tokens of the sentence.
        marks: marks of some tokens, by index.
    """
    spaced = any(token.startswith(" ") for token in tokens.texts)
    words: list[MarkedWord] = []
    for word in tokens.words:
        apart = tokens.texts[word.start].startswith(" ") or not spaced
        special = tokens.ids[word.start] in tokens.special_ids
        found = [marks[at] for at in range(word.start, word.stop) if at in marks]
        roles = dict.fromkeys(role for mark in found for role in mark.split())
        before = " " if words and (apart or special) else ""
        words.append(MarkedWord(before, make_visible(word.text), " ".join(roles)))
    return words
