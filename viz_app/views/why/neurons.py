"""A feed-forward unfolded into its neurons: which spoke for the word, and what drove one."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import Stack
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.account import (
    largest_bars,
    largest_neurons,
    limit_of,
    stream_parts,
)
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.records.account import Account, StreamParts
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
from headwise.viz_app.views.why.account_panels import NEURONS, account_panel
from headwise.viz_app.views.why.caches import drivers_of, neuron_words_of
from headwise.viz_app.views.why.strongest import show_strongest

_MOST_DRIVERS = 10
_WORDS = 8
_INPUTS = {"expand": "the input", "gate": "the factor"}
"""What the linear layers of a feed-forward give a neuron; a gated one has two."""


@account_panel(NEURONS)
def show_neurons(selection: Selection, trace: Trace, account: Account) -> None:
    """Ask for a feed-forward and draw its largest neurons; describe the chosen one."""
    show_heading("Feed-forwards, by neuron")
    picture, words = st.columns(2, gap="large")
    with picture:
        layer, neuron = _choose_neuron(selection, account.parts, "", least=limit_of(account))
    with words:
        if neuron is None:
            st.caption("Choose a neuron to see the words it raises and what drove it.")
            return
        run, at = selection.run, account.step
        raised, lowered = neuron_words_of(run, trace, at, layer - 1, neuron - 1, _WORDS)
        for title, ids in (("raises", raised), ("lowers", lowered)):
            written = ", ".join(map(escape_markdown, target_labels(run, ids)))
            st.markdown(
                f"Neuron {neuron:,} of layer {layer} {title} most, where it is active: {written}"
            )
        _show_drivers(selection, trace, "decoder", at, layer, neuron)
        show_strongest(selection, layer, neuron)


def show_encoder_neurons(
    selection: Selection, trace: Trace, cell: StreamParts, position: int
) -> None:
    """Draw the neurons of a feed-forward of the encoder by what they brought to a cell."""
    picture, words = st.columns(2, gap="large")
    with picture:
        layer, neuron = _choose_neuron(selection, cell, "encoder_", least=0.0)
    with words:
        if neuron is None:
            st.caption("Choose a neuron to see what drove it.")
        else:
            _show_drivers(selection, trace, "encoder", position, layer, neuron)


def _choose_neuron(
    selection: Selection, parts: StreamParts, prefix: str, *, least: float
) -> tuple[int, int | None]:
    """Ask for a feed-forward and draw its largest neurons; return layer and neuron, from 1.

    The scale ends at ``least`` or beyond. The fields of the view begin with ``prefix``.
    """
    layer = choose_one(
        f"Feed-forward{' of the encoder' * bool(prefix)}",
        range(1, len(parts.neurons) + 1),
        key=f"{prefix}feed_forward",
        default=int(first_largest(np.abs(parts.feed_forwards))) + 1,
    )
    values = parts.neurons[layer - 1]
    neuron: int | None = getattr(view().why, f"{prefix}neuron")
    shown = largest_neurons(values, MOST_NEURONS)
    if neuron is not None and not 1 <= neuron <= len(values):
        neuron = None
    if neuron is not None and neuron - 1 not in shown:
        shown.append(neuron - 1)
    rest = float(values.sum() - values[shown].sum())
    limit = max(least, float(np.abs(values[shown]).max(initial=0.0)), abs(rest)) or 1.0
    own = f" This scale is its own: it ends at {limit:.2g}." if limit != least else ""

    def choose() -> None:
        place = clicked_value(f"{prefix}neurons")
        if place is not None and int(place) < len(shown):
            change_view(
                **{f"{prefix}feed_forward": layer, f"{prefix}neuron": shown[int(place)] + 1}
            )

    show_figure(
        bar_chart(
            [
                *(f"neuron {each + 1:,}" for each in shown),
                f"{len(values) - len(shown):,} others",
            ],
            [*(float(values[each]) for each in shown), rest],
            theme=selection.theme,
            limit=limit,
            marked=None if neuron is None else shown.index(neuron - 1),
            clicks=[*("describe this neuron" for _ in shown), "the others together"],
        ),
        key=f"{prefix}neurons",
        alt=f"The neurons of feed-forward {layer} that brought most, as signed bars",
        name=f"{prefix}neurons-{layer}",
        on_select=choose,
    )
    st.caption(
        f"Activation × what the neuron writes; all {len(values):,} sum to {values.sum():+.3f}. "
        f"A click describes a neuron.{own}"
    )
    return layer, neuron


def _show_drivers(
    selection: Selection, trace: Trace, stack: Stack, position: int, layer: int, neuron: int
) -> None:
    """Draw what the input of a neuron was the sum of."""
    found = drivers_of(selection.run, trace, stack, position, layer - 1, neuron - 1)
    for name, parts in found.items():
        bars = largest_bars(stream_parts(parts), _MOST_DRIVERS)
        st.markdown(
            f"What drove {_INPUTS[name]} of neuron {neuron:,} here, {parts.total:+.3f} in all, on "
            "a scale of its own:"
        )
        show_figure(
            bar_chart(
                [bar.label for bar in bars],
                [bar.value for bar in bars],
                theme=selection.theme,
                limit=max(abs(bar.value) for bar in bars) or 1.0,
            ),
            key=f"{stack}_drivers_{name}",
            alt=f"What drove neuron {neuron} of layer {layer}, as signed bars",
            name=f"{stack}-drivers-{layer}-{neuron}-{name}",
        )
