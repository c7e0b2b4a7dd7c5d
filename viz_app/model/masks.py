"""Show which keys a query may attend to, and what must hold of every trace."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headwise.model.masks import causal_mask, pad, padding_mask
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.figures.html import padding_rows
from headwise.viz_app.figures.maps import mask_map
from headwise.viz_app.records.trace import (
    AS_TRANSFORMERS,
    ROWS_OF_HALVES,
    ROWS_OF_WEIGHTS,
    Check,
    Trace,
)
from headwise.viz_app.session.caches import checkpoint_of, samples_of, to_tokens
from headwise.viz_app.session.markdown import escape_markdown, power_of_ten
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure, show_heading

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
TokenIds = tuple[int, ...]


def show_masks(selection: Selection, trace: Trace) -> None:
    """Draw the causal mask, padding masks of this source alone and in a batch, and the checks."""
    steps, source = len(trace.consumed), trace.source.ids
    causal, padding = st.columns(2, gap="medium")
    with causal:
        show_heading(
            "Causal mask of the decoder",
            f"{steps} × {steps}, in self-attention, the same for every layer and head: a position "
            "may attend to itself and to what was consumed before it, the coloured cells. Grey "
            "ones, crossed where there is room, are masked: their scores become −∞, their weights "
            "exactly 0.",
        )
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
    with padding:
        show_heading(
            "Padding mask of the source",
            f"1 × 1 × 1 × {len(source)}, for every head and query of the encoder and of "
            "cross-attention. Nothing is padded, so nothing is masked. The decoder needs no "
            "padding mask of its own: targets are padded on the right, where the causal mask keeps "
            "every token from seeing what comes later, and what the padded rows compute is not "
            "used.",
        )
        _show_padding(selection, [source], key="alone")
        _show_checks(trace)
    texts = dict.fromkeys(str(row["source"]).strip() for row in samples_of(selection.run))
    encode = selection.run.tokenizers.encode_source
    batch = batch_of_lengths(source, [tuple(encode(text)) for text in texts if text])
    show_heading(
        "In a batch with other sentences",
        f"{len(batch)} × 1 × 1 × {max(map(len, batch))}: shorter sentences are filled up with "
        f"{escape_markdown(_filler(selection))}, which no query may attend to: dashed, grey, "
        "with ×. Without the mask, a sentence's translation would depend on its neighbours in the "
        "batch.",
    )
    _show_padding(selection, batch, key="batch")


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


def _show_checks(trace: Trace) -> None:
    """Draw a line for each check: whether it holds, the largest deviation, and its limit."""
    show_heading("Self-checks on this sentence")
    with st.container(key="checks"):
        st.markdown("\n".join(map(_line, trace.checks)))
    if not all(check.passed for check in trace.checks):
        st.error("Do not trust what this sentence's pages show.")


def _line(check: Check) -> str:
    sign = ":green-badge[✓ holds]" if check.passed else ":red-badge[✗ broken]"
    most, allowed = power_of_ten(check.deviation, 1), power_of_ten(check.limit)
    off = f"off by at most {most}; allowed is {allowed}"
    consequence = escape_markdown(CONSEQUENCES.get(check.name, ""))
    return f"- {sign} **{escape_markdown(check.name)}**: {off}. {consequence}".rstrip()


def batch_of_lengths(
    source: TokenIds, samples: Sequence[TokenIds], *, size: int = 3
) -> tuple[TokenIds, ...]:
    """Choose up to ``size`` sentences of different lengths: ``source``, then samples nearest in
    length, shorter first. Too few are made up by leaving out the source's tokens before its
    last.
    """
    by_length: dict[int, TokenIds] = {}
    for ids in samples:
        by_length.setdefault(len(ids), ids)
    by_length.pop(len(source), None)
    nearest = sorted(by_length, key=lambda length: (abs(length - len(source)), length))
    batch = [source, *(by_length[length] for length in nearest[: size - 1])]
    for length in range(len(source) - 1, 0, -1):
        if len(batch) < size and length not in map(len, batch):
            batch.append((*source[: length - 1], source[-1]))
    return tuple(batch)
