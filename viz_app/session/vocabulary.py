"""The vocabulary of a side of the model, its special tokens, and the choice of tokens from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from headwise.model.config import Counts
from headwise.model.interface import Side
from headwise.model.spelling import token_of
from headwise.viz_app.analysis.embeddings import Components, frequency_groups, principal_components
from headwise.viz_app.analysis.labels import next_token_label, token_label, vocabulary_labels
from headwise.viz_app.components.scatter import Cloud
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import Run, embedding_table, weights_of
from headwise.viz_app.session.errors import show_error
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import control
from headwise.viz_app.session.widgets import choose_on_slider

TOKEN_HELP = (
    "Type to search. The tokens of the sentence come first. A · stands before a token that follows "
    "what is before it without a space."
)

_MOST_OFFERED = 20_000
"""Most tokens in a list of choices, which the browser is sent as a whole."""
_OURS = re.compile("</?s>")


@dataclass(frozen=True)
class SpecialTokens:
    """The tokens around every target are held with their labels."""

    start: str
    """The first token that the decoder consumes."""
    end: str

    def name_in(self, text: str) -> str:
        """Put their names in a text in place of ``<s>`` and ``</s>``, which runs of ours have."""
        names = {"<s>": self.start, "</s>": self.end}
        return _OURS.sub(lambda found: names[found[0]], text)


def special_tokens_of(run: Run) -> SpecialTokens:
    """Return the start and the end of every target of a run."""

    def name() -> SpecialTokens:
        start, *_, end = run.tokenizers.encode_target("")
        return SpecialTokens(*map(token_label, run.tokenizers.target.tokens([start, end])))

    key = run.tokenizers_sha256
    return cached("special tokens", key, name, facts=lambda _: {"run": run.name})


@dataclass(frozen=True)
class SideVocabulary:
    """A vocabulary has the tokens of a side, their embeddings and their counts in training."""

    side: Side
    shared: bool
    """Whether both sides have this one table."""
    weights: str
    """sha256 of the checkpoint."""
    table: Floats
    """Embeddings, (V, D)."""
    labels: tuple[str, ...]
    source: NDArray[np.int64]
    """Occurrences on the source side, (V,); all 0 where that has a vocabulary of its own."""
    target: NDArray[np.int64]
    """Occurrences on the target side, likewise."""
    counted: bool
    """Whether occurrences are known; if not, all are 0, and the first tokens by id are taken where
    the most frequent would be."""

    def named(self, name: str) -> int | None:
        """Return the id that ``token_name`` wrote as this name; None if it is a typed text."""
        id = name.removeprefix("id:")
        known = id != name and id.isdecimal() and int(id) < len(self.labels)
        return int(id) if known else None

    def written(self, name: str) -> str:
        """Return a token that was chosen or typed as people read it."""
        id = self.named(name)
        return name if id is None else self.labels[id]

    @property
    def table_side(self) -> str:
        """The side whose table this is; empty where both sides share it."""
        return "" if self.shared else self.side

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of occurrences on both sides together, (V,)."""
        return self.source + self.target

    @property
    def name(self) -> str:
        """What the table is called in a sentence."""
        if self.shared:
            return "the one table that source and target share"
        return f"the {self.side} side's table"


def vocabulary_of(selection: Selection, side: Side) -> SideVocabulary:
    """Return the vocabulary of the side ``source`` or ``target``, or the one that both share."""
    run = selection.run
    table = embedding_table(run, selection.step, side)
    shared = run.description.tied == "all"
    none = np.zeros(len(table), np.int64)
    counts = run.counts or Counts([0] * len(table), [0] * len(table))
    return SideVocabulary(
        side=side,
        shared=shared,
        weights=weights_of(run, selection.step).sha256,
        table=table,
        labels=_labels_of(run, side, len(table)),
        source=np.array(counts.source) if shared or side == "source" else none,
        target=np.array(counts.target) if shared or side == "target" else none,
        counted=run.counts is not None,
    )


def _labels_of(run: Run, side: Side, size: int) -> tuple[str, ...]:
    """Return the labels of a side's tokens, made once for all sessions."""
    tokenizer = getattr(run.tokenizers, side)
    return cached(
        "labels of tokens",
        (run.tokenizers_sha256, side, size),
        lambda: vocabulary_labels(
            tokenizer.tokens(range(size)),
            spaced=tokenizer.kind == "bpe",
            control_ids=tokenizer.control_ids,
        ),
        facts=lambda _: {"run": run.name, "side": side},
    )


