"""Batched beam search that records what it considered: section 6.1 of Vaswani et al. (2017).

Scores are normalised for length as in Wu et al. (2016), equation 14: log P / ((5 + n) / 6)^α for n
tokens, ``</s>`` included. A search ends when ``size`` hypotheses have ended and no live one can
become better than the best of them, or at the limit of ``longest_target``: a log-probability only
falls as a hypothesis grows, so that the score of a live one stays below its log-probability divided
by the largest norm, that of the limit. A beam of one is greedy decoding; a wider one may still miss
the target of greedy decoding, if a beginning of it falls out of the beam. Candidates and hypotheses
whose log-probabilities and scores differ by less than the logits are rounded are in order of their
parents and ids, as ``model/ties.py`` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from headwise.model.decoding.greedy import Generation
from headwise.model.interface import Ids, Rows, Seq2SeqModel
from headwise.model.ties import descending, rounding_of, top_k

Outcome = Literal["kept", "ended", "dropped"]


@dataclass(frozen=True)
class Node:
    """A node of the search tree extends the hypothesis of its parent by one token."""

    parent: int
    """Index of the parent in the tree; -1 for the root, the last token of the prefix."""
    id: int
    step: int
    """Number of tokens after the prefix, which is ``<s>`` and perhaps a language."""
    log_probability: float
    """Natural logarithm of the probability of the whole hypothesis."""
    score: float
    """The log-probability, normalised for length."""
    outcome: Outcome
    """Whether it was continued (kept), ended with ``</s>``, or dropped."""


@dataclass(frozen=True)
class Hypothesis:
    """A path of the tree begins with ``<s>``; at the length limit it has no ``</s>``."""

    target: list[int]
    log_probability: float
    score: float
    node: int
    """Index of its last token in the tree."""


@dataclass(frozen=True)
class Beam:
    """Hypotheses for one source, best first, and the tree.

    For each step it has the 2 · size most likely candidates, in order; parents precede children.
    """

    hypotheses: list[Hypothesis]
    tree: tuple[Node, ...]


def length_norm(tokens: int, alpha: float) -> float:
    """Return the divisor of a log-probability of ``tokens`` tokens: ((5 + tokens) / 6)^α."""
    return ((5 + tokens) / 6) ** alpha


class _Search:
    """Runs the search for one source."""

    def __init__(
        self,
        size: int,
        alpha: float,
        limit: int,
        prefix: Ids,
        ends: Collection[int],
        early_stopping: bool,
    ) -> None:
        self._size, self._alpha, self._limit = size, alpha, limit
        # Greedy decoding never looks behind its first </s>.
        self._early_stopping = early_stopping or size == 1
        self._prefix, self._ends = list(prefix), ends
        self._tree = [Node(-1, self._prefix[-1], 0, 0.0, 0.0, "kept")]
        self._ended: list[int] = []
        self._near = 0.0
        """How near scores are that count as equal: the largest rounding of the logits so far."""
        self.live = [0]
        """Indices of the continued nodes, one for each row of the batch; empty at the end."""

    def step(
        self, rows: Sequence[tuple[list[float], list[int]]], near: float
    ) -> list[tuple[int, int]]:
        """Extend each live node by its best next tokens.

        ``rows`` has for each live node their log-probabilities and ids, the best first; those
        nearer than ``near`` count as equal. Return for each new live node the index of its parent
        among the previous ones, and its id.
        """
        candidates = [
            (self._tree[node].log_probability + value, place, id)
            for place, (node, row) in enumerate(zip(self.live, rows, strict=True))
            for value, id in zip(*row, strict=True)
        ]
        self._near = max(self._near, near)
        # Only after several hypotheses do the roundings of earlier steps make a difference.
        near = near if len(rows) == 1 else self._near
        order = descending(np.array([total for total, *_ in candidates]), near)
        step = self._tree[self.live[0]].step + 1
        norm = length_norm(step, self._alpha)
        parents, self.live = self.live, []
        extended = []
        for rank, (total, place, id) in enumerate(candidates[i] for i in order[: 2 * self._size]):
            outcome: Outcome = "dropped"
            if id in self._ends and rank < self._size:
                outcome = "ended"
                self._ended.append(len(self._tree))
            elif id not in self._ends and len(self.live) < self._size:
                outcome = "kept"
                self.live.append(len(self._tree))
                extended.append((place, id))
            self._tree.append(Node(parents[place], id, step, total, total / norm, outcome))
        if self._is_finished(step):
            if len(self._ended) < self._size:
                self._ended += self.live
            self.live, extended = [], []
        return extended

    def _is_finished(self, step: int) -> bool:
        """Apply the stopping rule: no live hypothesis can win, or they are as long as allowed."""
        if step == self._limit or not self.live:
            return True
        if len(self._ended) < self._size:
            return False
        if self._early_stopping:
            return True
        likeliest = self._tree[self.live[0]].log_probability
        bound = likeliest / length_norm(self._limit, self._alpha)
        return bound <= max(self._tree[node].score for node in self._ended) + self._near

    def result(self) -> Beam:
        """Return the best hypotheses that have ended, and the tree."""
        order = descending(np.array([self._tree[node].score for node in self._ended]), self._near)
        best = [self._hypothesis(self._ended[place]) for place in order[: self._size]]
        return Beam(best, tuple(self._tree))

    def _hypothesis(self, last: int) -> Hypothesis:
        target, place = [], last
        while place >= 0:
            target.append(self._tree[place].id)
            place = self._tree[place].parent
        node = self._tree[last]
        return Hypothesis(self._prefix[:-1] + target[::-1], node.log_probability, node.score, last)


@torch.inference_mode()
def beam_search(
    model: Seq2SeqModel,
    sources: Rows,
    *,
    size: int,
    alpha: float = 0.6,
    prefix: Ids | None = None,
    early_stopping: bool = False,
) -> list[Beam]:
    """Search for the likeliest target of each source, with at most ``size`` hypotheses a step.

    Model, sources and prefix are as for ``greedy``; the paper has an ``alpha`` of 0.6. With
    ``early_stopping`` a search ends as soon as ``size`` hypotheses have ended, though a live one
    might become better: faster, with a best score that is never higher.
    """
    if size < 1:
        raise ValueError(f"beam: expected at least 1, got {size}")
    if not 0 <= alpha <= 10:
        raise ValueError(f"length penalty: expected 0 to 10, got {alpha}")
    batch, ends = Generation(model, sources, prefix), model.special_ids.ends
    searches = [
        _Search(size, alpha, limit, batch.prefix, ends, early_stopping)
        for limit in batch.most_generated
    ]
    running = searches
    while running:
        logits = batch.logits()  # (R, V)
        top = top_k(logits, min(2 * size, logits.shape[-1]))
        log_probability = logits.log_softmax(dim=-1).gather(-1, top)
        rows = list(zip(log_probability.tolist(), top.tolist(), strict=True))
        near = rounding_of(logits)[:, 0].tolist()
        parents: list[int] = []
        ids: list[int] = []
        start = 0
        for search in running:
            stop = start + len(search.live)
            for place, id in search.step(rows[start:stop], max(near[start:stop])):
                parents.append(start + place)
                ids.append(id)
            start = stop
        running = [search for search in running if search.live]
        if running:
            batch.append(parents, ids)
    return [search.result() for search in searches]
