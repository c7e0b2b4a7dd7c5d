"""A table of which a row can be picked: texts, small bars, and sentences with words marked.

Every text is set as text. A row is picked by a click anywhere in it, or by the button in its first
cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from viz_app.figures.theme import Theme

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Bar:
    """A value as a bar from 0, in a cell that goes from ``low`` to ``high``."""

    value: float
    text: str
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Span:
    """Text, which may be a marked word: as ``query``, ``key`` or both."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Spans:
    """A text in parts, and the code of its language, for fonts and screen readers."""

    parts: tuple[Span, ...]
    language: str = ""


Cell = str | Bar | Spans


@dataclass(frozen=True)
class Row:
    """What a pick of this row gives, and its cells, the first a text."""

    name: str
    cells: tuple[Cell, ...]


_mount = st.components.v2.component(
    "headwise_picks",
    html='<div class="picks"></div>',
    css=(_HERE / "picks.css").read_text(encoding="utf-8"),
    js=(_HERE / "picks.js").read_text(encoding="utf-8"),
)


def picks(
    titles: Sequence[str],
    rows: Sequence[Row],
    *,
    label: str,
    theme: Theme,
    key: str,
    on_pick: Callable[[str], None],
    chosen: str = "",
    action: str = "",
    legend: Sequence[Span] = (),
) -> None:
    """Draw the table.

    Args:
        titles: of the columns.
        rows: as many cells each.
        label: what the table is, for those who cannot see it.
        theme: colours.
        key: of the widget.
        on_pick: called with the name of a row that was picked.
        chosen: the name of the row that stands out.
        action: what a pick does, in few words; shown when the mouse rests on a row.
        legend: what the marks mean.

    Raises:
        ValueError: if a row has not a cell for each title.
    """

    def take() -> None:
        picked = st.session_state[key].picked
        if isinstance(picked, str) and any(row.name == picked for row in rows):
            on_pick(picked)

    data = pick_data(
        titles, rows, label=label, theme=theme, chosen=chosen, action=action, legend=legend
    )
    _mount(key=key, data=data, on_picked_change=take)


def pick_data(
    titles: Sequence[str],
    rows: Sequence[Row],
    *,
    label: str,
    theme: Theme,
    chosen: str = "",
    action: str = "",
    legend: Sequence[Span] = (),
) -> dict[str, Any]:
    """What the browser is sent: a bar as where it starts and how far it goes, from 0 to 1.

    Raises:
        ValueError: as ``picks``.
    """
    for row in rows:
        if len(row.cells) != len(titles):
            raise ValueError(f"{row.name}: expected {len(titles)} cells, got {len(row.cells)}")
    return {
        "titles": list(titles),
        "rows": [
            {"name": row.name, "cells": [_cell(cell, theme) for cell in row.cells]} for row in rows
        ],
        "label": label,
        "chosen": chosen,
        "action": action,
        "legend": [vars(span) for span in legend],
        "colours": {
            "text": theme.text,
            "muted": theme.muted,
            "line": theme.line,
            "accent": theme.accent,
            "ground": theme.gap,
            "query": theme.series[1],
            "key": theme.series[0],
        },
    }


def _cell(cell: Cell, theme: Theme) -> dict[str, Any]:
    if isinstance(cell, str):
        return {"text": cell}
    if isinstance(cell, Spans):
        return {"spans": [vars(span) for span in cell.parts], "language": cell.language}
    extent = cell.high - cell.low
    ends = sorted(
        (min(max(end, cell.low), cell.high) - cell.low) / extent for end in (0.0, cell.value)
    )
    colour = theme.series[0] if cell.value >= 0 else theme.series[1]
    return {"text": cell.text, "start": ends[0], "length": ends[1] - ends[0], "colour": colour}
