"""Word alignments that the cross-attention heads of a model give to the pairs of a corpus: by all
heads, in one direction by one that is named or the best, and in both directions combined.

``B`` batch, ``H`` all heads with cross-attention, layer by layer, or in their place its layers;
``Q`` and ``M`` the query and key lengths of a map; ``V`` target words. Words are
those of the model's tokenizers, from 0, without ``<s>`` and ``</s>``. Only a few batches of the
corpus are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import and_, or_
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.checkpoint import Checkpoint
from headwise.model.hooks import capture
from headwise.model.interface import Head, Seq2SeqModel, Tokenizers, attention_path, head_name
from headwise.model.runs import Run
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.core.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    attention_maps,
    batches_by_length,
    encode_pair,
)
from headwise.viz_app.measuring import words
from headwise.viz_app.measuring.alignments import Links, WordLinks, symmetrise
from headwise.viz_app.measuring.files import measured_steps, read_measures
from headwise.viz_app.trace.attention import head_sum_norms, transform_values

PAIRS_AT_A_TIME = 128  # number of pairs that are read, and sorted by length, together
AlignedRows = Literal["predicted", "consumed"]
"""Whether the rows of a target word are those that predict its tokens, or that consume them."""
MapsOf = Literal["heads", "layers"]
Numbers = NDArray[np.float64]
BEST = "best"  # stands for the head with the lowest alignment error rate
Symmetrisation = Literal["intersection", "union", "grow-diag-final-and"]
SYMMETRISATIONS: tuple[Symmetrisation, ...] = get_args(Symmetrisation)
_COMBINE: Mapping[Symmetrisation, Callable[[WordLinks, WordLinks], WordLinks]] = dict(
    zip(SYMMETRISATIONS, (and_, or_, symmetrise), strict=True)
)


@dataclass(frozen=True)
class PairLinks:
    """The word alignment of a pair by a head, and the one with which it is compared."""

    source_words: int
    target_words: int
    links: WordLinks  # (source word, target word), one for each target word
    reference: WordLinks
    weights: Numbers
    """The head's weights, (target words, source words): summed over the tokens of a source word,
    averaged over the rows of a target word. Tokens without a word have the rest of a row."""
    chosen: NDArray[np.int64]  # source word of each target word by every head, (H, V)


@dataclass
class Agreement:
    """The links of alignments are counted, and how many of them are in the reference. With A the
    links made and S the reference, all of it sure, the error rate is that of Och and Ney (2003).
    """

    correct: Numbers
    """|A ∩ S| of each of the alignments that are compared, such as those of the H heads."""
    made: int = 0  # |A|, the same for all of them
    sure: int = 0  # |S|
    sentences: int = 0

    @property
    def precision(self) -> Numbers:
        """Return |A ∩ S| / |A|; 0 without links."""
        return self.correct / max(self.made, 1)

    @property
    def recall(self) -> Numbers:
        """Return |A ∩ S| / |S|; 0 where the reference has no links."""
        return self.correct / max(self.sure, 1)

    @property
    def error_rate(self) -> Numbers:
        """Return 1 − 2 |A ∩ S| / (|A| + |S|)."""
        return 1 - 2 * self.correct / max(self.made + self.sure, 1)

    def add(self, links: WordLinks, reference: WordLinks) -> None:
        """Compare one more pair's links, those of a single alignment, with its reference."""
        self.correct += len(links & reference)
        self.made += len(links)
        self.sure += len(reference)
        self.sentences += 1


def align_pairs(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    pairs: Iterable[tuple[Pair, WordLinks]],
    *,
    rows: AlignedRows,
    left_out: LeftOutCounts | None = None,
    agreement: Agreement | None = None,
    head: int = 0,
    by: CellValue = "weight",
    of: MapsOf = "heads",
) -> Iterator[PairLinks | None]:
    """Align pairs by all heads, in order; None for a pair with an empty side or too many tokens.

    The model is forced to write the target of each pair, which comes with its reference links.
    ``PAIRS_AT_A_TIME`` of them are read ahead. Pairs that are left out are counted in ``left_out``;
    the links of every head are compared with the reference in ``agreement``, if it is given; links
    and weights are those of the ``head`` with this place among the H. Maps are ``cross_maps``.
    DataError if a reference links words that are not there.
    """
    max_length, left_out = model.description.max_length, left_out or LeftOutCounts()
    numbered = enumerate(pairs)
    while chunk := list(islice(numbered, PAIRS_AT_A_TIME)):
        encoded, links = [], {}
        for number, (pair, reference) in chunk:
            sentence = encode_pair(
                number, pair, tokenizers, max_length=max_length, left_out=left_out
            )
            if sentence is None:
                continue
            of_pair = links[number] = _links(sentence, tokenizers, reference)
            if of_pair.source_words and of_pair.target_words:
                encoded.append(sentence)
            else:
                left_out.empty += 1
        found: dict[int, PairLinks] = {}
        for batch in batches_by_length(encoded):
            maps = cross_maps(model, PaddedIds.of_pairs(batch, model), by=by, of=of)
            found |= _align(tokenizers, batch, maps, links, rows, agreement, head)
        yield from (found.get(number) for number, _ in chunk)


