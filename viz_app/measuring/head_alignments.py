"""Word alignments that the cross-attention heads of a model give to the pairs of a corpus.

``B`` batch, ``H`` all heads with cross-attention, layer by layer, or in their place its layers;
``Q`` and ``M`` the query and key lengths of a map; ``V`` target words. Words are
those of the model's tokenizers, from 0, without ``<s>`` and ``</s>``. Only a few batches of the
corpus are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.hooks import capture
from headwise.model.interface import Seq2SeqModel, Tokenizers, attention_path
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.measuring import words
from headwise.viz_app.measuring.alignments import Links, WordLinks
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    attention_maps,
    batches_by_length,
    encode_pair,
)
from headwise.viz_app.trace.attention import head_sum_norms, transform_values

PAIRS_AT_A_TIME = 128  # number of pairs that are read, and sorted by length, together
AlignedRows = Literal["predicted", "consumed"]
"""Whether the rows of a target word are those that predict its tokens, or that consume them."""
MapsOf = Literal["heads", "layers"]
Numbers = NDArray[np.float64]


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
            maps = partial(cross_maps, by=by, of=of)
            found |= _align(model, tokenizers, batch, links, rows, agreement, head, maps)
        yield from (found.get(number) for number, _ in chunk)


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
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    batch: list[EncodedPair],
    links: Mapping[int, Links],
    rows: AlignedRows,
    agreement: Agreement | None,
    head: int,
    maps: Callable[[Seq2SeqModel, PaddedIds], Tensor],
) -> dict[int, PairLinks]:
    aligned = words.align_batch(batch, tokenizers, lambda s: links[s.number], model.device)
    if aligned is None:
        return {}
    weights = maps(model, PaddedIds.of_pairs(batch, model))
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
