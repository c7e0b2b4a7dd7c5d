"""Small pictures of what a page shows, for the list of lessons: signs, not data."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Literal

from headwise.viz_app.figures.theme import Theme, weight_colour

Motif = Literal["map", "tokens", "vectors", "bars", "layers", "waves", "curve"]
WIDTH, HEIGHT = 96, 56
_CELL = 8


def lesson_picture(motif: Motif, theme: Theme) -> str:
    """Return a picture as an image in HTML, which readers of the screen leave out."""
    drawn = "".join(_CURVES[motif](theme) if motif in _CURVES else _cells(motif, theme))
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">{drawn}</svg>'
    # Streamlit takes SVG out of HTML, but not an image that is one.
    data = base64.b64encode(svg.encode()).decode("ascii")
    source = f"data:image/svg+xml;base64,{data}"
    return f'<img alt="" width="{WIDTH}" height="{HEIGHT}" src="{source}">'


def _cells(motif: Motif, theme: Theme) -> Iterator[str]:
    """Draw rectangles: the cells of a map, tokens, numbers of vectors, bars or layers."""
    columns, rows = WIDTH // _CELL, HEIGHT // _CELL
    for row in range(rows):
        if motif == "map":
            for column in range(columns):
                weight = math.exp(-abs(column - row * columns / rows))
                yield _rectangle(column * _CELL, row * _CELL, _CELL, _CELL, theme, weight)
        elif motif == "vectors" and row % 2 == 0:
            for column in range(columns):
                weight = (math.sin(3 * column + 5 * row) + 1) / 2
                yield _rectangle(column * _CELL, row * _CELL, _CELL, _CELL, theme, weight)
        elif motif == "tokens" and row in (1, 4):
            for place in range(3):
                weight = 0.1 if row == 1 else (place + 1) / 3
                yield _rectangle(place * 32 + 2, row * _CELL, 28, 14, theme, weight)
        elif motif == "bars":
            width = (90, 54, 40, 22, 14, 8, 4)[row]
            yield _rectangle(0, row * _CELL + 1, width, _CELL - 2, theme, 0.5)
        elif motif == "layers" and row % 2 == 0:
            for left in (8, 54):
                yield _rectangle(left, row * _CELL, 34, _CELL + 2, theme, 0.4)


def _rectangle(x: float, y: float, width: float, height: float, theme: Theme, weight: float) -> str:
    colour = weight_colour(theme, weight)
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="1" fill="{colour}"/>'


def _line(heights: list[float], colour: str) -> str:
    points = " ".join(f"{x},{y:.1f}" for x, y in enumerate(heights))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _waves(theme: Theme) -> Iterator[str]:
    for colour, length in zip(theme.series, (6, 12, 30), strict=False):
        yield _line([28 + 22 * math.sin(x / length) for x in range(WIDTH)], colour)


def _curve(theme: Theme) -> Iterator[str]:
    for colour, floor in zip(theme.series, (50, 36), strict=False):
        yield _line([floor - (floor - 4) * math.exp(-x / 18) for x in range(WIDTH)], colour)


_CURVES = {"waves": _waves, "curve": _curve}