def token_name(id: int) -> str:
    """Return how the view names a token that was chosen from a list."""
    return f"id:{id}"


def find_token(selection: Selection, vocabulary: SideVocabulary, chosen: str) -> int:
    """Return the id of a token that was chosen from the list, or typed.

    A typed text that is not a single token is a ``ValueError``, which says what it is read as.
    """
    id = vocabulary.named(chosen)
    if id is not None:
        return id
    tokenizer = getattr(selection.run.tokenizers, vocabulary.side)
    if (id := token_of(tokenizer, chosen)) is not None:
        return id
    ids = tokenizer.encode(chosen.strip())
    read = " ".join(vocabulary.labels[id] for id in ids[:12]) + " …" * (len(ids) > 12)
    raise ValueError(
        f"“{token_label(chosen[:40])}” is no token of this vocabulary"
        + (f": it is read as {read}" if ids else "")
        + "; choose one of the list"
    )


def target_labels(run: Run, ids: Sequence[int]) -> list[str]:
    """Return how people read target tokens that may come next."""
    target = run.tokenizers.target
    return [next_token_label(text, spaced=target.kind == "bpe") for text in target.tokens(ids)]


def offered_in(vocabulary: SideVocabulary) -> list[str]:
    """Return the names of the tokens that a list has; the others can be typed."""
    return [token_name(id) for id in range(min(len(vocabulary.labels), _MOST_OFFERED))]


def cloud_of(vocabulary: SideVocabulary, ids: NDArray[np.int64], points: Floats) -> Cloud:
    """Return tokens in the plane, by how frequent they are; in one group if that is not known."""
    counts: list[int] = vocabulary.counts[ids].tolist()
    group, groups = np.ones(len(ids), np.int64), ["", "token of the vocabulary"]
    if vocabulary.counted:
        group, groups = frequency_groups(vocabulary.counts[ids])
    return Cloud(
        points=points,
        labels=[vocabulary.labels[id] for id in ids],
        counts=counts if vocabulary.counted else None,
        group=group,
        groups=groups,
        ordered=vocabulary.counted,
    )


def plane_of(weights: str, side: str, number: int, rows: Callable[[], Floats]) -> Components:
    """Return the first two principal components of the embeddings of the most frequent tokens.

    ``weights`` is the sha256 of a checkpoint, ``side`` the ``table_side`` of its vocabulary.
    """
    return cached(
        "principal components",
        (weights, side, number),
        lambda: principal_components(rows()),
        facts=lambda _: {"tokens": number},
    )


def choose_number(
    place: DeltaGenerator,
    vocabulary: SideVocabulary,
    numbers: Sequence[int],
    *,
    first: int,
    key: str,
) -> int:
    """Ask how many of the most frequent tokens are drawn; a vocabulary with few is drawn whole.

    Offered are those of the numbers, which rise, that are below the vocabulary's size, and its
    size; at first none larger than ``first`` is chosen. ``key`` is the field of the view.
    """
    size = len(vocabulary.labels)
    offered = [*(number for number in numbers if number < size), size]
    if len(offered) == 1:
        return size
    label = (
        "The most frequent tokens" if vocabulary.counted else "The first tokens of the vocabulary"
    )

    def written(number: int) -> str:
        return f"all {size:,}" if number == size else f"{number:,}"

    default = max(number for number in offered if number <= max(first, offered[0]))
    with place:
        return choose_on_slider(label, offered, key=key, default=default, format_func=written)


def choose_tokens(
    selection: Selection,
    vocabulary: SideVocabulary,
    label: str,
    *,
    most: int,
    key: str,
    default: Sequence[int] = (),
) -> list[int]:
    """Ask for tokens, to be chosen or typed, and return their ids; show what is not a token."""
    chosen: list[str] = st.multiselect(
        label,
        offered_in(vocabulary),
        format_func=vocabulary.written,
        max_selections=most,
        accept_new_options=True,
        select_all=False,
        placeholder="Type to search",
        help=TOKEN_HELP.replace(" The tokens of the sentence come first.", ""),
        **control(
            key,
            label,
            default=[token_name(id) for id in default],
            written=vocabulary.written,
            most=most,
        ),
    )
    ids = []
    for token in chosen:
        try:
            ids.append(find_token(selection, vocabulary, token))
        except ValueError as problem:
            show_error(problem)
    return ids
