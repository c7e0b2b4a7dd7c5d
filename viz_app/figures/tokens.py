"""Draws tokens as HTML: in a row, as a padded batch, and as the table of the logit lens.

Every text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.figures.theme import (
    Theme,
    by_root,
    text_on_weight,
    weight_colour,
    weight_scale,
)
from headwise.viz_app.records.trace import Floats

_TOKEN = (
    "display:inline-block;padding:1px 6px;margin:2px 3px 2px 0;border-radius:4px;"
    "border:1px solid {border};background:{background};color:{colour}"
)
_WITH_NUMBER = "display:inline-flex;flex-direction:column;align-items:center;vertical-align:top"
_NUMBER = "font-size:.7rem;line-height:1;margin-right:3px;"
_MOST_COLUMNS, _FIRST = 16, 4
"""Batches with more columns show those without padding only at the beginning and the end."""


def token_colours(theme: Theme, probability: float | None) -> dict[str, str]:
    """Return the ``background`` of a token and the ``colour`` of its text, as CSS has them."""
    if probability is None:
        return {"background": "transparent", "colour": theme.text}
    return {
        "background": weight_colour(theme, probability),
        "colour": text_on_weight(theme, probability),
    }


def language_tag(language: str) -> str:
    """Return a language as HTML names it (BCP 47), such as ``eng-Latn`` of ``eng_Latn``.
    What is no code, as of a task with symbols, becomes ``zxx``: no language."""
    tag = language.replace("_", "-")
    return tag if re.fullmatch(r"([a-zA-Z]{2,3}(-[a-zA-Z0-9]+)*)?", tag) else "zxx"


def folded_text(text: str) -> str:
    """Return a text as HTML that a style may fold to a few lines: a click shows all of it."""
    return f'<details class="folded"><summary><bdi>{escape(text)}</bdi></summary></details>'


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
    Probabilities shade the tokens and stand below them as numbers, ``titles`` are shown when the
    mouse rests on a token, ``selected`` is framed, and the code of the language is for screen
    readers and fonts."""
    tokens = []
    for index, label in enumerate(labels):
        weight = probabilities[index] if probabilities is not None else None
        border = theme.accent if index == selected else theme.line
        style = _TOKEN.format(border=border, **token_colours(theme, weight))
        title = f' title="{escape(titles[index])}"' if titles is not None else ""
        token = f'<bdi style="{style}"{title}>{escape(label)}</bdi>'
        if weight is not None:
            number = escape(short_probability(weight))
            below = f'<small style="{_NUMBER}color:{theme.muted}">{number}</small>'
            token = f'<span style="{_WITH_NUMBER}">{token}{below}</span>'
        tokens.append(token)
    return (
        f'<div class="tokens" lang="{language_tag(language)}" dir="auto" '
        f'style="line-height:1.7;font-size:1.05rem">{"".join(tokens)}</div>'
    )


def short_probability(probability: float) -> str:
    """Write a probability with two digits after the point."""
    return f"{probability:.2f}" if probability >= 0.005 else "<.01"


def scale_legend(theme: Theme, name: str, *, masked: bool = False) -> str:
    """Return what shades of a scale mean, as HTML: a bar from 0 to 1, and the colour of masks."""
    stops = ",".join(f"{colour} {100 * at:.0f}%" for at, colour in weight_scale(theme))
    bar = (
        f"display:inline-block;width:5rem;height:.6rem;border:1px solid {theme.line};"
        f"background:linear-gradient(to right,{stops})"
    )
    square = f"display:inline-block;width:.7rem;height:.7rem;background:{theme.masked}"
    grey = f' · <span style="{square}"></span> masked'
    return (
        f'<span style="font-size:.85rem;color:{theme.muted}">{by_root(name)}: '
        f'<span style="white-space:nowrap">0 <span style="{bar}"></span> 1</span>'
        f"{grey if masked else ''}</span>"
    )


def padding_rows(
    tokens: Sequence[Sequence[str]],
    allowed: NDArray[np.bool_],
    *,
    rows: Sequence[str],
    language: str = "",
) -> str:
    """Return a padded batch as an HTML table; masked cells have a dashed border and ``×``.
    ``tokens`` has a label for each key, for each row; ``allowed`` is the padding mask, bool (rows,
    keys); ``rows`` say what each row is. Of many columns, most of those without padding are left
    out; a cell ``… n more`` says so."""
    padded = np.asarray(~allowed.all(axis=0))
    few, last = len(padded) <= _MOST_COLUMNS, int(np.flatnonzero(~padded)[-1])
    kept = [few or bool(pads) or at < _FIRST or at == last for at, pads in enumerate(padded)]
    body = ""
    for name, labels, seen in zip(rows, tokens, allowed, strict=True):
        cells = ""
        for shown, columns in groupby(range(len(labels)), kept.__getitem__):
            if shown:
                cells += "".join(_cell(labels[column], bool(seen[column])) for column in columns)
            else:
                cells += f'<td class="more">… {len([*columns])} more</td>'
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    named = f"Padding mask, {len(rows)} row{'s' * (len(rows) > 1)}"
    table = f'<table lang="{language_tag(language)}"><tbody>{body}</tbody></table>'
    return region("padding", named, table)


def region(name: str, label: str, table: str) -> str:
    """Return a table as a part of a page that keys can scroll; the style of pages has its class."""
    return f'<div class="{name}" tabindex="0" role="region" aria-label="{label}">{table}</div>'


def _cell(label: str, allowed: bool) -> str:
    kind, title, sign = ("allowed", "may attend", "") if allowed else ("masked", "masked", " ×")
    return f'<td class="{kind}" title="{title}"><bdi>{escape(label)}</bdi>{sign}</td>'


def lens_table(
    labels: Sequence[Sequence[str]],
    probabilities: Floats,
    *,
    actual: NDArray[np.bool_],
    notes: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    theme: Theme,
    language: str = "",
) -> str:
    """Return a table as HTML, a row for each step and a column for each layer.
    A cell has the likeliest token, shaded by its probability on the scale of attention weights, all
    (T, C); where it is the one that is ``actual`` it is framed, with ``✓``. The mouse reads
    notes."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in (row_title, *columns))
    body = ""
    for row, name in enumerate(rows):
        body += f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>'
        for column in range(len(columns)):
            p, hit = float(probabilities[row, column]), bool(actual[row, column])
            kind = ' class="actual"' * hit
            body += (
                f'<td{kind} title="{escape(notes[row][column])}" '
                f'style="background:{weight_colour(theme, p)};color:{text_on_weight(theme, p)}">'
                f"{'✓ ' if hit else ''}<bdi>{escape(labels[row][column])}</bdi></td>"
            )
        body += "</tr>"
    sums = "".join(f"<td>{hits} of {len(rows)}</td>" for hits in actual.sum(axis=0))
    table = (
        f'<table lang="{language_tag(language)}"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{body}</tbody><tfoot><tr><th scope="row">✓ at so many positions</th>{sums}</tr>'
        "</tfoot></table>"
    )
    return region("lens", "The lens", table)
