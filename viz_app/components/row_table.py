"""A table whose rows can be clicked: texts, small bars, and sentences with words marked.

Every text is set as text. A click anywhere in a row counts, or the button in its first cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.html import language_tag
from headwise.viz_app.figures.theme import Theme, page_colours


@dataclass(frozen=True)
class Bar:
    """A cell shows a value as a bar that begins at 0, on the range ``low`` to ``high``."""

    value: float
    text: str
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class TextPart:
    """A part of a text may be a marked word."""

    text: str
    mark: str = ""
    """``query``, ``key`` or ``query key``; empty where nothing is marked."""


@dataclass(frozen=True)
class MarkedText:
    """A cell shows a text in parts, some of which are marked."""

    parts: tuple[TextPart, ...]
    language: str = ""
    """Code of its language, for fonts and screen readers."""


Cell = str | Bar | MarkedText


@dataclass(frozen=True)
class Row:
    """A row has a cell for each column of the table."""

    name: str
    """The name that ``on_click`` is given."""
    cells: tuple[Cell, ...]
    """The cells, of which the first is a text."""


_mount = component("row_table")


def row_table(
    titles: Sequence[str],
    rows: Sequence[Row],
    *,
    label: str,
    theme: Theme,
    key: str,
    on_click: Callable[[str], None],
    chosen: str = "",
    action: str = "",
    legend: Sequence[TextPart] = (),
) -> None:
    """Draw a table whose rows can be clicked.

    The name of a clicked row is given to ``on_click``; that of the highlighted one is ``chosen``.
    For screen readers, ``label`` says what the table is; the mouse shows what a click does, the
    ``action``. The legend says what marks mean.
    """

    def handle_click() -> None:
        clicked = sent_value(key, "clicked")
        if isinstance(clicked, str) and any(row.name == clicked for row in rows):
            on_click(clicked)

    data = {
        "titles": list(titles),
        "rows": [
            {"name": row.name, "cells": [_cell(cell, theme) for cell in row.cells]} for row in rows
        ],
        "label": label,
        "chosen": chosen,
        "action": action,
        "legend": [vars(part) for part in legend],
        "colours": page_colours(theme) | {"query": theme.series[1], "key": theme.series[0]},
    }
    _mount(key=key, data=data, on_clicked_change=handle_click)


def _cell(cell: Cell, theme: Theme) -> dict[str, Any]:
    """Return what the browser is sent; a bar as its start and its length, from 0 to 1."""
    if isinstance(cell, str):
        return {"text": cell}
    if isinstance(cell, MarkedText):
        return {
            "parts": [vars(part) for part in cell.parts],
            "language": language_tag(cell.language),
        }
    extent = cell.high - cell.low
    ends = sorted(
        (min(max(end, cell.low), cell.high) - cell.low) / extent for end in (0.0, cell.value)
    )
    colour = theme.series[0] if cell.value >= 0 else theme.series[1]
    return {"text": cell.text, "start": ends[0], "length": ends[1] - ends[0], "colour": colour}
