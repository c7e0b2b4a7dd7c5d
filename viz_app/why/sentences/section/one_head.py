"""Draws the maps of a head in A and in B, and their difference where tokens correspond."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.figures.html import scale_legend
from headwise.viz_app.figures.maps import attention_map, difference_map
from headwise.viz_app.session.head_choice import choose_head, head_label, map_arguments
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure
from headwise.viz_app.why.sentences.correspondence import difference_where_corresponding, places_of
from headwise.viz_app.why.sentences.section.pair import SentencePair

_FEW = 14
"""Tokens of A up to which all maps are side by side in a window of 1,280 pixels."""
_LOOKS = "A weight says where the head looks, not what it brings from there."


def show_pair_maps(selection: Selection, pair: SentencePair, at: int) -> None:
    """Ask for a head and draw its maps, the row of a step of the target framed."""
    head = choose_head(selection.run.description)
    kind, layer, number = head
    grids = make_grid(pair.a, kind), make_grid(pair.b, kind)
    maps = tuple(trace.attention[kind][layer, number] for trace in (pair.a, pair.b))
    every: NDArray[np.int64] = np.arange(len(pair.a.consumed))
    of_source = places_of(pair.stretches, len(pair.a.source))
    rows = of_source if kind == "encoder_self" else every
    columns = every if kind == "decoder_self" else of_source
    difference = difference_where_corresponding(maps[0], maps[1], rows, columns)
    name = f"{kind}-layer{layer + 1}-head{number + 1}"
    few = len(pair.a.source) <= _FEW
    axes: dict[str, Any] = {"width": 300 if few else 440, "square": True}
    with st.container(key="pair-maps" if few else "compared"):
        places = [st.container() for _ in range(3)]
    for letter, place, grid, cells in zip("AB", places, grids, maps, strict=False):
        with place:
            st.markdown(f"**{letter}**: where it looks", help=_LOOKS)
            drawn = axes | map_arguments(grid, selection.theme)
            row = None if kind == "encoder_self" else at
            show_figure(
                attention_map(cells, selected=row, **drawn),
                key=f"pair_map_{letter}",
                alt=f"{head_label(head)} in sentence {letter}: attention map of {grid.said}",
                name=f"{name}-{letter}",
            )
    weights = scale_legend(selection.theme, "weight", masked=grids[0].allowed is not None)
    st.html(f"{weights} · {scale_legend(selection.theme, 'B − A', signed=True)}")
    with places[2]:
        st.markdown("**B − A**", help=_apart(pair))
        show_figure(
            difference_map(
                difference, has_bar=False, **axes, **map_arguments(grids[0], selection.theme)
            ),
            key="pair_difference",
            alt=f"{head_label(head)}: weights in B minus those in A where tokens correspond",
            name=f"{name}-difference",
        )


def _apart(pair: SentencePair) -> str:
    """Say which tokens correspond though they differ, and which have no counterpart."""
    both = list(zip(pair.stretches, pair.labels, strict=True))
    changed = [label for each, label in both if each.fits and not each.same]
    alone = [label for each, label in both if not each.fits]
    said = "The difference has the rows and columns of A."
    if changed:
        said += f" These stand for each other: {escape_markdown(', '.join(changed))}."
    if alone:
        said += (
            f" Left empty, since there are not equally many tokens on both sides: "
            f"{escape_markdown(', '.join(alone))}."
        )
    return said
