"""Writes HTML that needs no network: a page of figures, and a trace in a notebook.

A page has Plotly's script once, figures, tokens and a table. In the output of a notebook's cell all
heads and one of them large are drawn by a script of ours, in the colours of the notebook. Every
text is escaped, for HTML or inside a script.
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
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, page_colours
from headwise.viz_app.records.trace import Floats

_HERE = Path(__file__).parent
MOST_PACKED = 230_000  # letters of base64 of all maps; with all else below 300 kB
_BITS = (8, 4)


@dataclass(frozen=True)
class Part:
    """A part of the page shows one kind of attention: all heads at once, and one of them large."""

    name: str
    note: str
    mosaic: go.Figure  # trace 1 has a marker for each head, the first shape frames the first
    mosaic_shape: tuple[int, int]  # rows and columns that a head has in the mosaic
    large: go.Figure  # the map of the first head; trace 0 has its cells
    maps: Floats  # all maps, (L, H, rows, columns)


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


# A notebook


@dataclass(frozen=True)
class NotebookMaps:
    """The maps of one kind of attention, with what is written beside them."""

    name: str
    note: str
    maps: Floats  # (L, H, rows, columns), from 0 to 1
    allowed: NDArray[np.bool_] | None  # (rows, columns); None if all are
    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str


def pack(maps: Floats, allowed: NDArray[np.bool_] | None, bits: int) -> str:
    """Pack the square roots of weights as integers of 8 or 4 bits, in base64, row by row.

    The largest integer is a cell that the mask forbids, the one before a weight of 1. Of 4 bits the
    first cell is the higher half of a byte. A weight that is read back, the square of the integer
    over the largest of a weight, is off by at most 1/254 or 1/14.
    """
    largest = 2**bits - 2
    codes = np.rint(np.sqrt(np.clip(maps, 0, 1)) * largest).astype(np.uint8)
    if allowed is not None:
        codes = np.where(allowed, codes, np.uint8(largest + 1))
    flat = codes.ravel()
    if bits == 4:
        flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
        flat = flat[::2] << 4 | flat[1::2]
    return base64.b64encode(flat.tobytes()).decode()


def notebook_maps(
    *,
    source: str,
    translation: str,
    tokens: Sequence[tuple[str, float]],
    parts: Mapping[str, NotebookMaps],
    facts: Mapping[str, str],
    too_large: str,
) -> str:
    """Return a trace as a piece of HTML for a notebook: its texts, tokens with probabilities, maps.

    ``facts`` identify the trace. Kinds of attention are left out, the largest first, until the maps
    of the others have few enough cells; ``too_large`` is said of what is left out.
    """
    shown, fitting = dict(parts), list[int]()
    while not fitting:
        cells = sum(part.maps.size for part in shown.values())
        fitting = [bits for bits in _BITS if cells * bits / 6 <= MOST_PACKED]
        if not fitting:
            shown.pop(max(shown, key=lambda kind: shown[kind].maps.size))
    bits = fitting[0]
    data = {
        kind: {
            **{"name": part.name, "note": part.note, "shape": part.maps.shape, "bits": bits},
            "maps": pack(part.maps, part.allowed, bits),
            **{"rows": part.rows, "columns": part.columns},
            **{"rowTitle": part.row_title, "columnTitle": part.column_title},
        }
        for kind, part in shown.items()
    }
    left_out = [part.name for kind, part in parts.items() if kind not in shown]
    if shown and left_out:
        facts = {"left out": f"{', '.join(left_out)}. {too_large}", **facts}
    return fill_template(
        (_HERE / "notebook.html").read_text(encoding="utf-8"),
        {
            "LIGHT": _colours(LIGHT),
            "DARK": _colours(DARK),
            "SOURCE": escape(source),
            "TRANSLATION": escape(translation),
            "TOKENS": "".join(
                f"<span><bdi>{escape(label)}</bdi><small>{probability:.2f}</small></span>"
                for label, probability in tokens
            ),
            "FACTS": " · ".join(f"{escape(name)}: {escape(fact)}" for name, fact in facts.items()),
            "WAITING": "Run this cell to draw the maps." if shown else escape(too_large),
            "DATA": json_in_script(data),
            "SCRIPT": (_HERE / "notebook.js").read_text(encoding="utf-8"),
        },
    )


def _colours(theme: Theme) -> str:
    """Write a theme's colours as properties of CSS: those of a page, the mask, and the scale."""
    named = page_colours(theme) | {"masked": theme.masked, "scale": " ".join(theme.weights)}
    return ";".join(f"--{name}:{colour}" for name, colour in named.items())
