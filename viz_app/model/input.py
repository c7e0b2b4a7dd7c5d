"""Show the sentence's embeddings before and after positions are added (sections 3.4 and 3.5).

A side, source or target, is what all sections of the page are drawn of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headwise.model.interface import Description, Side
from headwise.viz_app.analysis.formulas import norm_name
from headwise.viz_app.analysis.labels import numbered, token_labels
from headwise.viz_app.figures.maps import vector_map
from headwise.viz_app.records.trace import Floats, StackInput, Tokens, Trace
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure, show_heading

_PARTS = {
    "tokens": "Token embeddings",
    "positions": "Positional encodings",
    "total": "Their sum, which enters the first layer",
}

_WHERE = {"relative": "the scores of attention", "rotary": "the queries and keys of self-attention"}
"""Where positions come in that are not added to embeddings."""


@dataclass(frozen=True)
class TraceSide:
    """A side is the source or the target of a trace, as it enters its stack and goes through it."""

    trace: Trace
    name: Side
    tokens: Tokens
    """The tokens that the stack reads."""
    embedding: StackInput
    stream: Floats
    """The input of the stack and the output of each layer, (L + 1, n, D)."""


def side_of(trace: Trace, name: Side) -> TraceSide:
    """Return the side ``source`` or ``target`` of a trace."""
    if name == "source":
        return TraceSide(trace, name, trace.source, trace.source_embedding, trace.encoder_stream)
    return TraceSide(trace, name, trace.consumed, trace.target_embedding, trace.decoder_stream)


def show_input(selection: Selection, side: TraceSide) -> None:
    """Draw three maps of the sentence: token embeddings, positional encodings, and their sum.

    Without positional encodings there is the first only; a norm after the sum has a map, too.
    """
    model = selection.run.description.of("encoder" if side.name == "source" else "decoder")
    labels = numbered(token_labels(side.tokens))
    titles, arrays, notes = dict(_PARTS), dict(vars(side.embedding)), _notes(model, side)
    if arrays["positions"] is None:
        titles = {"tokens": "Token embeddings, which enter the first layer"}
    if model.embedding_norm:
        titles |= {
            "total": "Their sum",
            "normed": "The sum after a norm, which enters the first layer",
        }
        arrays["normed"] = side.stream[0]
    with st.container(key="equations"):
        st.latex(_formula(model))
    # One scale for what is compared, before and after; positions and norms have their own.
    common = float(max(np.abs(arrays[name]).max() for name in ("tokens", "total")))
    limits = {"tokens": common, "total": common}
    if model.positions == "sinusoidal":
        limits["positions"] = 1.0
    for name, title in titles.items():
        show_heading(title, notes[name])
        limit = limits.get(name) or float(np.abs(arrays[name]).max()) or 1.0
        figure = vector_map(
            arrays[name], labels=labels, limit=limit, theme=selection.theme, room=200
        )
        alt = f"{title}, {len(labels)} × {model.d_model:,}. {notes[name]}"
        show_figure(figure, key=name, alt=alt)
    if "positions" in notes:
        st.caption(_lengths(model, side))


def _formula(model: Description) -> str:
    factor = rf"\sqrt{{{model.d_model}}}\," if model.scale_embeddings else ""
    added = r" + \mathrm{PE}(pos)" * model.adds_positions
    token = f"{factor}E_{{token}}"
    if model.token_norm:
        token = rf"\mathrm{{{norm_name(model)}}}({token})"
    whole = f"{token}{added}"
    if model.embedding_norm:
        whole = rf"\mathrm{{{norm_name(model)}}}({whole})"
    return rf"x_{{pos}} = {whole}"


def _notes(model: Description, side: TraceSide) -> dict[str, str]:
    root = math.sqrt(model.d_model)
    scaled = f" times √D = √{model.d_model:,} = {root:.2f}" if model.scale_embeddings else ""
    normed = f"{norm_name(model)} of " * model.token_norm
    row = f"A row a token: {normed}its learned embedding{scaled}."
    if side.embedding.positions is None:
        return {
            "tokens": f"{row} This model adds no positional encodings: its positions are "
            f"{model.positions}, and come in with {_WHERE[model.positions]} (see positions)."
        }
    drawn = "drawn from -1 to 1" if model.positions == "sinusoidal" else "learned"
    return {
        "tokens": row,
        "positions": f"A row a position, the same for every sentence; {drawn}. Tokens are counted "
        "from 1, pos in the formula from 0.",
        "total": "Token embedding plus positional encoding, on the scale of the first map.",
        "normed": f"{norm_name(model)} of each row of the sum.",
    }


def _lengths(model: Description, side: TraceSide) -> str:
    before, added, after = (
        float(np.linalg.norm(part, axis=-1).mean())
        for part in (side.embedding.tokens, side.embedding.positions, side.embedding.total)
        if part is not None
    )
    always = "always √(D / 2) =" if model.positions == "sinusoidal" else "on average"
    return (
        f"Mean length of a row: {before:.1f} before, {after:.1f} after; of a positional encoding "
        f"{always} {added:.1f}."
    )
