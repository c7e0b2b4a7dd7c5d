"""A feed-forward unfolded into its neurons: which spoke for the word, and what drove one."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.ties import first_largest
from headwise.viz_app.analysis.account import (
    largest_bars,
    largest_neurons,
    limit_of,
    stream_parts,
)
from headwise.viz_app.figures.account import signed_bars
from headwise.viz_app.records.account import Account
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import MOST_NEURONS
from headwise.viz_app.views.shared.accounts import target_labels
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, view
from headwise.viz_app.views.shared.widgets import (
    choose_one,
    clicked_value,
    show_figure,
    show_heading,
)
from headwise.viz_app.views.why.caches import drivers_of, neuron_words_of
from headwise.viz_app.views.why.strongest import show_strongest

_MOST_DRIVERS = 10
_WORDS = 8
_INPUTS = {"expand": "its input", "gate": "its factor"}
"""What the linear layers of a feed-forward give a neuron; a gated one has two."""


def show_neurons(selection: Selection, trace: Trace, account: Account) -> None:
    """Ask for a feed-forward and draw its largest neurons; describe the chosen one."""
    show_heading("Feed-forwards, by neuron")
    sums = account.parts.feed_forwards
    layer = choose_one(
        "Feed-forward",
        range(1, len(sums) + 1),
        key="feed_forward",
        default=int(first_largest(np.abs(sums))) + 1,
    )
    values = account.parts.neurons[layer - 1]
    neuron = view().why.neuron
    shown = largest_neurons(values, MOST_NEURONS)
    if neuron is not None and 1 <= neuron <= len(values) and neuron - 1 not in shown:
        shown.append(neuron - 1)
    rest = float(values.sum() - values[shown].sum())

    def choose() -> None:
        place = clicked_value("neurons")
        if place is not None and int(place) < len(shown):
            change_view(feed_forward=layer, neuron=shown[int(place)] + 1)

    picture, words = st.columns(2, gap="large")
    with picture:
        show_figure(
            signed_bars(
                [
                    *(f"neuron {each + 1:,}" for each in shown),
                    f"{len(values) - len(shown):,} others",
                ],
                [*(float(values[each]) for each in shown), rest],
                theme=selection.theme,
                limit=max(limit_of(account), abs(rest)),
                marked=shown.index(neuron - 1) if neuron and neuron - 1 in shown else None,
                clicks=[*("describe this neuron" for _ in shown), "the others together"],
            ),
            key="neurons",
            alt=f"The neurons of feed-forward {layer} that brought most, as signed bars",
            name=f"neurons-{layer}",
            on_select=choose,
        )
        st.caption(
            f"Activation × what the neuron writes; all {len(values):,} sum to {values.sum():+.3f}. "
            "A click describes a neuron."
        )
    with words:
        if neuron is None or not 1 <= neuron <= len(values):
            st.caption("Choose a neuron to see the words it raises and what drove it.")
        else:
            _describe(selection, trace, account, layer, neuron)


def _describe(
    selection: Selection, trace: Trace, account: Account, layer: int, neuron: int
) -> None:
    run, at = selection.run, account.step
    raised, lowered = neuron_words_of(run, trace, at, layer - 1, neuron - 1, _WORDS)
    for title, ids in (("raises", raised), ("lowers", lowered)):
        written = ", ".join(map(escape_markdown, target_labels(run, ids)))
        st.markdown(
            f"Neuron {neuron:,} of layer {layer} {title} most, where it is active: {written}"
        )
    for name, parts in drivers_of(run, trace, at, layer - 1, neuron - 1).items():
        bars = largest_bars(stream_parts(parts), _MOST_DRIVERS)
        st.markdown(f"What drove {_INPUTS[name]} here, {parts.total:+.3f} in all:")
        show_figure(
            signed_bars(
                [bar.label for bar in bars],
                [bar.value for bar in bars],
                theme=selection.theme,
                limit=max(abs(bar.value) for bar in bars) or 1.0,
            ),
            key=f"drivers_{name}",
            alt=f"What drove neuron {neuron} of layer {layer}, as signed bars",
            name=f"drivers-{layer}-{neuron}-{name}",
        )
    show_strongest(selection, layer, neuron)
