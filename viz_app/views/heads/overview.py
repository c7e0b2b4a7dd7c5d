"""Every head with what its measures say, in the order of one of them."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from viz_app.analysis.head_words import ABOUT, ranked, telling, values_of
from viz_app.analysis.labels import KIND_NAMES
from viz_app.components.picks import Bar, Row, picks
from viz_app.measure_records import Measures
from viz_app.records import KINDS, Head, Kind
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_for, choose_one, panel, plain
from viz_app.views.address import check_asked, is_finite
from viz_app.views.choice import head_label
from viz_app.views.heads.measured import choose_measure

HEAD_PANELS = ("head_examples", "head_list")
"""What depends on the chosen head; the first has its widgets."""


@panel("head_list")
def show_list(selection: Selection, measures: Measures) -> None:
    """Draw the list and what it is sorted and filtered by."""
    st.markdown(f"##### What the heads do at step {selection.step:,}")
    what, how = st.columns([2, 3], gap="large")
    with what:
        name = choose_measure()
    with how, st.container(horizontal=True, gap="small"):
        kind: Kind | Literal["all"] = choose_one(
            "Attention",
            ("all", *KINDS),
            key="heads_kind",
            default="all",
            format_func=lambda kind: "all kinds" if kind == "all" else KIND_NAMES[kind],
        )
        order = choose_one(
            "Order", ["largest first", "smallest first"], key="heads_order", default="largest first"
        )
        check_asked("heads_least", "At least", is_finite)
        least = st.number_input(
            "At least",
            value=None,
            step=0.05,
            format="%.3f",
            key="heads_least",
            placeholder="any",
            bind="query-params",
            help="Only heads whose value of the measure is at least this.",
            width=160,
        )
    found = ranked(
        measures.values[name],
        kinds=KINDS if kind == "all" else (kind,),
        descending=order == "largest first",
        least=least,
    )
    if not found:
        st.info(
            f"No head has a value of “{plain(ABOUT[name].name)}” here"
            + ("." if least is None else f" of {least:.3f} or more.")
        )
        return
    state = st.session_state
    chosen = (state["kind"], state["layer"] - 1, state["head"] - 1)
    signed = ABOUT[name].signed
    low = min(0.0, *(value for _, value in found)) if signed else 0.0
    high = (max(0.0, *(value for _, value in found)) or -low or 1.0) if signed else 1.0
    rows = [
        Row(
            _name(head),
            (
                head_label(head),
                Bar(
                    value, f"{round(value, 3) + 0.0:+.3f}" if signed else f"{value:.2f}", low, high
                ),
                "; ".join(telling(values_of(measures.values, head), head[0])),
            ),
        )
        for head, value in found
    ]
    picks(
        ["head", ABOUT[name].name, "in words"],
        rows,
        label=f"{len(rows)} heads by {ABOUT[name].name}, {order}",
        theme=selection.theme,
        key="head_picks",
        chosen=_name(chosen),
        on_pick=_choose,
        action="Show its strongest examples below",
    )
    st.caption(
        f"{len(rows)} heads, as layer.head. Click one for its strongest examples. What is said of "
        "a head is what is most striking in its measures; all of them stand below."
    )


def _name(head: Head) -> str:
    return ",".join(map(str, head))


def _choose(name: str) -> None:
    kind, layer, head = name.split(",")
    choose_for(*HEAD_PANELS, kind=kind, layer=int(layer) + 1, head=int(head) + 1)
