"""Show positional encodings (section 3.5), or what a model has in their place."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import Kind, attention_path
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.labels import numbered, token_labels
from headwise.viz_app.figures.lines import (
    MOST_WAVES,
    bias_curves,
    distance_curve,
    encoding_curves,
    wave_legend,
    waves,
)
from headwise.viz_app.figures.maps import encoding_map, similarity_map
from headwise.viz_app.model.angles import (
    Order,
    bias_by_distance,
    divisor,
    encoding_formula,
    encodings,
    is_cosine,
    largest_deviation,
    order_of,
    sample_dimensions,
    similarity_by_distance,
    wavelength,
)
from headwise.viz_app.model.input import TraceSide
from headwise.viz_app.records.model import AttentionSublayer
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.caches import layer_trace_of
from headwise.viz_app.session.markdown import power_of_ten
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import control
from headwise.viz_app.session.widgets import show_figure, show_heading, show_link

_FEWEST_POSITIONS = 50
_TWO = (3, 12)
"""Positions that are compared at first."""
_ALIKE = 0.1
"""Difference of two values of encodings below which they count as alike."""
_FINER = 8
"""Points of a curve from one position to the next."""
_MOST_LABELLED = 30
"""Most positions of a map of similarities that has its usual width."""


def show_positions(selection: Selection, side: TraceSide) -> None:
    """Draw the encodings of positions by formula, as recorded, or relative positions."""
    recorded = side.embedding.positions
    if recorded is None:
        kind: Kind = "encoder_self" if side.name == "source" else "decoder_self"
        attention = layer_trace_of(selection.run, side.trace, kind, 0).attention
        is_rotary = selection.run.description.positions == "rotary"
        (_show_rotary if is_rotary else _show_relative)(selection, side, kind, attention)
        return
    order = order_of(recorded)
    if order is None:
        _show_recorded(selection, side, recorded)
        return
    _show_encodings(selection, side, order)
    _show_waves(selection, side, order)
    two, distances = st.columns(2, gap="large")
    with two:
        _show_two(selection, side, order)
    with distances:
        _show_distances(selection, side, order)


def _length(side: TraceSide) -> int:
    return max(_FEWEST_POSITIONS, len(side.tokens))


def _show_encodings(selection: Selection, side: TraceSide, order: Order) -> None:
    d_model, used, length = selection.run.description.d_model, len(side.tokens), _length(side)
    encoded = encodings(np.arange(length), d_model, order)
    figure = encoding_map(encoded, used=used, theme=selection.theme)
    half = f", of sines and again, from dimension {d_model // 2} on, of cosines"
    note = (
        f"A row is a position, a column one of {d_model:,} dimensions, a value from -1 to 1. Waves "
        f"are shortest on the left{half * (order == 'halves')}: dimension 0 repeats after 2π "
        f"positions, dimension {d_model - 1} after "
        f"{wavelength(d_model - 1, d_model, order):,.0f}. As in the "
        "formula, pos is counted from 0: token 1 has pos 0."
    )
    if used < length:
        note += f" The horizontal line is where the {used} tokens of this {side.name} end."
    show_heading("Positional encodings", note)
    show_figure(figure, key="encodings", alt=note)


@panel("waves")
def _show_waves(selection: Selection, side: TraceSide, order: Order) -> None:
    d_model, length = selection.run.description.d_model, _length(side)
    show_heading(
        "Some dimensions as waves",
        "Each position gets the values at its dots. Wavelengths are in positions: 2π · "
        f"10000^(2i/{d_model}), from 2π to almost 10000 · 2π.\n\n"
        f"$$\n{encoding_formula(order, d_model)}\n$$",
    )
    words, picture = st.columns([2, 3], gap="medium")
    with words:
        dimensions = st.multiselect(
            "Dimensions",
            range(d_model),
            max_selections=MOST_WAVES,
            **control(
                "dimensions",
                "Dimensions",
                default=sample_dimensions(d_model, order),
                usable=range(d_model).__contains__,
                most=MOST_WAVES,
            ),
        )
        if not dimensions:
            st.caption("Choose a dimension to see its wave.")
            return
        st.html(
            wave_legend(
                dimensions,
                ["cos" if is_cosine(d, d_model, order) else "sin" for d in dimensions],
                [divisor(dimension, d_model, order) for dimension in dimensions],
                [wavelength(dimension, d_model, order) for dimension in dimensions],
                selection.theme,
            )
        )
    with picture:
        between = np.linspace(0, length - 1, _FINER * (length - 1) + 1)
        figure = waves(
            encodings(between, d_model, order)[:, dimensions],
            encodings(np.arange(length), d_model, order)[:, dimensions],
            dimensions=dimensions,
            theme=selection.theme,
        )
        chosen = ", ".join(map(str, dimensions))
        show_figure(figure, key="waves", alt=f"Dimensions {chosen} over {length} positions")


@panel("two_positions")
def _show_two(selection: Selection, side: TraceSide, order: Order) -> None:
    d_model, length = selection.run.description.d_model, _length(side)
    show_heading(
        "Two positions side by side",
        f"The dot product of an encoding with itself is D / 2 = {d_model // 2}.",
    )
    chosen = st.multiselect(
        "Two positions (pos, from 0)",
        range(length),
        max_selections=2,
        label_visibility="collapsed",
        **control(
            "positions", "Positions", default=_TWO, usable=range(length).__contains__, most=2
        ),
    )
    if len(chosen) != 2:
        st.caption("Choose two positions to compare them.")
        return
    pair = encodings(np.array(chosen), d_model, order)
    apart = np.abs(pair[0] - pair[1])
    most = int(first_largest(apart))
    first, second = pair[:, most]
    cosine = np.array([is_cosine(d, d_model, order) for d in range(d_model)])
    where = int((cosine[:most] == cosine[most]).sum())
    show_figure(
        encoding_curves(pair[:, ~cosine], pair[:, cosine], positions=chosen, theme=selection.theme),
        key="two_positions_chart",
        alt=f"Sines and cosines of pos {chosen[0]} and pos {chosen[1]}, from the shortest wave "
        "to the longest",
    )
    st.caption(
        f"Their dot product is {float(pair[0] @ pair[1]):.3g}. They differ most in dimension "
        f"{most}, the {'cosine' if cosine[most] else 'sine'} at i = {where}: {first:.2f} and "
        f"{second:.2f}. {np.mean(apart < _ALIKE):.0%} of the dimensions differ by less than "
        f"{_ALIKE}."
    )


def _show_distances(selection: Selection, side: TraceSide, order: Order) -> None:
    d_model, length = selection.run.description.d_model, _length(side)
    off = largest_deviation(encodings(np.arange(length), d_model, order))
    show_heading(
        "Their dot product by distance",
        "It depends on the distance k only, not on p; it is the same for -k, and largest at 0: "
        f"D / 2 = {d_model // 2}. Of the {length * (length + 1) // 2:,} pairs of these {length} "
        f"positions none departs from the curve by more than {power_of_ten(off)}.\n\n"
        r"$$\mathrm{PE}(p) \cdot \mathrm{PE}(p + k) = "
        rf"\sum_{{i=0}}^{{{d_model // 2 - 1}}} \cos(k / 10000^{{2i/{d_model}}})$$",
    )
    curve = similarity_by_distance(length, d_model)
    show_figure(
        distance_curve(curve, theme=selection.theme),
        key="distances",
        alt=f"Dot product of two positional encodings by distance: {curve[0]:.0f} at 0, "
        f"{curve[1]:.1f} at 1, {curve[-1]:.1f} at {length - 1}",
    )


def _show_recorded(selection: Selection, side: TraceSide, recorded: Floats) -> None:
    """Draw encodings that follow no formula of the paper: as recorded of this sentence."""
    learned = selection.run.description.positions == "learned"
    limit = float(np.abs(recorded).max()) if learned else 1.0
    what = (
        "They are learned, a row a position"
        if learned
        else "They are sines and cosines, but not those of the paper's formula"
    )
    note = (
        f"{what}; drawn are the {len(recorded)} positions of this {side.name}, as the model has "
        f"them, by {recorded.shape[1]} dimensions, from {-limit:.2g} to {limit:.2g}."
    )
    figure = encoding_map(recorded, used=len(recorded), theme=selection.theme, limit=limit)
    show_heading("Positional encodings", note)
    show_figure(figure, key="encodings", alt=note)
    labels = numbered(token_labels(side.tokens))
    about = "Cosine of the encodings of two positions: 1 for the same direction, 0 for none."
    show_heading("How similar positions are", about)
    figure = similarity_map(
        cosine_similarity(recorded, recorded),
        labels=labels,
        theme=selection.theme,
        width=530 if len(labels) <= _MOST_LABELLED else 900,
    )
    show_figure(figure, key="position_similarity", alt=about)


def _show_rotary(
    selection: Selection, _: TraceSide, kind: Kind, attention: AttentionSublayer
) -> None:
    show_heading("Rotary positions")
    if attention.rotation is None:
        st.caption("This sentence has no record of it.")
        return
    cos, sin = attention.rotation
    half = cos.shape[1] // 2
    note = (
        "This model adds no positional encodings to its embeddings. In self-attention each query "
        f"and key is turned by its position instead, dimensions i and i + {half} together, for i "
        f"from 0 to {half - 1}. A product of query and key then depends on the distance between "
        "them: each pair of dimensions counts by the angle between the two, which is the distance "
        "times the pair's angle of one position (Su et al. 2021)."
    )
    st.caption(note)
    drawn = (
        f"Cosines, left, and sines, right, of the first layer's angles at the first {len(cos)} "
        f"distances, by {half} pairs of dimensions each, from -1 to 1. A cosine is 1 where "
        "query and key are compared as they are, and -1 where they are compared with the opposite "
        "sign."
    )
    both = np.concatenate([cos[:, :half], sin[:, :half]], axis=1)
    figure = encoding_map(both, used=len(cos), theme=selection.theme)
    show_figure(figure, key="rotary", alt=drawn)
    st.caption(drawn)
    _link_to_scores(kind)


def _show_relative(
    selection: Selection, side: TraceSide, kind: Kind, attention: AttentionSublayer
) -> None:
    """Draw what relative positions add to the scores of each head of the first layer."""
    show_heading("Relative positions")
    st.caption(
        "This model adds no positional encodings to its embeddings: nothing is drawn of them here. "
        "In their place each head of self-attention adds to every score a learned number that "
        "depends only on the distance from query to key."
    )
    stack = "encoder" if side.name == "source" else "decoder"
    if attention.position_bias is None:
        st.caption("This sentence has no record of it.")
        return
    distances, bias, off = bias_by_distance(attention.position_bias, attention.allowed)
    names = [f"head {head + 1}" for head in range(len(bias))]
    show_figure(
        bias_curves(bias, distances, names=names, theme=selection.theme),
        key="relative",
        alt=f"What each of {len(bias)} heads adds to a score, by the distance from query to key, "
        f"{distances[0]} to {distances[-1]}",
        name=f"relative-positions-{stack}",
    )
    layers = selection.run.description.layers(kind)
    summaries = {seen.name: (seen.mean, seen.norm) for seen in side.trace.summary}
    points = (f"{attention_path(kind, layer)}.bias" for layer in range(layers))
    by_layer = {summaries.get(point) for point in points}
    same = " All layers add the same." if len(by_layer) == 1 and layers > 1 else ""
    before = (
        " Below 0 the key comes before the query, above 0 after it."
        if distances[-1] > 0
        else " The key comes before the query: later ones are masked."
    )
    st.caption(
        f"Recorded in layer 1 of the {stack} on this sentence, at the distances that occur in it; "
        f"pairs at one distance differ by no more than {power_of_ten(off)}.{before}{same}"
    )
    _link_to_scores(kind)


def _link_to_scores(kind: Kind) -> None:
    label = "See it in the scores on Inside a head"
    show_link(label, "inside", key="open_inside", inside="scores", kind=kind)
