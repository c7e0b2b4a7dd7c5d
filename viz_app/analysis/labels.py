"""Names as people can read them: of kinds of attention, and of pieces, with nothing invisible."""

from __future__ import annotations

import unicodedata

from viz_app.records import Kind, Tokens

KIND_NAMES: dict[Kind, str] = {
    "encoder_self": "Encoder self",
    "decoder_self": "Decoder self",
    "cross": "Cross",
}
KIND_NOTES: dict[Kind, str] = {
    "encoder_self": "A row is a source piece; it shows from which source pieces the head gathered "
    "for it.",
    "decoder_self": "A row is a step of decoding; it shows at which of the pieces consumed so far "
    "the head looked. Later ones are masked, in grey.",
    "cross": "A row is a step of decoding; it shows at which source pieces the head looked: at the "
    "encoder's output there, which has gathered from other pieces too.",
}
"""What a map can tell, and what it cannot."""

_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}
CONTINUATION = "·"
"""Stands before a piece that goes on with the word of the piece before it."""


def visible(text: str) -> str:
    """Text with control and direction characters and bare spaces made visible."""
    if text.isspace():
        return "".join(_VISIBLE.get(character, "␣") for character in text)
    return "".join(
        _escaped(ord(character)) if unicodedata.category(character) in ("Cc", "Cf") else character
        for character in text
    )


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def piece_label(piece: str) -> str:
    """A piece without the space that marks the start of a word."""
    return visible(piece.removeprefix(" ") or piece)


def piece_labels(tokens: Tokens) -> list[str]:
    """One label a piece; ``·`` before those that go on with a word."""
    starts = {word.start for word in tokens.words}
    return [
        piece_label(piece) if index in starts else CONTINUATION + piece_label(piece)
        for index, piece in enumerate(tokens.pieces)
    ]


def word_labels(tokens: Tokens) -> list[str]:
    """One label a word."""
    return [visible(word.text) for word in tokens.words]
