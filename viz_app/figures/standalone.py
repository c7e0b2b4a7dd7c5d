"""Writes a trace as one HTML file that needs no network: all heads, and what was predicted.

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


def standalone(
    *,
    title: str,
    tokens: Sequence[str],
    steps: Sequence[Sequence[str]],
    parts: Mapping[str, Part],
    facts: Mapping[str, str],
    theme: Theme,
) -> str:
    """Return a trace as a page of HTML that needs no network.

    Rows of tokens are HTML made by ``token_row``. The page has a table with a row for each step of
    decoding, a part for each kind, and facts that identify the trace.
    """
    data = {
        kind: {
            "mosaic": part.mosaic.to_plotly_json(),
            "large": part.large.to_plotly_json(),
            "mosaic_shape": part.mosaic_shape,
            "shape": part.maps.shape,
            "maps": base64.b64encode(np.ascontiguousarray(part.maps, "<f4").tobytes()).decode(),
        }
        for kind, part in parts.items()
    }
    written = {
        "TITLE": escape(title),
        "COLOURS": ";".join(f"--{name}:{colour}" for name, colour in page_colours(theme).items()),
        "TOKENS": "".join(tokens),
        "PARTS": "".join(_part(kind, part) for kind, part in parts.items()),
        "STEPS": "".join(_row(row) for row in steps),
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
    return orjson.dumps(data, option=options).decode().replace("<", "\\u003c")


def _part(kind: str, part: Part) -> str:
    layers, heads = part.maps.shape[:2]
    choices = "".join(
        f'<label>{name} <select data-kind="{kind}" data-of="{name}">'
        + "".join(f'<option value="{i}">{i + 1}</option>' for i in range(count))
        + "</select></label>"
        for name, count in (("layer", layers), ("head", heads))
    )
    return (
        f'<section id="{kind}"><h2>{escape(part.name)}</h2><p class="note">{escape(part.note)}</p>'
        f'<div class="beside"><div class="mosaic"></div><div><p>{choices}</p>'
        '<div class="large"></div></div></div></section>'
    )


def _row(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
