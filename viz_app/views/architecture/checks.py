"""Show whether a trace has the properties that every correct trace has."""

from __future__ import annotations

import streamlit as st

from viz_app.records.trace import Check, Trace
from viz_app.views.shared.markdown import escape_markdown

CONSEQUENCES = {
    "each row of attention weights sums to 1": "A map would show shares of something else than a "
    "whole: rows could not be compared.",
    "no weight on keys after the query (decoder self-attention)": "The decoder would see tokens "
    "that it has yet to predict, and its probabilities would be worth nothing.",
    "logits are the same with and without recording": "What is shown would be of another "
    "computation than the one that translates.",
    "weights times values give each head's output": "The maps would not be the weights that the "
    "model used.",
}
"""Name of a check → what it would mean if it failed."""


def show_checks(trace: Trace) -> None:
    """Draw a row for each check: whether it holds, the largest deviation, and its limit."""
    rows = ["| | what must hold | largest deviation | limit | if not |", "|---|---|--:|--:|---|"]
    rows += [_row(check) for check in trace.checks]
    with st.container(key="checks"):
        st.markdown("\n".join(rows))
    if not all(check.passed for check in trace.checks):
        st.error("Do not trust what this sentence's pages show.")


def _row(check: Check) -> str:
    sign = ":green-badge[✓ holds]" if check.passed else ":red-badge[✗ broken]"
    numbers = _format(check.deviation, 1), _format(check.limit, 0)
    cells = [
        sign,
        escape_markdown(check.name),
        *numbers,
        escape_markdown(CONSEQUENCES.get(check.name, "")),
    ]
    return f"| {' | '.join(cells)} |"


def _format(value: float, decimals: int) -> str:
    """Write a number with a minus sign at which no line breaks."""
    return f"{value:.{decimals}e}".replace("-", "−") if value else "0"
