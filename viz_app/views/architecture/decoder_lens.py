"""Show what the decoder writes when it reads an inner layer of the encoder: the DecoderLens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import streamlit as st

from headwise.model.files import CheckpointError
from headwise.viz_app.analysis.predictions import agreement
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import decoder_lens_of, log_of
from headwise.viz_app.views.shared.markdown import table_cell
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import control

_MOST = 24
"""Checkpoints of the table; of more, some that are spread evenly."""


def show_decoder_lens(selection: Selection, trace: Trace) -> None:
    """Draw the translation from the encoder's embedding and from each layer."""
    texts = [
        layer[0] for layer in decoder_lens_of(selection.run, selection.step, (trace.source_text,))
    ]
    names = _layer_names(len(texts))
    st.dataframe(
        {
            "encoder": names,
            "the decoder writes": [table_cell(text) or "(no text)" for text in texts],
        },
        hide_index=True,
        key="decoder_lens",
    )
    encoder = selection.run.description.of("encoder")
    norm = ", through the encoder's final norm," * encoder.final_norm
    st.caption(
        f"The output of each encoder layer{norm} takes the place of the encoder's output, and the "
        "decoder decodes greedily (DecoderLens, Langedijk et al. 2023). The last row is the "
        "model's own translation. The decoder was trained to read the last layer only: nonsense "
        "does not mean that nothing is known in an inner layer."
    )
    _show_by_step(selection, names)


def _layer_names(count: int) -> list[str]:
    return ["embedding", *(f"layer {layer}" for layer in range(1, count))]


def _show_by_step(selection: Selection, names: Sequence[str]) -> None:
    samples = _samples(selection)
    if not samples or not st.toggle(
        "Every checkpoint, over the sample sentences",
        help=f"Translates the run's {len(samples)} sample sentences from every layer at every "
        "checkpoint, which takes some seconds.",
        **control("layers_by_step", "Every checkpoint"),
    ):
        return
    steps = selection.run.steps()
    if len(steps) > _MOST:
        places = np.linspace(0, len(steps) - 1, _MOST).round().astype(int)
        steps = [steps[place] for place in places]
    progress = st.progress(0.0, "Translating from every layer")
    rows: dict[str, list[float | None]] = {name: [] for name in names}
    for done, step in enumerate(steps):
        progress.progress(done / len(steps), f"Translating from every layer: checkpoint {step:,}")
        layers = decoder_lens_of(selection.run, step, samples)
        for name, texts in zip(names, layers, strict=True):
            rows[name].append(agreement(texts, layers[-1]))
    progress.empty()
    st.dataframe(
        {"step": list(steps), **rows},
        hide_index=True,
        key="decoder_lens_steps",
        column_config={name: st.column_config.NumberColumn(name, format="%.1f") for name in names},
    )
    st.caption(
        f"chrF, from 0 to 100, of the {len(samples)} translations from each layer against those "
        "from the last layer of the same checkpoint: how near it is to the model's own, not how "
        "good it is. A checkpoint at which the model itself writes nothing has no chrF."
    )


def _samples(selection: Selection) -> tuple[str, ...]:
    with suppress(CheckpointError):  # the frame, which offers samples too, has said so
        rows = log_of(selection.run.folder, "samples.jsonl")
        return tuple(dict.fromkeys(str(row["source"]) for row in rows if row.get("source")))
    return ()
