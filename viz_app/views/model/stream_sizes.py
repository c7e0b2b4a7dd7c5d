"""Show the largest numbers of this sentence's streams, by layer and token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.figures.maps import ratio_map
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.stream_sizes import LargestNumbers, largest_by_chance, largest_numbers
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import show_figure, show_heading

_NOTE = (
    "The largest |x| among the D numbers that a token has in the stream, over the median |x| of "
    "all numbers of that layer (massive activations: Sun et al. 2024). A large number is no proof "
    "that anything reads it: norms divide by the size of the whole, and a later layer may not look."
)
"""What the maps show, and what they cannot tell."""


def show_stream_sizes(selection: Selection, trace: Trace) -> None:
    """Draw a map for each stack: a row for each layer, a column for each token."""
    show_heading("Outlier activations", _NOTE)
    figures: dict[str, Any] = {}
    said: dict[str, str] = {}
    for stack, stream, tokens in (
        ("encoder", trace.encoder_stream, trace.source),
        ("decoder", trace.decoder_stream, trace.consumed),
    ):
        found, labels = largest_numbers(stream), token_labels(tokens)
        layers = ["embedding", *(f"layer {layer}" for layer in range(1, len(stream)))]
        said[stack] = _say(found, layers, labels, stream)
        figures[stack] = ratio_map(
            found.ratios.astype(np.float32),
            found.dimensions,
            rows=layers,
            columns=labels,
            row_title="stream after",
            column_title=f"token in the {stack}",
            theme=selection.theme,
            width=520,
        )
    # Their cells begin at one height, however long their tokens are.
    top = max(figure.layout.margin.t for figure in figures.values())
    for place, (stack, figure) in zip(st.columns(2, gap="medium"), figures.items(), strict=True):
        figure.layout.height += top - figure.layout.margin.t
        figure.layout.margin.t = top
        with place:
            show_figure(
                figure,
                key=f"largest_{stack}",
                alt=f"Largest numbers of the {stack}'s stream by layer and token. {said[stack]}",
                name=f"largest-numbers-{stack}",
            )
            st.caption(said[stack])


def _say(found: LargestNumbers, layers: list[str], labels: list[str], stream: Floats) -> str:
    layer, token = np.unravel_index(np.nanargmax(found.ratios), found.ratios.shape)
    chance = largest_by_chance(math.prod(stream.shape[1:]))
    return (
        f"The largest is at {labels[token]}, {layers[layer]}, dimension "
        f"{found.dimensions[layer, token] + 1}: {found.ratios[layer, token]:.1f} times the median. "
        f"The largest of as many normally distributed numbers would be {chance:.1f} times theirs."
    )
