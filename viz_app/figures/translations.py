"""Translations one below the other, as an HTML table; every text is escaped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from viz_app.figures.theme import Theme, text_on_weight, weight_colour

Cell = str | float | None
_STYLE = """
<style>
.translations {{ width: 100%; border-collapse: collapse; color: {text}; font-size: .95rem; }}
.translations th {{
  color: {muted}; font-weight: 400; font-size: .85rem; text-align: left; white-space: nowrap;
}}
.translations th, .translations td {{
  padding: .3rem .6rem; border: 0; border-bottom: 1px solid {line}; vertical-align: top;
}}
.translations .n {{
  text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; width: 1%;
}}
.translations .t div {{
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
  overflow-wrap: anywhere;
}}
.translations b {{ color: {accent}; }}
.translations i {{ color: {muted}; }}
.translations .used td {{ border-bottom-color: {accent}; border-top: 1px solid {accent}; }}
.translations .used td:first-child {{ box-shadow: inset 4px 0 {accent}; font-weight: 600; }}
</style>
"""


@dataclass(frozen=True)
class Column:
    """A column's title, and how its cells are shown: a text, a number, or a score of 0 to 100."""

    title: str
    kind: Literal["text", "number", "score"] = "text"
    language: str = ""
    """Code of a text's language, for screen readers and fonts."""
    form: str = ",.0f"
    """Of a number."""


def translation_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    theme: Theme,
    used: int | None = None,
    exact: Collection[tuple[int, int]] = (),
) -> str:
    """Rows of cells, None where a cell has nothing to say; scores are shaded.

    Args:
        columns: their titles and kinds.
        rows: a cell for each column.
        theme: colours.
        used: the row of the checkpoint in use.
        exact: row and column of texts that are the reference to the letter.

    Raises:
        ValueError: if a row has not as many cells as there are columns.
    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"expected {len(columns)} cells, got {len(row)}")
    head = "".join(
        f'<th scope="col" class="{"t" if c.kind == "text" else "n"}">{escape(c.title)}</th>'
        for c in columns
    )
    body = "".join(
        f"<tr{' class=used' if at == used else ''}>"
        + "".join(
            _cell(cell, column, theme, (at, place) in exact)
            for place, (cell, column) in enumerate(zip(row, columns, strict=True))
        )
        + "</tr>"
        for at, row in enumerate(rows)
    )
    style = _STYLE.format(**{n: getattr(theme, n) for n in ("text", "muted", "line", "accent")})
    return (
        f'<table class="translations"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        + style
    )


def _cell(cell: Cell, column: Column, theme: Theme, exact: bool) -> str:
    if column.kind == "text":
        text = "" if cell is None else str(cell)
        shown = f"<bdi>{escape(text)}</bdi>" if text else "<i>nothing</i>" if cell == "" else ""
        tick = ' <b title="the reference, to the letter">✓</b>' if exact else ""
        return (
            f'<td class="t" lang="{escape(column.language)}" title="{escape(text)}">'
            f"<div>{shown}{tick}</div></td>"
        )
    if cell is None or isinstance(cell, str):
        return f'<td class="n">{escape(cell or "")}</td>'
    if column.kind == "number":
        return f'<td class="n">{cell:{column.form}}</td>'
    colours = (
        f"background:{weight_colour(theme, cell / 100)};color:{text_on_weight(theme, cell / 100)}"
    )
    return f'<td class="n" style="{colours}">{cell:.1f}</td>'
