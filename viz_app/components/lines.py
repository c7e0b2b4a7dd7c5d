"""Attention as lines between two columns of tokens; a token under the mouse leaves only its lines.

All of that happens in the browser, without a round trip. Columns stand beside each other, tokens
from the top. Lines between a column and itself bow out on its far side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.html import language_tag
from headwise.viz_app.figures.theme import Theme, page_colours
from headwise.viz_app.records.trace import Floats

LEAST_WEIGHT = 0.01
"""Lighter lines are never drawn, nor sent to the browser."""


@dataclass(frozen=True)
class TokenColumn:
    """A column shows tokens from the top down."""

    title: str
    labels: tuple[str, ...]
    language: str = ""
    """Code of the tokens' language, for fonts and screen readers."""


@dataclass(frozen=True)
class Bundle:
    """A bundle has the lines of one map: weights (Q, M) between the tokens of two columns."""

    name: str
    weights: Floats
    query_column: int
    """The column of tokens that has the queries: 0 left, 1 right."""
    key_column: int
    """The column of tokens that has the keys."""


_mount = component("lines")


def lines(
    columns: tuple[TokenColumn, TokenColumn],
    bundles: Sequence[Bundle],
    *,
    theme: Theme,
    name: str,
    key: str,
    smallest: float,
    on_smallest: Callable[[float], None],
) -> None:
    """Draw each bundle in another colour between a left and a right column.

    A slider chooses the ``smallest`` weight that is drawn, and what a person sets it to is given to
    ``on_smallest``; ``name`` is that of the file of a saved picture.
    """

    def set_smallest() -> None:
        value = sent_value(key, "smallest")
        if isinstance(value, int | float) and LEAST_WEIGHT <= value <= 1:
            on_smallest(float(value))

    data = line_data(columns, bundles, theme=theme) | {"name": name, "smallest": smallest}
    _mount(key=key, data=data, on_smallest_change=set_smallest)


def line_data(
    columns: tuple[TokenColumn, TokenColumn], bundles: Sequence[Bundle], *, theme: Theme
) -> dict[str, Any]:
    """Return what the browser is sent: plain lists, without weights too small to be seen.

    Raises:
        ValueError: if there are more bundles than colours.
    """
    if len(bundles) > len(theme.series):
        raise ValueError(
            f"expected at most {len(theme.series)} maps to draw as lines, got {len(bundles)}; "
            "choose fewer"
        )
    return {
        "columns": [
            vars(column) | {"language": language_tag(column.language)} for column in columns
        ],
        "bundles": [
            _bundle_data(bundle) | {"colour": colour}
            for bundle, colour in zip(bundles, theme.series, strict=False)
        ],
        "least": LEAST_WEIGHT,
        "colours": page_colours(theme),
    }


def _bundle_data(bundle: Bundle) -> dict[str, Any]:
    """Return the lines of a bundle that are heavy enough to be drawn."""
    queries, keys = np.nonzero(bundle.weights >= LEAST_WEIGHT)
    weights = bundle.weights[queries, keys].astype(np.float64).round(4)
    return {
        "name": bundle.name,
        "from": bundle.query_column,
        "to": bundle.key_column,
        "queries": queries.tolist(),
        "keys": keys.tolist(),
        "weights": weights.tolist(),
    }
