"""Show what inner layers would already say, of the decoder and of the encoder, and outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from headwise.model.placement import is_large
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import numbered, token_labels
from headwise.viz_app.analysis.predictions import agreement, read_lens
from headwise.viz_app.figures.html import lens_table
from headwise.viz_app.figures.maps import ratio_map
from headwise.viz_app.measuring.checkpoint_measures import (
    LargestNumbers,
    largest_by_chance,
    largest_numbers,
)
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.caches import Run, decoder_lens_of, decoder_lens_so_far, samples_of
from headwise.viz_app.session.markdown import table_cell
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import change_view, control
from headwise.viz_app.session.widgets import show_figure, show_heading

_CAVEAT = (
    "The unembedding was trained to read the last layer only. What an inner layer holds in other "
    "directions is unreadable here and yet of use to later layers: a wrong token does not mean "
    "that nothing is known."
)
_POST_NORM_CAVEAT = (
    " All the more in this run, with its norm after each sublayer: every layer scales and shifts "
    "the stream again, there is no norm at the end that all could share, and what an inner layer "
    "holds was never meant for the unembedding."
)
_NOTE = (
    "The largest |x| among the D numbers that a token has in the stream, over the median |x| of "
    "all numbers of that layer (massive activations: Sun et al. 2024). A large number is no proof "
    "that anything reads it: norms divide by the size of the whole, and a later layer may not look."
)
"""What the maps show, and what they cannot tell."""
_MOST = 24
"""Checkpoints of the table; of more, some that are spread evenly."""


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
        "the mouse on a cell for the five likeliest. "
        + _CAVEAT
        + _POST_NORM_CAVEAT * (config.norm == "post"),
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
    _show_stream_sizes(selection, trace)


def _show_stream_sizes(selection: Selection, trace: Trace) -> None:
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


@panel("decoder_lens")
def show_decoder_lens(selection: Selection, trace: Trace) -> None:
    """Draw the translation from the encoder's embedding and from each layer, as far as it is."""
    run, step, texts = selection.run, selection.step, (trace.source_text,)
    encoder = run.description.of("encoder")
    norm = ", through the encoder's final norm," * encoder.final_norm
    show_heading(
        "Translation from each encoder layer",
        f"The output of each encoder layer{norm} takes the place of the encoder's output, and the "
        "decoder decodes greedily (DecoderLens, Langedijk et al. 2023). The last row is the "
        "model's own translation. The decoder was trained to read the last layer only: nonsense "
        "does not mean that nothing is known in an inner layer.",
    )
    names = ["embedding", *(f"layer {n + 1}" for n in range(encoder.n_encoder_layers))]
    label = "Translate from each layer"
    if st.toggle(label, **control("from_layers", label, default=not is_large(run.parameters))):
        in_slices(
            "Translating from each layer",
            lambda note_done: _translate(run, [step], texts, len(names), note_done),
            key="from_layers-progress",
            stop=lambda: change_view(from_layers=False),
        )
    found = decoder_lens_so_far(run, step, texts)
    written = [
        table_cell(found[n][0]) or "(no text)" if n in found else "…" for n in range(len(names))
    ]
    st.dataframe(
        {"encoder": names, "the decoder writes": written}, hide_index=True, key="decoder_lens"
    )
    if samples := tuple(dict.fromkeys(str(row["source"]) for row in samples_of(run))):
        _show_by_step(run, samples, names)


def _translate(
    run: Run, steps: Sequence[int], texts: tuple[str, ...], layers: int, note_done: NoteDone
) -> None:
    for place, step in enumerate(steps):
        for layer in range(layers):
            decoder_lens_of(run, step, texts, layer)
            note_done(place * layers + layer + 1, len(steps) * layers)


def _show_by_step(run: Run, samples: tuple[str, ...], names: Sequence[str]) -> None:
    """Draw how near the translations from each layer are to the model's own, by checkpoint."""
    if not st.toggle(
        "Every checkpoint, over the sample sentences",
        help=f"chrF, from 0 to 100, of the {len(samples)} translations from each layer against "
        "those from the last layer of the same checkpoint: how near it is to the model's own, not "
        "how good it is. A checkpoint at which the model itself writes nothing has no chrF.",
        **control("layers_by_step", "Every checkpoint"),
    ):
        return
    steps = spread(run.steps(), _MOST)
    in_slices(
        "Translating from each layer at each checkpoint",
        # The untrained checkpoint, which does not end a sentence, comes last.
        lambda note_done: _translate(run, steps[::-1], samples, len(names), note_done),
        key="layers_by_step-progress",
        stop=lambda: change_view(layers_by_step=False),
    )
    found = {step: decoder_lens_so_far(run, step, samples) for step in steps}
    done = {step: layers for step, layers in found.items() if len(layers) == len(names)}
    if not done:
        return
    st.dataframe(
        {
            "step": list(done),
            **{
                name: [agreement(layers[n], layers[len(names) - 1]) for layers in done.values()]
                for n, name in enumerate(names)
            },
        },
        hide_index=True,
        key="decoder_lens_steps",
        column_config={name: st.column_config.NumberColumn(name, format="%.1f") for name in names},
    )
