"""Show what each layer of the decoder would already predict, the lens, and outliers below it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import numbered, token_labels
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.figures.html import lens_table
from headwise.viz_app.figures.maps import ratio_map
from headwise.viz_app.measuring.checkpoint_measures import (
    LargestNumbers,
    largest_by_chance,
    largest_numbers,
)
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure, show_heading


def show_lens(selection: Selection, trace: Trace) -> None:
    """Draw a table with a row for each step and a column for each layer; below it, outliers."""
    config = selection.run.description
    readers = [
        *["the final norm"] * config.final_norm,
        *["the layer before the unembedding"] * config.output_transform,
        *["the factor 1/√D"] * config.scale_output,
    ]
    reader = " and then ".join([*readers, "the unembedding"])
    show_heading(
        "The lens: what each layer would already say",
        f"The likeliest next token if {reader} read the decoder's stream after each layer; the "
        "last column is the model's prediction. Cells are shaded by probability, on the scale of "
        "attention weights. ✓ and a frame mark the token that does come next in the target. Rest "
        f"the mouse on a cell for the five likeliest. {_caveat(config.norm == 'post')}",
    )
    lens = read_lens(trace)
    layers, grid = lens.probabilities.shape[1] - 1, make_grid(trace, "cross")
    with st.container(key="lens"):
        st.html(
            lens_table(
                lens.labels,
                lens.probabilities,
                actual=lens.actual,
                notes=lens.notes,
                rows=numbered(grid.rows),
                columns=["embedding", *(f"layer {layer + 1}" for layer in range(layers))],
                row_title=f"position: {grid.row_title}",
                theme=selection.theme,
                language=selection.run.target_language,
            )
        )
    show_stream_sizes(selection, trace)


def _caveat(post_norm: bool) -> str:
    caveat = (
        "The unembedding was trained to read the last layer only. What an inner layer holds in "
        "other directions is unreadable here and yet of use to later layers: a wrong token does "
        "not mean that nothing is known."
    )
    if post_norm:
        caveat += (
            " All the more in this run, with its norm after each sublayer: every layer scales and "
            "shifts the stream again, there is no norm at the end that all could share, and what "
            "an inner layer holds was never meant for the unembedding."
        )
    return caveat


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
