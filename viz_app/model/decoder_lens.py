"""Show what the decoder writes when it reads an inner layer of the encoder: the DecoderLens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.placement import is_large
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.predictions import agreement
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import Run, decoder_lens_of, decoder_lens_so_far, log_of
from headwise.viz_app.session.markdown import table_cell
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import change_view, control
from headwise.viz_app.session.widgets import show_heading

_MOST = 24
"""Checkpoints of the table; of more, some that are spread evenly."""


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
    if samples := _samples(selection):
        _show_by_step(run, samples, names)


def _translate(
    run: Run, steps: Sequence[int], texts: tuple[str, ...], layers: int, note_done: NoteDone
) -> None:
    """Translate from each layer at each checkpoint."""
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


def _samples(selection: Selection) -> tuple[str, ...]:
    with suppress(CheckpointError):  # the frame, which offers samples too, has said so
        rows = log_of(selection.run.folder, "samples.jsonl")
        return tuple(dict.fromkeys(str(row["source"]) for row in rows if row.get("source")))
    return ()
