"""Whether the trace has the properties that every true trace has."""

from __future__ import annotations

import streamlit as st

from viz_app.records import Check, Trace
from viz_app.views._widgets import plain

IF_NOT = {
    "each row of attention weights sums to 1": "A map would show shares of something else than a "
    "whole: rows could not be compared.",
    "no weight on keys after the query (decoder self-attention)": "The decoder would see pieces "
    "that it has yet to predict, and its probabilities would be worth nothing.",
    "logits are the same with and without recording": "What is shown would be of another "
    "computation than the one that translates.",
    "weights times values give each head's output": "The maps would not be the weights that the "
    "model used.",
}
"""Name of a check → what it would mean if it failed."""


def show_checks(trace: Trace) -> None:
    """A row a check: whether it holds, the largest deviation and its limit."""
    st.markdown("##### Self-checks on this sentence")
    rows = ["| | what must hold | largest deviation | limit | if not |", "|---|---|--:|--:|---|"]
    rows += [_row(check) for check in trace.checks]
    with st.container(key="checks"):
        st.markdown("\n".join(rows))
    if not all(check.passed for check in trace.checks):
        st.error("Do not trust what this sentence's pages show.")


def _row(check: Check) -> str:
    sign = ":green-badge[✓ holds]" if check.passed else ":red-badge[✗ broken]"
    numbers = _written(check.deviation, 1), _written(check.limit, 0)
    cells = [sign, plain(check.name), *numbers, plain(IF_NOT.get(check.name, ""))]
    return f"| {' | '.join(cells)} |"


def _written(value: float, decimals: int) -> str:
    """With a minus sign, at which no line breaks."""
    return f"{value:.{decimals}e}".replace("-", "−") if value else "0"
