"""Attention as lines between two columns of tokens; a token under the mouse leaves only its lines.

All of that happens in the browser, without a round trip. Columns stand beside each other, tokens
from the top. Lines between a column and itself bow out on its far side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from viz_app.figures.theme import Theme
from viz_app.records import Floats

LEAST_WEIGHT = 0.01
"""Lighter lines are never drawn, nor sent to the browser."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Column:
    """Tokens from the top: ``title`` says what they are, ``language`` is their code, for fonts."""

    title: str
    labels: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True)
class Bundle:
    """The lines of one map: weights (Q, M) between places of two columns."""

    name: str
    weights: Floats
    queries: int
    """Which column the rows are, 0 or 1."""
    keys: int
    """Which column the columns are."""


_mount = st.components.v2.component(
    "headwise_lines",
    html='<div class="lines"></div>',
    css=(_HERE / "lines.css").read_text(encoding="utf-8"),
    js=(_HERE / "lines.js").read_text(encoding="utf-8"),
)


def lines(
    columns: tuple[Column, Column],
    bundles: Sequence[Bundle],
    *,
    theme: Theme,
    name: str,
    key: str,
) -> None:
    """Draw bundles of lines, each in a colour of its own, with a slider for the smallest weight.

    Args:
        columns: left and right.
        bundles: what is drawn between and beside them.
        theme: colours.
        name: of the file that the picture is saved as.
        key: of the widget.

    Raises:
        ValueError: if a bundle does not fit its columns, or there are more than colours.
    """
    _mount(key=key, data=line_data(columns, bundles, theme=theme) | {"name": name})


def line_data(
    columns: tuple[Column, Column], bundles: Sequence[Bundle], *, theme: Theme
) -> dict[str, Any]:
    """What the browser is sent: plain lists, of each bundle only what is heavy enough to be seen.

    Raises:
        ValueError: as ``lines``.
    """
    if len(bundles) > len(theme.series):
        raise ValueError(
            f"expected at most {len(theme.series)} maps to draw as lines, got {len(bundles)}; "
            "choose fewer"
        )
    for bundle in bundles:
        expected = tuple(len(columns[side].labels) for side in (bundle.queries, bundle.keys))
        if bundle.weights.shape != expected:
            raise ValueError(
                f"{bundle.name}: expected {expected} weights, got {bundle.weights.shape}"
            )
    return {
        "columns": [vars(column) for column in columns],
        "bundles": [
            _heavy_enough(bundle) | {"colour": colour}
            for bundle, colour in zip(bundles, theme.series, strict=False)
        ],
        "least": LEAST_WEIGHT,
        "colours": {
            "text": theme.text,
            "muted": theme.muted,
            "line": theme.line,
            "accent": theme.accent,
        },
    }


def _heavy_enough(bundle: Bundle) -> dict[str, Any]:
    queries, keys = np.nonzero(bundle.weights >= LEAST_WEIGHT)
    weights = bundle.weights[queries, keys].astype(np.float64).round(4)
    return {
        "name": bundle.name,
        "from": bundle.queries,
        "to": bundle.keys,
        "queries": queries.tolist(),
        "keys": keys.tolist(),
        "weights": weights.tolist(),
    }
