"""Show where heads rest in this sentence, and whether they do anything there."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.components.row_table import Row, row_table
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_slowly
from headwise.viz_app.session.caches import weights_of
from headwise.viz_app.session.head_choice import choices_for, chosen_head, head_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import in_slices
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, view
from headwise.viz_app.session.widgets import show_heading
from headwise.viz_app.translate.shown_map import HEAD_PANELS
from headwise.viz_app.translate.sinks.found import (
    SINK_NOTE,
    find_sinks,
    rest_without_content,
    sink_effects,
)


def show_sinks(selection: Selection, trace: Trace) -> None:
    """Draw a table of the sinks of the heads of the chosen kind, and what they are worth."""
    chosen = chosen_head(selection.run.description, view())
    kind = chosen.kind
    layers, heads = trace.shapes[kind]
    show_heading(f"Attention sinks of {KIND_NAMES[kind].lower()}-attention")
    if not find_sinks(trace, kind):
        st.caption(
            f"In this sentence none of these {layers * heads} heads has most of its weight on one "
            "token, or on special tokens and punctuation together: nowhere is it nearer to all of "
            "the weight than to what an even head has there."
        )
        return
    weights = weights_of(selection.run, trace.step)
    found = in_slices(
        "Trying sinks",
        lambda note: ask_slowly(weights, sink_effects, trace, note, kind),
        key="sinks-progress",
        stop=lambda: change_view(below="steps"),
    )
    if found is None:
        return
    steps, keys = len(trace.predicted), trace.keys_of(kind)
    rows = [
        Row(
            str(place),
            (
                head_label(sink.head),
                sink.named(keys),
                effects.role(steps),
                f"{sink.share:.2f} ({sink.even:.2f})",
                f"{sink.norm:.1f} / {sink.norm_elsewhere:.1f}",
                *(
                    f"{cost:+.3f}"
                    for cost in (effects.values_zero, effects.removed, effects.elsewhere_zero)
                ),
                f"{effects.rank:.2f} ({effects.even_rank:.2f})",
            ),
        )
        for place, effects in enumerate(found)
        for sink in [effects.sink]
    ]
    sinks = [effects.sink.head for effects in found]
    row_table(
        [
            *("head", "rests on", "in words", "weight (even)", "‖v W_O‖ there / else"),
            *("values zero", "removed", "others zero", "rank (even)"),
        ],
        rows,
        label=f"Sinks of {len(rows)} heads",
        theme=selection.theme,
        key="sink_table",
        chosen=str(sinks.index(chosen)) if chosen in sinks else "",
        on_click=lambda name: change_view(*HEAD_PANELS, **choices_for(sinks[int(name)])),
        action="Enlarge its map",
    )
    st.caption(
        f"{len(rows)} of {layers * heads} heads. {escape_markdown(SINK_NOTE)} Click a head to "
        "enlarge its map."
    )


def show_special_weight(selection: Selection, trace: Trace) -> None:
    """Say above the maps where most of the shown head's weight is on tokens without content.

    A button leaves them out.
    """
    head, own = chosen_head(selection.run.description, view()), view().translate
    most = rest_without_content(trace, head)
    if not own.special or own.show != "head" or most is None:
        return
    share, even = most
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.caption(
            f"{share:.2f} of the weight is on special tokens and punctuation ({even:.2f} if even)",
            width="content",
        )
        st.button(
            "Leave them out",
            key="leave-out-special",
            type="tertiary",
            icon=":material/visibility_off:",
            help="Columns of special tokens and punctuation are not drawn, and rows are scaled to "
            "sum to 1 again. What the weight there is worth is tried below, under “Attention "
            "sinks”.",
            on_click=lambda: change_view(
                WHOLE_PAGE, special=False, renormalised=True, punctuation=False
            ),
        )
