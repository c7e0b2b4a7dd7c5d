"""The tokens of a vocabulary by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from viz_app.analysis.labels import CONTINUATION, piece_label

_NO_TEXT = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>")


def vocabulary_labels(pieces: Sequence[str], *, spaced: bool) -> tuple[str, ...]:
    """One label a token.

    Args:
        pieces: of the whole vocabulary, as they stand in it.
        spaced: whether pieces keep the space before them; those without one, which go on with what
            is before them, then have a ``·`` in front, so that ``the`` and ``·the`` differ.
    """
    return tuple(
        piece_label(piece)
        if not spaced or piece.startswith(" ") or _NO_TEXT.fullmatch(piece)
        else CONTINUATION + piece_label(piece)
        for piece in pieces
    )
