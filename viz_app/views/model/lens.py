"""Show what each layer of the decoder would already predict: the lens."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import numbered
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.figures.tokens import lens_table
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.model.stream_sizes import show_stream_sizes
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import show_heading


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
