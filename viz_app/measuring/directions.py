"""Word alignment in one direction by a head that is named or the best, and in both combined.

``H`` all heads with cross-attention, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import and_, or_
from typing import Literal, get_args

import numpy as np

from headwise.model.checkpoint import Checkpoint
from headwise.model.interface import Head, head_name
from headwise.model.runs import Run
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.measuring.align import symmetrise
from headwise.viz_app.measuring.alignments import WordLinks
from headwise.viz_app.measuring.batches import LeftOutCounts
from headwise.viz_app.measuring.files import measured_steps, read_measures
from headwise.viz_app.measuring.head_alignments import (
    Agreement,
    AlignedRows,
    MapsOf,
    Numbers,
    PairLinks,
    align_pairs,
)

BEST = "best"  # stands for the head with the lowest alignment error rate
Symmetrisation = Literal["intersection", "union", "grow-diag-final-and"]
SYMMETRISATIONS: tuple[Symmetrisation, ...] = get_args(Symmetrisation)
_COMBINE: Mapping[Symmetrisation, Callable[[WordLinks, WordLinks], WordLinks]] = dict(
    zip(SYMMETRISATIONS, (and_, or_, symmetrise), strict=True)
)


@dataclass(frozen=True)
class Direction:
    """A direction has a checkpoint that aligns all pairs of a corpus, the target forced on it."""

    run: Run
    checkpoint: Checkpoint
    rows: AlignedRows
    open_pairs: Callable[[], Iterator[tuple[Pair, WordLinks]]]
    """Opens the pairs from the first one on, each with its reference links."""
    advance: Callable[[], object]  # called after each pair
    by: CellValue = "weight"  # what a cell of the maps is, as for ``cross_maps``
    of: MapsOf = "heads"  # whether each head aligns, or each layer

    @property
    def heads(self) -> list[Head]:
        return [head for head in self.run.description.all_heads() if head.kind == "cross"]

    @property
    def names(self) -> list[str]:
        """Return the names of what aligns: heads such as ``cross.2.4``, or layers, ``cross.2``."""
        if self.of == "layers":
            return [f"cross.{layer + 1}" for layer in range(self.run.description.layers("cross"))]
        return [head_name(head) for head in self.heads]

    def align(
        self, place: int, left_out: LeftOutCounts, agreement: Agreement | None = None
    ) -> Iterator[PairLinks | None]:
        """Align all pairs by the head at a place among ``names``; None for a pair that is left out.

        ``left_out`` and ``agreement``, which is of all heads, are those of ``align_pairs``.
        """
        for pair in align_pairs(
            self.checkpoint.model,
            self.run.tokenizers,
            self.open_pairs(),
            rows=self.rows,
            left_out=left_out,
            agreement=agreement,
            head=place,
            by=self.by,
            of=self.of,
        ):
            self.advance()
            yield pair

    def choose(self, name: str, *, scored: bool) -> tuple[int, Agreement | None]:
        """Return the place among ``names`` of one of these, or of the ``BEST``.

        Where pairs have a reference, all heads are ``scored`` by it, and the best is best there;
        else it is the best in the measures. ValueError if there is no such head, or no measures say
        which is best. DataError if no pair can be aligned.
        """
        if not scored:
            return self._place(name), None
        place = None if name == BEST else self._place(name)
        agreement, left_out = Agreement(np.zeros(len(self.names))), LeftOutCounts()
        for _ in self.align(0, left_out, agreement):
            pass
        if not agreement.sentences:
            raise DataError(f"expected pairs that can be aligned, got none but {left_out}")
        return int(agreement.error_rate.argmin()) if place is None else place, agreement

    def _place(self, name: str) -> int:
        if name == BEST:
            if (self.by, self.of) != ("weight", "heads"):
                raise ValueError("expected a reference or a name: only heads' weights are measured")
            return int(self.measured_error_rates().argmin())
        if name not in self.names:
            raise ValueError(
                f"expected a {self.of.removesuffix('s')} of {self.run.name} from {self.names[0]} "
                f"to {self.names[-1]}, got {name}"
            )
        return self.names.index(name)

    def measured_error_rates(self) -> Numbers:
        """Return the alignment error rate of each head in the measures of the checkpoint, (H,)."""
        run, step = self.run, self.checkpoint.step
        expected = "expected the name of a head, a reference, or measures of alignment errors"
        if step not in measured_steps(run.folder):
            raise ValueError(
                f"{expected}: {run.name} has no measures of step {step:,}; "
                "headwise.viz_app.measure makes them"
            )
        measures = read_measures(run.folder, step)
        if measures.sha256 != self.checkpoint.sha256:
            raise ValueError(f"{expected}: those of {run.name} are of other weights; measure again")
        rates = measures.values[f"aer_{self.rows}"]["cross"]
        if np.isnan(rates).any():
            raise ValueError(
                f"{expected}: {run.name} was measured without reference alignments, which "
                "headwise.viz_app.measuring.align makes"
            )
        return rates.astype(np.float64).flatten()


def reverse_pairs(pairs: Iterator[tuple[Pair, WordLinks]]) -> Iterator[tuple[Pair, WordLinks]]:
    """Yield pairs with source and target exchanged, in their links too."""
    for pair, links in pairs:
        yield Pair(pair.target, pair.source), reverse_links(links)


def reverse_links(links: WordLinks) -> WordLinks:
    return {(target, source) for source, target in links}


def combine(
    forward: Iterator[PairLinks | None], backward: Iterator[PairLinks | None], how: Symmetrisation
) -> Iterator[PairLinks | None]:
    """Combine the alignments of two directions; None for a pair that one of them leaves out.

    DataError if the two divide a pair into other words.
    """
    for number, (pair, back) in enumerate(zip(forward, backward, strict=True), start=1):
        if pair is None or back is None:
            yield None
            continue
        words = pair.source_words, pair.target_words
        other_words = back.target_words, back.source_words
        if words != other_words:
            raise DataError(
                f"pair {number:,}: expected runs whose tokenizers divide texts into the same words,"
                f" got {words} source and target words forward, {other_words} in reverse; take "
                "runs with the same tokenizers"
            )
        yield replace(pair, links=_COMBINE[how](pair.links, reverse_links(back.links)))
