"""The sentence's embeddings before and after the positions are added: sections 3.4 and 3.5."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_labels
from viz_app.figures.maps import vector_map
from viz_app.views._session import Selection
from viz_app.views._widgets import show_figure
from viz_app.views.embeddings.side import Side, show_heading

_PARTS = {
    "tokens": "Token embeddings",
    "positions": "Positional encodings",
    "total": "Their sum, which enters the first layer",
}
_PARTS_NOTES = {
    "tokens": "A row a piece: its learned embedding{scaled}.",
    "positions": "A row a position, the same for every sentence; drawn from -1 to 1.",
    "total": "Token embedding plus positional encoding, on the scale of the first map. Mean length "
    "of a row: {tokens:.1f} before, {total:.1f} after; of a positional encoding always √(D / 2) = "
    "{positions:.1f}.",
}


def show_input(selection: Selection, side: Side) -> None:
    """Three maps of the sentence: tokens, positions, and their sum."""
    config = selection.run.info.model
    labels = piece_labels(side.tokens)
    parts = vars(side.embedding)
    # One scale for what is compared, before and after; positions have their own, from -1 to 1.
    common = float(max(np.abs(parts[name]).max() for name in ("tokens", "total")))
    root = math.sqrt(config.d_model)
    factor = rf"\sqrt{{{config.d_model}}}\," if config.scale_embeddings else ""
    st.latex(rf"x_{{pos}} = {factor}E_{{token}} + \mathrm{{PE}}(pos)")
    lengths = {name: float(np.linalg.norm(part, axis=-1).mean()) for name, part in parts.items()}
    scaled = f" times √D = √{config.d_model} = {root:.2f}" if config.scale_embeddings else ""
    for name, title in _PARTS.items():
        show_heading(title)
        rows = [f"{i}: {label}" for i, label in enumerate(labels)]
        limit = 1.0 if name == "positions" else common
        figure = vector_map(parts[name], labels=rows, limit=limit, theme=selection.theme)
        note = _PARTS_NOTES[name].format(scaled=scaled, **lengths)
        show_figure(figure, key=name, alt=f"{title}, {len(rows)} × {config.d_model}. {note}")
        st.caption(note)
