"""Beam search, batched, with all it looked at: section 6.1 of Vaswani et al. (2017).

Scores are normalised for length as in Wu et al. (2016), equation 14: log P / ((5 + n) / 6)^α for n
pieces, ``</s>`` included. A search ends when as many hypotheses as the beam is wide have ended, or
at the limit of ``longest_target``. A beam of one is greedy decoding.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from model.config import BOS, EOS
from model.generation import Generation
from model.transformer import Transformer

Fate = Literal["kept", "ended", "dropped"]


@dataclass(frozen=True)
class Node:
    """A hypothesis that was looked at: that of its parent and one more piece."""

    parent: int
    """Place of its parent in the tree; -1 for ``<s>``, the root."""
    id: int
    step: int
    """Pieces after ``<s>``."""
    log_probability: float
    """Of the whole hypothesis, natural logarithm."""
    score: float
    """The same, normalised for length."""
    fate: Fate
    """Kept in the beam, ended by ``</s>`` among the best, or dropped."""


@dataclass(frozen=True)
class Hypothesis:
    """A way through the tree, from ``<s>`` on; ``</s>`` is missing where the limit was reached."""

    target: list[int]
    log_probability: float
    score: float
    node: int
    """Place of its last piece in the tree."""


@dataclass(frozen=True)
class Beam:
    """What a search found for one source, best first, and the tree of what it looked at.

    Of each step the tree holds the best candidates, twice as many as the beam is wide, in order of
    their probability; parents stand before their children.
    """

    hypotheses: list[Hypothesis]
    tree: tuple[Node, ...]


def length_norm(pieces: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + pieces) / 6)^α; 1 if α is 0."""
    return ((5 + pieces) / 6) ** alpha


class _Search:
    """The search for one source."""

    def __init__(self, size: int, alpha: float, limit: int) -> None:
        self._size, self._alpha, self._limit = size, alpha, limit
        self._tree = [Node(-1, BOS, 0, 0.0, 0.0, "kept")]
        self._ended: list[int] = []
        self.live = [0]
        """Nodes that go on, one a row of the batch; none when the search is over."""

    def step(self, rows: Sequence[tuple[list[float], list[int]]]) -> list[tuple[int, int]]:
        """Take the best next pieces of each live node, as log-probabilities and ids.

        The nodes that go on come back, as the place of their parent among the live ones and an id.
        """
        candidates = heapq.nsmallest(
            2 * self._size,
            (
                (-self._tree[node].log_probability - value, place, id)
                for place, (node, row) in enumerate(zip(self.live, rows, strict=True))
                for value, id in zip(*row, strict=True)
            ),
        )
        step = self._tree[self.live[0]].step + 1
        norm = length_norm(step, self._alpha)
        parents, self.live = self.live, []
        going_on = []
        for rank, (loss, place, id) in enumerate(candidates):
            fate: Fate = "dropped"
            if id == EOS and rank < self._size:
                fate = "ended"
                self._ended.append(len(self._tree))
            elif id != EOS and len(self.live) < self._size:
                fate = "kept"
                self.live.append(len(self._tree))
                going_on.append((place, id))
            self._tree.append(Node(parents[place], id, step, -loss, -loss / norm, fate))
        if len(self._ended) < self._size and step == self._limit:
            self._ended += self.live
        if len(self._ended) >= self._size or step == self._limit:
            self.live, going_on = [], []
        return going_on

    def result(self) -> Beam:
        best = sorted(self._ended, key=lambda node: -self._tree[node].score)[: self._size]
        return Beam([self._hypothesis(node) for node in best], tuple(self._tree))

    def _hypothesis(self, last: int) -> Hypothesis:
        target, place = [], last
        while place >= 0:
            target.append(self._tree[place].id)
            place = self._tree[place].parent
        node = self._tree[last]
        return Hypothesis(target[::-1], node.log_probability, node.score, last)


@torch.inference_mode()
def beam_search(
    model: Transformer, sources: Sequence[Sequence[int]], *, size: int, alpha: float = 0.6
) -> list[Beam]:
    """Search for the likeliest target of each source, with at most ``size`` hypotheses a step.

    Args:
        model: in evaluation mode.
        sources: ids of each source, ``</s>`` included.
        size: width of the beam.
        alpha: strength of the normalisation for length; 0 is none, the paper has 0.6.

    Raises:
        ValueError: if the size is below 1 or alpha not from 0 to 10, or as ``Generation`` does.
    """
    if size < 1:
        raise ValueError(f"beam: expected at least 1, got {size}")
    if not 0 <= alpha <= 10:
        raise ValueError(f"length penalty: expected 0 to 10, got {alpha}")
    batch = Generation(model, sources)
    searches = [_Search(size, alpha, limit) for limit in batch.limits]
    running = searches
    while running:
        log_probability = batch.logits().float().log_softmax(dim=-1)  # (R, V)
        top = log_probability.topk(min(2 * size, log_probability.shape[-1]))
        rows = list(zip(top.values.tolist(), top.indices.tolist(), strict=True))
        kept: list[int] = []
        ids: list[int] = []
        start = 0
        for search in running:
            stop = start + len(search.live)
            for place, id in search.step(rows[start:stop]):
                kept.append(start + place)
                ids.append(id)
            start = stop
        running = [search for search in running if search.live]
        if running:
            batch.append(kept, ids)
    return [search.result() for search in searches]
