"""Draw the page Architecture: the two stacks, modules, presets, masks, lens, checks, equations."""

from __future__ import annotations

import re
from collections.abc import Callable

import streamlit as st

from headwise.viz_app.figures.architecture import architecture_svg, describe_architecture
from headwise.viz_app.records.trace import Check, Trace
from headwise.viz_app.views.architecture.decoder_lens import show_decoder_lens
from headwise.viz_app.views.architecture.equations import show_equations
from headwise.viz_app.views.architecture.lens import show_lens
from headwise.viz_app.views.architecture.masks import show_masks
from headwise.viz_app.views.architecture.modules import show_modules
from headwise.viz_app.views.architecture.presets import show_presets
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import choose_trace, show_target
from headwise.viz_app.views.shared.widgets import show_heading

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
_PARTS: dict[str, tuple[str, Callable[[Selection, Trace], None]]] = {
    "The model, module by module": (
        "parameters, and what each hook point recorded of this sentence",
        show_modules,
    ),
    "This run beside the presets": (
        "what was chosen, and what each choice changes",
        lambda selection, _: show_presets(selection),
    ),
    "Masks": ("which keys a query may attend to", show_masks),
    "The lens: what each layer would already say": (
        "the decoder's stream after each layer, unembedded",
        show_lens,
    ),
    "What the decoder writes from each encoder layer": (
        "the translation when an inner layer takes the place of the encoder's output",
        show_decoder_lens,
    ),
    "Self-checks on this sentence": (
        "what must hold of every trace",
        lambda _, trace: show_checks(trace),
    ),
    "The paper's equations, here": ("with this sentence's sizes and numbers", show_equations),
}
"""Title of each part → what is in it, and the function that draws it below its title."""


def page(selection: Selection) -> None:
    """Draw the page."""
    trace = choose_trace(selection)
    show_target(selection, trace, key="translation")
    drawing, contents = st.columns([3, 2], gap="large")
    with drawing:
        _show_drawing(selection, trace)
    with contents:
        st.markdown("**On this page**")
        st.markdown(
            "\n".join(
                f"- [{title}](#{_anchor(title)}): {what}" for title, (what, _) in _PARTS.items()
            )
        )
    for title, (_, draw) in _PARTS.items():
        show_heading(title)
        draw(selection, trace)
    show_download_menu(selection, trace)


def _anchor(title: str) -> str:
    """Return the name by which Streamlit makes a heading the target of links."""
    return "-".join(re.findall(r"\w+", title.lower()))


def _show_drawing(selection: Selection, trace: Trace) -> None:
    model, source, steps = selection.run.description, len(trace.source), len(trace.consumed)
    st.image(
        architecture_svg(model, source=source, steps=steps, theme=selection.theme),
        width=460,
        alt=describe_architecture(model, source=source, steps=steps),
    )
    st.caption(
        "The two stacks, from the bottom, with the shapes of this sentence: batch × position × "
        "width. A line around a box is a residual connection, + its sum."
    )


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
