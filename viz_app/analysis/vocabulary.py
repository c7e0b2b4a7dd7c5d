"""Labels of the tokens of a vocabulary."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from headwise.viz_app.analysis.labels import CONTINUATION, token_label

_NO_TEXT = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2}|unused [0-9]+)>")


def vocabulary_labels(
    tokens: Sequence[str], *, spaced: bool, control_ids: Container[int] = ()
) -> tuple[str, ...]:
    """Label each token of a vocabulary.

    Args:
        tokens: texts of all tokens, as in the vocabulary.
        spaced: whether a token that begins a word has a space before it. Labels of tokens without
            that space then begin with ``·``, so that ``the`` and ``·the`` differ.
        control_ids: places of tokens that stand for no text.
    """
    return tuple(
        token_label(token)
        if not spaced or token.startswith(" ") or id in control_ids or _NO_TEXT.fullmatch(token)
        else CONTINUATION + token_label(token)
        for id, token in enumerate(tokens)
    )