@torch.inference_mode()
def cross_maps(model: Seq2SeqModel, ids: PaddedIds, *, by: CellValue, of: MapsOf) -> Tensor:
    """Return the maps of cross-attention of a batch, (B, H, Q, M), or one a layer in place of H.

    By value norm a cell is the length of what is added for the key, ‖α v W_O‖ (Kobayashi et al.
    2020, section 5). A layer's is the mean of weights, or the length of what heads add together.
    """
    if (by, of) == ("weight", "heads"):
        return attention_maps(model, ids)[0]["cross"]
    shape = model.description.shapes["cross"]
    paths = [attention_path("cross", layer) for layer in range(shape[0])]
    with capture(model, [f"{path}.value" for path in paths]) as seen:
        weights = attention_maps(model, ids)[0]["cross"].unflatten(1, shape)  # (B, L, H, Q, M)
    if by == "weight":
        return weights.mean(dim=2)
    lengths = []
    for path, of_layer in zip(paths, weights.unbind(1), strict=True):
        projection = model.linear(f"{path}.output_projection").weight
        added = [transform_values(values, projection) for values in seen[f"{path}.value"][0]]
        for alphas, vectors in zip(of_layer, added, strict=True):  # (H, Q, M), (H, M, D)
            if of == "layers":
                lengths.append(head_sum_norms(alphas, vectors)[None])
            else:
                lengths.append(alphas * vectors.norm(dim=-1)[:, None])
    return torch.stack(lengths).unflatten(0, (shape[0], -1)).transpose(0, 1).flatten(1, 2)


def _links(sentence: EncodedPair, tokenizers: Tokenizers, reference: WordLinks) -> Links:
    source = max(words.source_word_numbers(tokenizers, sentence.source)) + 1
    target = max(words.word_numbers(tokenizers.target, sentence.target)) + 1
    for s, t in sorted(reference):
        if s >= source or t >= target:
            raise DataError(
                f"reference of pair {sentence.number + 1:,}: expected links between {source} "
                f"source and {target} target words, which the run's tokenizers make, got {s}-{t}"
            )
    return Links(source, target, frozenset(reference))


@torch.inference_mode()
def _align(
    tokenizers: Tokenizers,
    batch: list[EncodedPair],
    weights: Tensor,
    links: Mapping[int, Links],
    rows: AlignedRows,
    agreement: Agreement | None,
    head: int,
) -> dict[int, PairLinks]:
    aligned = words.align_batch(batch, tokenizers, lambda s: links[s.number], weights.device)
    if aligned is None:
        return {}
    queries = aligned.predicted if rows == "predicted" else aligned.consumed
    chosen = words.hard_alignment(weights, aligned, queries).cpu().numpy()
    by_word = words.word_weights(weights[:, [head]], aligned, queries)[:, 0].double().cpu().numpy()
    of_batch = [links[s.number] for s in batch]
    if agreement is not None:
        agreement.correct += (
            words.count_correct_links(weights, aligned, queries).sum(0).cpu().numpy()
        )
        agreement.made += sum(pair.target_words for pair in of_batch)
        agreement.sure += sum(len(pair.pairs) for pair in of_batch)
        agreement.sentences += len(batch)
    found = {}
    for row, (s, pair) in enumerate(zip(batch, of_batch, strict=True)):
        of_heads = chosen[row, :, : pair.target_words]
        found[s.number] = PairLinks(
            pair.source_words,
            pair.target_words,
            {(source, target) for target, source in enumerate(of_heads[head].tolist())},
            set(pair.pairs),
            by_word[row, : pair.target_words, : pair.source_words],
            of_heads,
        )
    return found


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
