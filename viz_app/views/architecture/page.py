"""Draw the page Architecture: the two stacks, modules, presets, masks, lens, checks, equations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import streamlit as st

from headwise.model.masks import causal_mask, pad, padding_mask
from headwise.viz_app.analysis.batches import TokenIds, batch_of_lengths
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import numbered, token_label, token_labels
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.figures.drawings import architecture_svg, describe_architecture
from headwise.viz_app.figures.maps import mask_map
from headwise.viz_app.figures.tokens import lens_table, padding_rows
from headwise.viz_app.records.trace import (
    AS_TRANSFORMERS,
    ROWS_OF_HALVES,
    ROWS_OF_WEIGHTS,
    Check,
    Trace,
)
from headwise.viz_app.views.architecture.decoder_lens import show_decoder_lens
from headwise.viz_app.views.architecture.equations import show_equations
from headwise.viz_app.views.architecture.modules import show_modules, show_presets
from headwise.viz_app.views.architecture.stream_sizes import show_stream_sizes
from headwise.viz_app.views.caches import checkpoint_of, log_of, to_tokens
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.errors import USER_ERRORS
from headwise.viz_app.views.shared.markdown import escape_markdown, power_of_ten
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import choose_trace, show_target
from headwise.viz_app.views.shared.turns import let_browser_draw
from headwise.viz_app.views.shared.widgets import show_figure, show_heading

CONSEQUENCES = {
    ROWS_OF_WEIGHTS: "If not, a map would show shares of something else "
    "than a whole, and rows could not be compared.",
    ROWS_OF_HALVES: "If not, the halves would not be those of one softmax, and a map would show "
    "shares of something else than a whole.",
    "no weight on keys after the query (decoder self-attention)": "If not, the decoder would see "
    "tokens that it has yet to predict, and its probabilities would be worth nothing.",
    "logits are the same with and without recording": "If not, what is shown would be of another "
    "computation than the one that translates.",
    AS_TRANSFORMERS: "If not, what is shown would be of another model than the one that people "
    "run.",
    "weights times values give each head's output": "If not, the maps would not be the weights "
    "that the model used.",
}
"""Name of a check → what it would mean if it failed."""


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
    let_browser_draw()
    for title, (_, draw) in _PARTS.items():
        show_heading(title)
        draw(selection, trace)
    show_download_menu(selection, trace)


def _anchor(title: str) -> str:
    """Return the name by which Streamlit makes a heading the target of links."""
    return "-".join(re.findall(r"\w+", title.lower()))


def _show_drawing(selection: Selection, trace: Trace) -> None:
    model, source, steps = selection.run.description, len(trace.source), len(trace.consumed)
    with st.container(key="stacks"):
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
    most, allowed = power_of_ten(check.deviation, 1), power_of_ten(check.limit)
    off = f"off by at most {most}; allowed is {allowed}"
    consequence = escape_markdown(CONSEQUENCES.get(check.name, ""))
    return f"- {sign} **{escape_markdown(check.name)}**: {off}. {consequence}".rstrip()


def show_lens(selection: Selection, trace: Trace) -> None:
    """Draw a table with a row for each step and a column for each layer."""
    lens = read_lens(trace)
    layers, grid = lens.probabilities.shape[1] - 1, make_grid(trace, "cross")
    with st.container(key="lens"):
        st.html(
            lens_table(
                lens.labels,
                lens.probabilities,
                actual=lens.actual,
                notes=lens.notes,
                rows=numbered(grid.rows),
                columns=["embedding", *(f"layer {layer + 1}" for layer in range(layers))],
                row_title=f"position: {grid.row_title}",
                theme=selection.theme,
                language=selection.run.target_language,
            )
        )
    config = selection.run.description
    readers = [
        *["the final norm"] * config.final_norm,
        *["the layer before the unembedding"] * config.output_transform,
        *["the factor 1/√D"] * config.scale_output,
    ]
    reader = " and then ".join([*readers, "the unembedding"])
    st.caption(
        f"The likeliest next token if {reader} read the decoder's stream after each layer; the "
        "last column is the model's prediction. Cells are shaded by probability, on the scale of "
        "attention weights. ✓ and a frame mark the token that does come next in the target. Rest "
        "the mouse on a cell for the five likeliest."
    )
    st.caption(_caveat(config.norm == "post"))


def _caveat(post_norm: bool) -> str:
    caveat = (
        "The unembedding was trained to read the last layer only. What an inner layer holds in "
        "other directions is unreadable here and yet of use to later layers: a wrong token does "
        "not mean that nothing is known."
    )
    if post_norm:
        caveat += (
            " All the more in this run, with its norm after each sublayer: every layer scales and "
            "shifts the stream again, there is no norm at the end that all could share, and what "
            "an inner layer holds was never meant for the unembedding."
        )
    return caveat


def show_masks(selection: Selection, trace: Trace) -> None:
    """Draw the decoder's causal mask, and padding masks of this source alone and in a batch."""
    steps, source = len(trace.consumed), trace.source.ids
    causal, padding = st.columns(2, gap="medium")
    with causal:
        st.markdown("**Causal mask, in the decoder's self-attention**")
        labels = token_labels(trace.consumed)
        figure = mask_map(
            causal_mask(steps, steps)[0, 0].numpy(),
            rows=labels,
            columns=labels,
            titles=("query", "key"),
            theme=selection.theme,
            width=440,
        )
        show_figure(
            figure,
            key="causal",
            alt=f"The causal mask of {steps} positions: allowed to the diagonal, forbidden above",
            name="causal-mask",
        )
        st.caption(
            f"{steps} × {steps}: a position may attend to itself and to what was consumed before "
            "it, the coloured cells. Grey ones, crossed where there is room, are masked: their "
            "scores become −∞, their weights exactly 0. The same for every layer and head."
        )
    with padding:
        st.markdown("**Padding mask of this source, alone in its batch**")
        _show_padding(selection, [source], key="alone")
        st.caption(
            f"1 × 1 × 1 × {len(source)}, for every head and query of the encoder and of "
            "cross-attention. Nothing is padded, so nothing is masked."
        )
        st.caption(
            "The decoder needs no padding mask of its own: targets are padded on the right, where "
            "the causal mask keeps every token from seeing what comes later, and what the padded "
            "rows compute is not used."
        )
    batch = batch_of_lengths(source, _samples(selection))
    st.markdown("**Padding mask of a batch with other sentences**")
    _show_padding(selection, batch, key="batch")
    st.caption(
        f"{len(batch)} × 1 × 1 × {max(map(len, batch))}: shorter sentences are filled up with "
        f"{escape_markdown(_filler(selection))}, which no query may attend to: dashed, grey, with "
        "×. Without the mask, a sentence's translation would depend on its neighbours in the batch."
    )


