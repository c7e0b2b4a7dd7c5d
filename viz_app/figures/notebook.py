"""Draws a trace in the output of a notebook's cell: all heads, and one of them large.

It needs no network and no other library, and takes the colours of the notebook, light or dark. The
script draws on canvas what is packed here: the square root of each weight in 8 bits or, where there
are many cells, in 4. Every text is escaped, for HTML or inside a script.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.figures.standalone import fill_template, json_in_script
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, page_colours
from headwise.viz_app.records.trace import Floats

_HERE = Path(__file__).parent
MOST_PACKED = 230_000
"""Most letters of base64 of all maps together; with everything else, 300 kB are not reached."""
_BITS = (8, 4)


@dataclass(frozen=True)
class NotebookMaps:
    """The maps of one kind of attention, with what is written beside them."""

    name: str
    note: str
    maps: Floats
    """(L, H, rows, columns), from 0 to 1."""
    allowed: NDArray[np.bool_] | None
    """(rows, columns); None if all are."""
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
    """Return a trace as a piece of HTML for a notebook.

    Args:
        source, translation: the two texts.
        tokens: each token of the translation with its probability.
        parts: the maps of each kind.
        facts: what identifies the trace.
        too_large: what is said in place of maps that have too many cells.
    """
    cells = sum(part.maps.size for part in parts.values())
    bits = next((bits for bits in _BITS if cells * bits / 6 <= MOST_PACKED), None)
    data = {}
    if bits is not None:
        data = {
            kind: {
                "name": part.name,
                "note": part.note,
                "shape": part.maps.shape,
                "bits": bits,
                "maps": pack(part.maps, part.allowed, bits),
                "rows": part.rows,
                "columns": part.columns,
                "rowTitle": part.row_title,
                "columnTitle": part.column_title,
            }
            for kind, part in parts.items()
        }
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
            "WAITING": escape(too_large) if bits is None else "Run this cell to draw the maps.",
            "DATA": json_in_script(data),
            "SCRIPT": (_HERE / "notebook.js").read_text(encoding="utf-8"),
        },
    )


def _colours(theme: Theme) -> str:
    """Write a theme's colours as properties of CSS: those of a page, the mask, and the scale."""
    named = page_colours(theme) | {"masked": theme.masked, "scale": " ".join(theme.weights)}
    return ";".join(f"--{name}:{colour}" for name, colour in named.items())
