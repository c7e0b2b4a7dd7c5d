"""Writes figures, tokens and a table as one HTML file that needs no network.

Plotly's script is written into the page once. Every text is escaped, for HTML or inside a script.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from headwise.viz_app.figures.theme import Theme, page_colours
from headwise.viz_app.records.trace import Floats

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """A part of the page shows one kind of attention: all heads at once, and one of them large."""

    name: str
    note: str
    mosaic: go.Figure
    """The picture of all heads: trace 1 has a marker for each, the first shape frames the first."""
    mosaic_shape: tuple[int, int]
    """Rows and columns that a head has in the mosaic."""
    large: go.Figure
    """The map of the first head; trace 0 has its cells."""
    maps: Floats
    """All maps, (L, H, rows, columns)."""


@dataclass(frozen=True)
class Drawing:
    """A part of the page shows one figure."""

    name: str
    note: str
    figure: go.Figure


@dataclass(frozen=True)
class Table:
    """A table stands below the parts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def standalone(
    *,
    title: str,
    tokens: Sequence[str],
    parts: Mapping[str, Part | Drawing],
    table: Table,
    facts: Mapping[str, str],
    theme: Theme,
) -> str:
    """Return a page of HTML that needs no network.

    Rows of tokens are HTML made by ``token_row``. The page has a section for each part, under its
    name, a table, and facts that identify what is shown.
    """
    data = {key: _data(part) for key, part in parts.items()}
    written = {
        "TITLE": escape(title),
        "COLOURS": ";".join(f"--{name}:{colour}" for name, colour in page_colours(theme).items()),
        "TOKENS": "".join(tokens),
        "PARTS": "".join(_part(key, part) for key, part in parts.items()),
        "TABLE": escape(table.title),
        "COLUMNS": _row(table.columns, "th"),
        "ROWS": "".join(map(_row, table.rows)),
        "FACTS": "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()
        ),
        "DATA": json_in_script(data),
        "SCRIPT": (_HERE / "standalone.js").read_text(encoding="utf-8"),
        "PLOTLY": get_plotlyjs(),
    }
    return fill_template((_HERE / "standalone.html").read_text(encoding="utf-8"), written)


def fill_template(template: str, written: Mapping[str, str]) -> str:
    """Fill each ``{{NAME}}`` of a template."""
    before, *places = template.split("{{")
    filled = [before]
    for place in places:  # once over the template: what was filled in is never filled again
        name, _, rest = place.partition("}}")
        filled += [written[name], rest]
    return "".join(filled)


def json_in_script(data: Any) -> str:
    """Write JSON that can stand inside a script: no text in it can end the script."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    written = orjson.dumps(data, option=options, default=np.ndarray.tolist)  # of texts
    return written.decode().replace("<", "\\u003c")


def _data(part: Part | Drawing) -> dict[str, Any]:
    """Return what the script of the page draws a part from."""
    if isinstance(part, Drawing):
        return {"figure": part.figure.to_plotly_json()}
    return {
        "mosaic": part.mosaic.to_plotly_json(),
        "large": part.large.to_plotly_json(),
        "mosaic_shape": part.mosaic_shape,
        "shape": part.maps.shape,
        "maps": base64.b64encode(np.ascontiguousarray(part.maps, "<f4").tobytes()).decode(),
    }


def _part(key: str, part: Part | Drawing) -> str:
    about = f'<h2>{escape(part.name)}</h2><p class="note">{escape(part.note)}</p>'
    if isinstance(part, Drawing):
        return f'<section id="{key}">{about}<div class="drawing"></div></section>'
    layers, heads = part.maps.shape[:2]
    choices = "".join(
        f'<label>{name} <select data-kind="{key}" data-of="{name}">'
        + "".join(f'<option value="{i}">{i + 1}</option>' for i in range(count))
        + "</select></label>"
        for name, count in (("layer", layers), ("head", heads))
    )
    return (
        f'<section id="{key}">{about}'
        f'<div class="beside"><div class="mosaic"></div><div><p>{choices}</p>'
        '<div class="large"></div></div></div></section>'
    )


def _row(cells: Sequence[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
