"""Show the masks of this sentence, and of a padded batch with it, as the model makes them."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from headwise.model.batching import pad
from headwise.model.masks import causal_mask, padding_mask
from headwise.viz_app.analysis.batches import TokenIds, batch_of_lengths
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.figures.maps import mask_map
from headwise.viz_app.figures.tokens import padding_rows
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import checkpoint_of, log_of, to_tokens
from headwise.viz_app.views.shared.errors import USER_ERRORS
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import show_figure


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
            alt=f"The causal mask of {steps} steps: allowed up to the diagonal, forbidden above it",
            name="causal-mask",
        )
        st.caption(
            f"{steps} × {steps}: a step may attend to itself and to what was consumed before it, "
            "the coloured cells. Grey ones, crossed where there is room, are masked: their scores "
            "become −∞, their weights exactly 0. The same for every layer and head."
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
    special = checkpoint_of(selection.run, selection.step).model.special_ids
    (token,) = selection.run.tokenizers.source.tokens([special.padding])
    filler = escape_markdown(token_label(token))
    batch = batch_of_lengths(source, _samples(selection))
    st.markdown("**Padding mask of a batch with other sentences**")
    _show_padding(selection, batch, key="batch")
    st.caption(
        f"{len(batch)} × 1 × 1 × {max(map(len, batch))}: shorter sentences are filled up with "
        f"{filler}, which no query may attend to: dashed, grey, with ×. Without the mask, a "
        "sentence's translation would depend on its neighbours in the batch."
    )


def _show_padding(
    selection: Selection, batch: list[TokenIds] | tuple[TokenIds, ...], *, key: str
) -> None:
    special = checkpoint_of(selection.run, selection.step).model.special_ids
    ids = pad(batch, special.padding)
    tokenizer = selection.run.tokenizers.source
    with st.container(key=key):
        st.html(
            padding_rows(
                [token_labels(to_tokens(tokenizer, row)) for row in ids.tolist()],
                padding_mask(ids, padding=special.padding)[:, 0, 0].numpy(),
                rows=[f"{row + 1}" for row in range(len(batch))],
                theme=selection.theme,
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
