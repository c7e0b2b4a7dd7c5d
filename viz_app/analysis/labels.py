"""Names of kinds of attention, and labels of tokens and words without invisible characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from headwise.model.interface import Kind
from headwise.viz_app.records.trace import Tokens

KIND_NAMES: dict[Kind, str] = {
    "encoder_self": "Encoder self",
    "decoder_self": "Decoder self",
    "cross": "Cross",
}
KIND_NOTES: dict[Kind, str] = {
    "encoder_self": "A row is a source token; it shows from which source tokens the head gathered "
    "for it.",
    "decoder_self": "A row is a step of decoding; it shows at which of the tokens consumed so far "
    "the head looked. Later ones are masked, in grey.",
    "cross": "A row is a step of decoding; it shows at which source tokens the head looked: at the "
    "encoder's output there, which has gathered from other tokens too.",
}
"""How to read a map of each kind."""

_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}
CONTINUATION = "·"
"""Prefix of the label of a token that does not begin a word."""


def make_visible(text: str) -> str:
    """Replace control characters, format characters and bare white space by visible symbols."""
    if text.isspace():
        return "".join(_VISIBLE.get(character, "␣") for character in text)
    return "".join(
        _escaped(ord(character)) if unicodedata.category(character) in ("Cc", "Cf") else character
        for character in text
    )


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def token_label(token: str) -> str:
    """Label a token: its visible text, without the space that marks the beginning of a word."""
    return make_visible(token.removeprefix(" ") or token)


def token_labels(tokens: Tokens) -> list[str]:
    """Label each token; ``·`` precedes tokens that do not begin a word."""
    starts = {word.start for word in tokens.words}
    return [
        token_label(token) if index in starts else CONTINUATION + token_label(token)
        for index, token in enumerate(tokens.texts)
    ]


def next_token_label(token: str, *, spaced: bool) -> str:
    """Label a token that may come next: ``·`` precedes one that would go on with a word.

    Args:
        token: its text.
        spaced: whether a token that begins a word has a space before it.
    """
    goes_on = spaced and token[:1].isalnum()
    return CONTINUATION * goes_on + token_label(token)


def numbered(labels: Sequence[str]) -> list[str]:
    """Put its place before each label, counted from 1 as places in a text are on all pages.

    (``pos`` in the formula of positional encodings counts from 0.)
    """
    return [f"{place}: {label}" for place, label in enumerate(labels, 1)]


def word_labels(tokens: Tokens) -> list[str]:
    """Label each word by its visible text."""
    return [make_visible(word.text) for word in tokens.words]
