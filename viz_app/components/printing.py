"""Figures are saved for light or dark paper, without marks, with legible letters.

The button below a figure draws it again in the browser. A picture is as many pixels wide as make
its letters 7 points high where it is printed as wide as a column or a page of a paper. It has this
size in millimetres, and a line below it that names what it shows, its run and its step.
"""

from __future__ import annotations

import dataclasses

from headwise.viz_app.components.assets import component
from headwise.viz_app.figures.heads import MASKED, STEPS
from headwise.viz_app.figures.matrix import COLOUR_BAR, MARK, PRINTED
from headwise.viz_app.figures.theme import Theme

LETTERS = 12
"""Pixels of the smallest letters of a saved picture."""
_POINTS, _MILLIMETRES = 7, 25.4 / 72
"""Least height of letters on paper in points, and the length of a point."""

TILES = {"masked": MASKED, "codes": STEPS}
"""How the picture of all heads has weights as bytes."""

_mount = component("printing")
_mount_tables = component("tables")


def printed_width(millimetres: int) -> int:
    """Return the pixels of a picture whose letters have 7 points where it is so wide."""
    return int(millimetres * LETTERS / (_POINTS * _MILLIMETRES))


def print_figures(
    theme: Theme, *, paper: Theme, form: str, millimetres: int, run: str, step: int
) -> None:
    """Let the page's figures, drawn in this theme, be saved in the colours of a paper's.

    The form of the files is "svg" or "png"; millimetres are the width on paper. Run and step are
    those that the page shows.
    """
    data = {
        "own": paper is theme,
        "colours": colours_on(paper, theme),
        "text": paper.text,
        "ground": paper.background,
        "letters": LETTERS,
        "form": form,
        "width": printed_width(millimetres),
        "millimetres": millimetres,
        "run": run,
        "step": step,
        "mark": MARK,
        "printed": PRINTED,
        "bar": COLOUR_BAR,
    }
    _mount(key="printing", data=data)


def offer_tables() -> None:
    """Offer, below each chart of the page, its numbers as a table, and over it a stop for keys."""
    _mount_tables(key="tables", data={"marks": [MARK, PRINTED]})


def colours_on(paper: Theme, theme: Theme) -> dict[str, str]:
    """Return the paper's colour for each colour of a theme; the first if it is used twice."""
    found: dict[str, str] = {}
    for own, other in zip(_colours(theme), _colours(paper), strict=True):
        found.setdefault(own, other)
    return found


def _colours(theme: Theme) -> list[str]:
    values = (getattr(theme, field.name) for field in dataclasses.fields(theme))
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
