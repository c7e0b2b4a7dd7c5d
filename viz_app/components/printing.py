"""Figures are saved as paper shows them: in light colours, without marks, with legible letters.

The camera of a figure draws it again in the browser. A picture is as many pixels wide as make its
letters 7 points high where it is printed as wide as a column or a page of a paper.
"""

from __future__ import annotations

import dataclasses

from headwise.viz_app.components.assets import component
from headwise.viz_app.figures.matrix import COLOUR_BAR, PRINTED
from headwise.viz_app.figures.selecting import MARK
from headwise.viz_app.figures.theme import LIGHT, Theme

LETTERS = 12
"""Pixels of the smallest letters of a saved picture."""
_POINTS, _MILLIMETRES = 7, 25.4 / 72
"""Least height of letters on paper in points, and the length of a point."""

_mount = component("printing")
_mount_tables = component("tables")


def printed_width(millimetres: int) -> int:
    """Return the pixels of a picture whose letters have 7 points where it is so wide."""
    return int(millimetres * LETTERS / (_POINTS * _MILLIMETRES))


def print_figures(theme: Theme, *, form: str, millimetres: int) -> None:
    """Let the page's figures, drawn in this theme, be saved as paper shows them.

    The form of the files is "svg" or "png"; millimetres are the width on paper.
    """
    data = {
        "colours": light_colours(theme),
        "text": LIGHT.text,
        "letters": LETTERS,
        "form": form,
        "width": printed_width(millimetres),
        "mark": MARK,
        "printed": PRINTED,
        "bar": COLOUR_BAR,
    }
    _mount(key="printing", data=data)


def offer_tables() -> None:
    """Offer, below each chart of the page, its numbers as a table."""
    _mount_tables(key="tables", data={"marks": [MARK, PRINTED]})


def light_colours(theme: Theme) -> dict[str, str]:
    """Return the light colour for each colour of a theme; the first if it is used twice."""
    found: dict[str, str] = {}
    for own, light in zip(_colours(theme), _colours(LIGHT), strict=True):
        found.setdefault(own, light)
    return found


def _colours(theme: Theme) -> list[str]:
    values = (getattr(theme, field.name) for field in dataclasses.fields(theme))
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
