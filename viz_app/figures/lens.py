"""The logit lens as a table: the likeliest token by layer and step; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.figures.theme import Theme, text_on_weight, weight_colour
from headwise.viz_app.records.trace import Floats

_STYLE = """
.lens {{ overflow: auto; max-height: 40rem; color: {text}; font-size: .875rem; }}
.lens:focus-visible {{ outline: 2px solid {accent}; }}
.lens table {{ border-collapse: separate; border-spacing: 2px; margin: 0; }}
.lens th, .lens td {{ border: 0; padding: .1rem .5rem; text-align: left; white-space: nowrap; }}
.lens th {{ font-weight: 400; }}
.lens thead th, .lens tfoot td, .lens tfoot th {{
  position: sticky; background: {ground}; color: {muted}; z-index: 1;
}}
.lens thead th {{ top: 0; }}
.lens tfoot td, .lens tfoot th {{ bottom: 0; font-variant-numeric: tabular-nums; }}
.lens tbody td {{
  border: 2px solid transparent; border-radius: 4px; min-width: 6.5rem;
}}
.lens tbody td.actual {{ border-color: {accent}; font-weight: 600; }}
"""


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

    Cells are shaded by probability, on the scale of attention weights.

    Args:
        labels: the likeliest token, (T, C).
        probabilities: probability of each of those tokens, (T, C), from 0 to 1.
        actual: bool (T, C), True where it is the token that follows: framed, with ``✓``.
        notes: shown when the mouse rests on a cell, (T, C).
        rows, columns: their labels.
        row_title: what the rows are.
        theme: colours.
        language: its code, for screen readers and fonts.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    shape = (len(rows), len(columns))
    shapes = (probabilities.shape, actual.shape, *(_shape(table) for table in (labels, notes)))
    for name, got in zip(("probabilities", "actual", "labels", "notes"), shapes, strict=True):
        if got != shape:
            raise ValueError(f"{name}: expected {shape}, got {got}")
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
    style = _STYLE.format(
        text=theme.text, muted=theme.muted, accent=theme.accent, ground=theme.background
    )
    return (
        '<div class="lens" tabindex="0" role="region" aria-label="The lens">'
        f'<table lang="{escape(language)}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>'
        f'<tfoot><tr><th scope="row">✓ in so many steps</th>{sums}</tr></tfoot></table>'
        f"<style>{style}</style></div>"
    )


def _shape(table: Sequence[Sequence[str]]) -> tuple[int, int]:
    widths = {len(row) for row in table}
    return len(table), widths.pop() if len(widths) == 1 else 0
