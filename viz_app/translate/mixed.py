"""Maps beside those that leave the residual out, or assume how large it is.

ALTI+ stands beside rollout, which assumes what ALTI+ measures; the norms with residual and norm
(Kobayashi et al. 2021) stand beside the value norms of all heads together.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headwise.model.estimates import contributions_bytes
from headwise.model.interface import Head, Kind, Seq2SeqModel
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.grid import Grid
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.analysis.rollout import rollout_of
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.measuring.contributions import MixedTokens, mixed_tokens, residual_norm_maps
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure
from headwise.viz_app.translate.shown_map import ShownMap, large_map

_SUMS: dict[Kind, str] = {
    "encoder_self": "Rows sum to 1.",
    "decoder_self": "A row sums to what a prediction has of the target so far; the rest is of the "
    "source, under Cross.",
    "cross": "A row sums to what a prediction has of the source; the rest is of the target so far, "
    "under Decoder self.",
}


@of_trace("tokens mixed", needs=contributions_bytes)
def _tokens_mixed(model: Seq2SeqModel, trace: Trace) -> MixedTokens:
    return mixed_tokens(model, PaddedIds.of_trace(trace, model))


@of_trace("norms with residual", needs=contributions_bytes)
def _norms_with_residual(model: Seq2SeqModel, trace: Trace) -> Mapping[Kind, Floats]:
    return residual_norm_maps(model, PaddedIds.of_trace(trace, model))


def show_mixed(selection: Selection, trace: Trace, grid: Grid, shown: ShownMap) -> None:
    """Draw the map of ALTI+ up to the layer of the rollout, and say where the two disagree."""
    kind, layer, _ = shown.head
    mixed = ask_trace(_tokens_mixed, selection.run, trace)
    own = grid.apply(mixed.maps[kind][layer])
    rolled = grid.apply(rollout_of(trace, kind, layer, shown.cell_value))
    st.markdown("**ALTI+ up to this layer**")
    _draw(selection, own, grid, shown.head, "ALTI+", key="alti")
    st.caption(f"{_note(own, rolled, mixed, kind)} {_SUMS[kind]}")


def show_with_residual(selection: Selection, trace: Trace, grid: Grid, shown: ShownMap) -> None:
    """Draw what all heads of a layer add for each key together with the residual and its norm."""
    kind, layer, _ = shown.head
    maps = ask_trace(_norms_with_residual, selection.run, trace)[kind][layer]
    own = grid.apply(maps[:, :-1] if kind == "cross" else maps)
    kept = float((maps[:, -1] if kind == "cross" else maps.diagonal()).mean())
    after = selection.run.description.of(kind).norm == "post"
    st.markdown("**With the residual" + " and the norm" * after + "**")
    _draw(selection, own, grid, shown.head, "with the residual", key="with-residual")
    where = "has no column here" if kind == "cross" else "is on the query's own token"
    st.caption(
        "The length of what all heads add for a key, with the residual connection beside it"
        + (
            " and through the norm after the sum, its divisor held"
            if after
            else "; no norm follows in this model, whose norms come before"
        )
        + f", as shares of the row (Kobayashi et al. 2021). The residual {where}: on average "
        f"{kept:.2f} of a row. Biases are in no cell, neither those of values nor that of W_O."
    )


def _draw(
    selection: Selection, cells: Floats, grid: Grid, head: Head, what: str, *, key: str
) -> None:
    show_figure(
        attention_map(cells, measured="share", **large_map(grid, selection.theme)),
        key=key,
        alt=f"{KIND_NAMES[head.kind]}, layer {head.layer + 1}, {what}: map of {grid.said}",
        name=f"{head.kind}-layer{head.layer + 1}-{key}",
    )


def _note(own: Floats, rolled: Floats, mixed: MixedTokens, kind: Kind) -> str:
    same = sum(
        first_largest(one) == first_largest(other) for one, other in zip(own, rolled, strict=True)
    )
    kept = ", ".join(f"{share:.2f}" for share in mixed.kept[kind])
    keeps = (
        f"Of its stream a position keeps {kept}, layer by layer, beside what this attention brings."
        if kind == "cross"
        else f"Of itself, residual and own value, a position keeps {kept}, layer by layer."
    )
    return (
        "Rollout assumes that half of each layer is the residual connection; ALTI+ (Ferrando et "
        "al. 2022) measures it: by how much each token's vector brings the result of an attention "
        f"nearer. {keeps} The two maps have their "
        f"largest cell at the same column in {same} of {len(own)} rows"
        f"{'' if same == len(own) else '; Why leaves words out to see which of them count'}. ALTI+ "
        "knows values and residuals, but not for or against which word a token speaks, nor what "
        "feed-forwards make of it."
    )
