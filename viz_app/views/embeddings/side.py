"""The side of the model that the page shows: its tokens in the sentence, and its vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from model.config import UNK
from viz_app.analysis.labels import piece_label
from viz_app.analysis.vocabulary import vocabulary_labels
from viz_app.records import Floats, InputEmbedding, Tokens, Trace
from viz_app.views._events import tell_refusal
from viz_app.views._session import Selection, checkpoint_of, embedding_table
from viz_app.views._widgets import plain


@dataclass(frozen=True)
class Side:
    """The source or the target of a trace, as it enters its stack and goes through it."""

    name: str
    """source or target."""
    tokens: Tokens
    """What the stack reads."""
    embedding: InputEmbedding
    stream: Floats
    """(L + 1, n, D)."""


def side_of(trace: Trace, name: str) -> Side:
    """One side of a trace."""
    if name == "source":
        return Side(name, trace.source, trace.source_embedding, trace.encoder_stream)
    return Side(name, trace.consumed, trace.target_embedding, trace.decoder_stream)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a side with their embeddings, (V, D), and how often each occurs in training."""

    side: str
    shared: bool
    """Whether both sides have this one table."""
    weights: str
    """sha256 of the checkpoint."""
    table: Floats
    labels: tuple[str, ...]
    source: NDArray[np.int64]
    """Occurrences on the source side, (V,); all 0 where that has a vocabulary of its own."""
    target: NDArray[np.int64]
    """Likewise on the target side."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Occurrences in all, (V,)."""
        return self.source + self.target

    @property
    def name(self) -> str:
        """For people, in a sentence."""
        if self.shared:
            return "the one table that source and target share"
        return f"the {self.side} side's table"


def vocabulary_of(selection: Selection, side: str) -> Vocabulary:
    """The vocabulary of a side, or the one that both share.

    Raises:
        CheckpointError: if weights or counts cannot be used.
    """
    run = selection.run
    table = embedding_table(run, selection.step, side)
    shared = run.info.model.tied == "all"
    none = np.zeros(len(table), np.int64)
    counts = run.counts
    tokenizer = getattr(run.tokenizers, side)
    return Vocabulary(
        side=side,
        shared=shared,
        weights=checkpoint_of(run, selection.step).sha256,
        table=table,
        labels=vocabulary_labels(
            tokenizer.pieces(range(len(table))), spaced=tokenizer.kind == "bpe"
        ),
        source=np.array(counts.source) if shared or side == "source" else none,
        target=np.array(counts.target) if shared or side == "target" else none,
    )


def find_token(selection: Selection, vocabulary: Vocabulary, chosen: int | str) -> int:
    """The id of a token that was chosen, or typed otherwise than it stands in the list.

    Raises:
        ValueError: if what was typed is no single token; it says what it is read as.
    """
    if isinstance(chosen, int):
        return chosen
    tokenizer = getattr(selection.run.tokenizers, vocabulary.side)
    ids = tokenizer.encode(chosen.strip())
    if len(ids) == 1 and ids != [UNK]:
        return int(ids[0])
    read = " ".join(vocabulary.labels[id] for id in ids[:12]) + " …" * (len(ids) > 12)
    raise ValueError(
        f"“{piece_label(chosen[:40])}” is no token of this vocabulary"
        + (f": it is read as {read}" if ids else "")
        + "; choose one of the list"
    )


def tokens_first(tokens: Tokens, vocabulary: Vocabulary) -> Sequence[int]:
    """All ids to choose from, those of the sentence first."""
    return list(dict.fromkeys([*tokens.ids, *range(len(vocabulary.labels))]))


def choose_tokens(
    selection: Selection, vocabulary: Vocabulary, label: str, *, most: int, key: str
) -> list[int]:
    """Ids of tokens that a person chooses or types; what is none is said."""
    chosen: list[int | str] = st.multiselect(
        label,
        range(len(vocabulary.labels)),
        format_func=lambda id: vocabulary.labels[id] if isinstance(id, int) else id,
        max_selections=most,
        accept_new_options=True,
        select_all=False,
        placeholder="Type to search",
        help=TOKEN_HELP.replace(" The pieces of the sentence come first.", ""),
        key=key,
    )
    ids = []
    for token in chosen:
        try:
            ids.append(find_token(selection, vocabulary, token))
        except ValueError as problem:
            tell_refusal(problem)
            st.error(plain(str(problem)))
    return ids


TOKEN_HELP = (
    "Type to search. The pieces of the sentence come first. A · stands before a piece that follows "
    "what is before it without a space."
)


def show_heading(title: str, note: str = "") -> None:
    """What a part of the page is."""
    st.markdown(f"##### {title}")
    if note:
        st.caption(note)
