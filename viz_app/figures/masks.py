"""Draws masks: which keys may be attended to. Masked cells are grey and crossed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.matrix import matrix, token_axis
from headwise.viz_app.figures.theme import Theme, new_figure, text_on_weight, weight_colour

_SMALLEST_CROSSED = 7.0
"""Pixels of the smallest cell in which a cross can be recognised."""
_LARGEST_CELL, _RIGHT, _LEAST_WIDTH = 30.0, 12, 200
"""Pixels of the largest cell, right of the cells, and of the whole figure at least."""
_MOST_COLUMNS, _FIRST = 16, 4
"""Batches with more columns show those without padding only at the beginning and the end."""
_ALLOWED = 0.25
"""Where on the scale of weights an allowed cell is coloured."""
_STYLE = """
.padding {{ overflow-x: auto; color: {text}; font-size: .875rem; }}
.padding:focus-visible {{ outline: 2px solid {accent}; }}
.padding table {{ border-collapse: separate; border-spacing: 2px; margin: 0; }}
.padding th, .padding td {{ padding: .1rem .45rem; text-align: left; white-space: nowrap; }}
.padding th {{ border: 0; font-weight: 400; color: {muted}; }}
.padding td {{ border: 1px solid transparent; border-radius: 4px; }}
.padding td.allowed {{ background: {allowed}; color: {on_allowed}; }}
.padding td.more {{ color: {muted}; }}
.padding tr:only-child {{ display: flex; flex-wrap: wrap; gap: 2px; }}
.padding td.masked {{ background: {masked}; color: {text}; border: 1px dashed {muted}; }}
"""


def mask_map(
    allowed: NDArray[np.bool_],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    theme: Theme,
    width: int = 640,
) -> go.Figure:
    """Draw a mask, bool (Q, M): allowed cells in one colour, masked ones grey, crossed if large.

    Cells are square. Trace 0 is the mask, 1 = may attend; the last trace has the crosses.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    data, layout = matrix(
        allowed.astype(np.float32),
        rows=rows,
        columns=columns,
        titles=titles,
        measured="",
        hover="query %{y}<br>key %{x}<br>%{z} (1: may attend, 0: masked)",
        signed=False,
        theme=theme,
        allowed=allowed,
        width=width,
    )
    colour = weight_colour(theme, _ALLOWED)
    margin = layout["margin"]
    cell = min(_LARGEST_CELL, (width - margin["l"] - _RIGHT) / len(columns))
    crossed = cell >= _SMALLEST_CROSSED
    data[0] |= {
        "colorscale": ((0, colour), (1, colour)),
        "showscale": False,
        "xgap": int(crossed),
        "ygap": int(crossed),
    }
    margin["r"] = max(_RIGHT, _LEAST_WIDTH - margin["l"] - cell * len(columns))
    layout["width"] = round(margin["l"] + cell * len(columns) + margin["r"])
    layout["height"] = round(margin["t"] + cell * len(rows) + margin["b"])
    layout["xaxis"] |= token_axis(columns, cell)
    layout["yaxis"] |= token_axis(rows, cell)
    if crossed and not allowed.all():
        y, x = np.nonzero(~allowed)
        data.append(
            {
                "type": "scatter",
                "x": x,
                "y": y,
                "mode": "markers",
                "marker": {
                    "symbol": "x-thin",
                    "size": min(8, cell * 0.5),
                    "line": {"color": theme.muted, "width": 1},
                },
                "hoverinfo": "skip",
            }
        )
    return new_figure(theme, data, layout)


def padding_rows(
    tokens: Sequence[Sequence[str]],
    allowed: NDArray[np.bool_],
    *,
    rows: Sequence[str],
    theme: Theme,
    language: str = "",
) -> str:
    """Return a padded batch as an HTML table; masked cells have a dashed border and ``×``.

    Of many columns, most of those without padding are left out; a cell ``… n more`` says so.

    Args:
        tokens: a label for each key, for each row.
        allowed: bool (rows, keys), the padding mask.
        rows: what each row is.
        theme: colours.
        language: its code, for screen readers and fonts.

    Raises:
        ValueError: if labels and mask do not fit.
    """
    if allowed.shape != (len(rows), len(tokens[0])) or {*map(len, tokens)} != {len(tokens[0])}:
        raise ValueError(f"expected {allowed.shape} labels, got {[len(row) for row in tokens]}")
    runs = [
        (shown, [*columns]) for shown, columns in groupby(range(len(tokens[0])), _shown(allowed))
    ]
    body = ""
    for name, labels, seen in zip(rows, tokens, allowed, strict=True):
        cells = ""
        for shown, columns in runs:
            if shown:
                cells += "".join(_cell(labels[column], bool(seen[column])) for column in columns)
            else:
                cells += f'<td class="more">… {len(columns)} more</td>'
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    style = _STYLE.format(
        text=theme.text,
        muted=theme.muted,
        accent=theme.accent,
        masked=theme.masked,
        allowed=weight_colour(theme, _ALLOWED),
        on_allowed=text_on_weight(theme, _ALLOWED),
    )
    return (
        '<div class="padding" tabindex="0" role="region" aria-label="Padding mask">'
        f'<table lang="{escape(language)}"><tbody>{body}</tbody></table>'
        f"<style>{style}</style></div>"
    )


def _shown(allowed: NDArray[np.bool_]) -> Callable[[int], bool]:
    """Return a function that tells whether a column is shown, by its number."""
    padded = np.asarray(~allowed.all(axis=0))
    last = int(np.flatnonzero(~padded)[-1])
    few = len(padded) <= _MOST_COLUMNS
    return lambda column: few or bool(padded[column]) or column < _FIRST or column == last


def _cell(label: str, allowed: bool) -> str:
    if allowed:
        return f'<td class="allowed" title="may attend"><bdi>{escape(label)}</bdi></td>'
    return f'<td class="masked" title="masked"><bdi>{escape(label)}</bdi> ×</td>'
