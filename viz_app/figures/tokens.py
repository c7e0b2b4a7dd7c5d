"""Draws tokens in a row as HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headwise.viz_app.figures.theme import Theme, text_on_weight, weight_colour, weight_scale

_TOKEN = (
    "display:inline-block;padding:1px 6px;margin:2px 3px 2px 0;border-radius:4px;"
    "border:1px solid {border};background:{background};color:{colour}"
)
_WITH_NUMBER = "display:inline-flex;flex-direction:column;align-items:center;vertical-align:top"
_NUMBER = "font-size:.7rem;line-height:1;margin-right:3px;"


def token_colours(theme: Theme, probability: float | None) -> dict[str, str]:
    """Return the ``background`` of a token and the ``colour`` of its text, as CSS has them."""
    if probability is None:
        return {"background": "transparent", "colour": theme.text}
    return {
        "background": weight_colour(theme, probability),
        "colour": text_on_weight(theme, probability),
    }


def token_row(
    labels: Sequence[str],
    *,
    theme: Theme,
    probabilities: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    selected: int | None = None,
    language: str = "",
) -> str:
    """Return tokens in reading order as HTML.

    If their probabilities are given, they shade the tokens and stand below them as numbers.

    Args:
        labels: labels of the tokens.
        theme: colours.
        probabilities: probability of each token, from 0 to 1.
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
            **token_colours(theme, weight),
        )
        title = f' title="{escape(titles[index])}"' if titles is not None else ""
        token = f'<bdi style="{style}"{title}>{escape(label)}</bdi>'
        if weight is not None:
            number = escape(short_probability(weight))
            below = f'<small style="{_NUMBER}color:{theme.muted}">{number}</small>'
            token = f'<span style="{_WITH_NUMBER}">{token}{below}</span>'
        tokens.append(token)
    return (
        f'<div class="tokens" lang="{escape(language)}" dir="auto" '
        f'style="line-height:1.7;font-size:1.05rem">{"".join(tokens)}</div>'
    )


def short_probability(probability: float) -> str:
    """Write a probability with two digits after the point."""
    return f"{probability:.2f}" if probability >= 0.005 else "<.01"


def probability_legend(theme: Theme) -> str:
    """Return what the shades of tokens mean, as HTML: a bar from probability 0 to 1."""
    stops = ",".join(f"{colour} {100 * at:.0f}%" for at, colour in weight_scale(theme))
    bar = (
        f"display:inline-block;width:5rem;height:.6rem;border:1px solid {theme.line};"
        f"background:linear-gradient(to right,{stops})"
    )
    return (
        f'<span style="font-size:.85rem;color:{theme.muted};white-space:nowrap">probability: 0 '
        f'<span style="{bar}"></span> 1</span>'
    )
