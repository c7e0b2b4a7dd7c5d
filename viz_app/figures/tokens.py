"""Rows of tokens as HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from viz_app.figures.theme import Theme, text_on_weight, weight_colour

_TOKEN = (
    "display:inline-block;padding:1px 6px;margin:2px 3px 2px 0;border-radius:4px;"
    "border:1px solid {border};background:{background};color:{colour}"
)


def token_row(
    labels: Sequence[str],
    *,
    theme: Theme,
    probabilities: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    selected: int | None = None,
    language: str = "",
) -> str:
    """Tokens in reading order, each shaded by its probability where these are given.

    Args:
        labels: one a token.
        theme: colours.
        probabilities: from 0 to 1, one a token.
        titles: shown when the mouse rests on a token.
        selected: a token to frame.
        language: its code, for screen readers and fonts.

    Raises:
        ValueError: if the sequences differ in length.
    """
    for name, given in (("probabilities", probabilities), ("titles", titles)):
        if given is not None and len(given) != len(labels):
            raise ValueError(f"expected {len(labels)} {name}, got {len(given)}")
    tokens = []
    for index, label in enumerate(labels):
        weight = probabilities[index] if probabilities is not None else None
        style = _TOKEN.format(
            border=theme.accent if index == selected else theme.line,
            background=weight_colour(theme, weight) if weight is not None else "transparent",
            colour=text_on_weight(theme, weight) if weight is not None else theme.text,
        )
        title = f' title="{escape(titles[index])}"' if titles is not None else ""
        tokens.append(f'<bdi style="{style}"{title}>{escape(label)}</bdi>')
    return (
        f'<div class="tokens" lang="{escape(language)}" dir="auto" '
        f'style="line-height:1.9;font-size:1.05rem">{"".join(tokens)}</div>'
    )