def _filler(selection: Selection) -> str:
    """Return the label of the token that fills up sentences in training, if the model names one."""
    padding = checkpoint_of(selection.run, selection.step).model.special_ids.padding
    if padding is None:
        return "padding"
    return token_label(selection.run.tokenizers.source.tokens([padding])[0])


def _show_padding(selection: Selection, batch: Sequence[TokenIds], *, key: str) -> None:
    tokenizer, filler = selection.run.tokenizers.source, _filler(selection)
    longest = max(map(len, batch))
    with st.container(key=key):
        st.html(
            padding_rows(
                [
                    [*token_labels(to_tokens(tokenizer, row)), *[filler] * (longest - len(row))]
                    for row in batch
                ],
                padding_mask(pad(batch))[:, 0, 0].numpy(),
                rows=[f"{row + 1}" for row in range(len(batch))],
                language=selection.run.source_language,
            )
        )


def _samples(selection: Selection) -> list[TokenIds]:
    """Return the run's sample sentences; none if they cannot be read, which the frame shows."""
    encode = selection.run.tokenizers.encode_source
    with suppress(*USER_ERRORS):
        rows = log_of(selection.run.folder, "samples.jsonl")
        texts = {str(row.get("source", "")).strip(): None for row in rows}
        return [tuple(encode(text)) for text in texts if text]
    return []


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
    "The largest numbers of the stream": (
        "which tokens have numbers far above the others, and in which layer",
        show_stream_sizes,
    ),
    "Self-checks on this sentence": (
        "what must hold of every trace",
        lambda _, trace: show_checks(trace),
    ),
    "The paper's equations, here": ("with this sentence's sizes and numbers", show_equations),
}
"""Title of each part → what is in it, and the function that draws it below its title."""
