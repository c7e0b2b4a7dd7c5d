"""Positional encodings by themselves: section 3.5. They depend on no weights and no sentence."""

from __future__ import annotations

import numpy as np
import streamlit as st

from viz_app.analysis.positions import (
    departure,
    divisor,
    encodings,
    similarity_by_distance,
    spread_dimensions,
    wavelength,
)
from viz_app.figures.positions import (
    MOST_WAVES,
    distance_curve,
    encoding_map,
    wave_legend,
    waves,
)
from viz_app.views._session import Selection
from viz_app.views._widgets import panel, show_figure
from viz_app.views.embeddings.side import Side, show_heading

_FEWEST_POSITIONS = 50
_FINER = 8
"""Points of a curve from one position to the next."""


def _length(side: Side) -> int:
    return max(_FEWEST_POSITIONS, len(side.tokens))


def show_encodings(selection: Selection, side: Side) -> None:
    """The map of positions and dimensions."""
    d_model, used, length = selection.run.info.model.d_model, len(side.tokens), _length(side)
    show_heading("Positional encodings")
    figure = encoding_map(encodings(np.arange(length), d_model), used=used, theme=selection.theme)
    note = (
        f"The first {length} positions by {d_model} dimensions, from -1 to 1. Waves are shortest "
        f"on the left: dimension 0 repeats after 2π positions, dimension {d_model - 1} after "
        f"{wavelength(d_model - 1, d_model):,.0f}."
    )
    if used < length:
        note += f" The line is where the {used} pieces of this {side.name} end."
    show_figure(figure, key="encodings", alt=note)
    st.caption(note)


@panel("waves")
def show_waves(selection: Selection, side: Side) -> None:
    """Some dimensions as waves, with their formulas."""
    d_model, length = selection.run.info.model.d_model, _length(side)
    show_heading("Some dimensions as waves")
    words, picture = st.columns([2, 3], gap="medium")
    with words:
        st.latex(
            rf"\begin{{aligned}} \mathrm{{PE}}(pos, 2i) &= \sin(pos / 10000^{{2i/{d_model}}}) \\ "
            rf"\mathrm{{PE}}(pos, 2i+1) &= \cos(pos / 10000^{{2i/{d_model}}}) \end{{aligned}}"
        )
        dimensions = st.multiselect(
            "Dimensions",
            range(d_model),
            default=spread_dimensions(d_model),
            max_selections=MOST_WAVES,
            key="dimensions",
        )
        if not dimensions:
            st.caption("Choose a dimension to see its wave.")
            return
        st.html(
            wave_legend(
                dimensions,
                [divisor(dimension, d_model) for dimension in dimensions],
                [wavelength(dimension, d_model) for dimension in dimensions],
                selection.theme,
            )
        )
    with picture:
        between = np.linspace(0, length - 1, _FINER * (length - 1) + 1)
        figure = waves(
            encodings(between, d_model)[:, dimensions],
            encodings(np.arange(length), d_model)[:, dimensions],
            dimensions=dimensions,
            theme=selection.theme,
        )
        chosen = ", ".join(map(str, dimensions))
        show_figure(figure, key="waves", alt=f"Dimensions {chosen} over {length} positions")
        st.caption(
            "A dot is what a position gets. Wavelengths are in positions: 2π · "
            f"10000^(2i/{d_model}), from 2π to almost 10000 · 2π."
        )


def show_distances(selection: Selection, side: Side) -> None:
    """The product of two encodings by their distance."""
    d_model, length = selection.run.info.model.d_model, _length(side)
    show_heading("Their dot product by distance")
    words, picture = st.columns([2, 3], gap="medium")
    with words:
        st.latex(
            r"\begin{aligned} & \mathrm{PE}(p) \cdot \mathrm{PE}(p + k) \\ & = "
            rf"\sum_{{i=0}}^{{{d_model // 2 - 1}}} \cos(k / 10000^{{2i/{d_model}}}) \end{{aligned}}"
        )
        off = departure(encodings(np.arange(length), d_model))
        st.caption(
            f"It depends on the distance k only, not on p; it is the same for -k, and largest at "
            f"0: D / 2 = {d_model // 2}. Of the {length * (length + 1) // 2:,} pairs of these "
            f"{length} positions none departs from the curve by more than {off:.0e}."
        )
    with picture:
        curve = similarity_by_distance(length, d_model)
        show_figure(
            distance_curve(curve, theme=selection.theme),
            key="distances",
            alt=f"Dot product of two positional encodings by distance: {curve[0]:.0f} at 0, "
            f"{curve[1]:.1f} at 1, {curve[-1]:.1f} at {length - 1}",
        )
