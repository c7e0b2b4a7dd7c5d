"""Show whether a trace has the properties that every correct trace has."""

from __future__ import annotations

import streamlit as st

from viz_app.records.trace import Check, Trace
from viz_app.views.shared.markdown import escape_markdown

CONSEQUENCES = {
    "each row of attention weights sums to 1": "If not, a map would show shares of something else "
    "than a whole, and rows could not be compared.",
    "no weight on keys after the query (decoder self-attention)": "If not, the decoder would see "
    "tokens that it has yet to predict, and its probabilities would be worth nothing.",
    "logits are the same with and without recording": "If not, what is shown would be of another "
    "computation than the one that translates.",
    "weights times values give each head's output": "If not, the maps would not be the weights "
    "that the model used.",
}
"""Name of a check → what it would mean if it failed."""


def show_checks(trace: Trace) -> None:
    """Draw a line for each check: whether it holds, the largest deviation, and its limit."""
    with st.container(key="checks"):
        st.markdown("\n".join(_line(check) for check in trace.checks))
    if not all(check.passed for check in trace.checks):
        st.error("Do not trust what this sentence's pages show.")


def _line(check: Check) -> str:
    sign = ":green-badge[✓ holds]" if check.passed else ":red-badge[✗ broken]"
    off = f"off by at most {_format(check.deviation, 1)}; allowed is {_format(check.limit, 0)}"
    consequence = escape_markdown(CONSEQUENCES.get(check.name, ""))
    return f"- {sign} **{escape_markdown(check.name)}**: {off}. {consequence}".rstrip()


def _format(value: float, decimals: int) -> str:
    """Write a number with a minus sign at which no line breaks."""
    return f"{value:.{decimals}e}".replace("-", "−") if value else "0"
