"""All measures of a checkpoint's heads, summed over the batches of a corpus.

``B`` batch, ``L`` layers, ``H`` heads, ``T`` target steps, ``V`` vocabulary.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import KINDS, Description, Kind, Seq2SeqModel, Tokenizers, Vocabulary
from headwise.model.interventions import batch_head_costs, batch_head_importance
from headwise.model.run_info import Counts
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.measuring.contributions import Contributions, contributions
from headwise.viz_app.measuring.heads import (
    HeadSum,
    RowMeasure,
    confidence,
    distance,
    entropy,
    measure_rows,
    on_keys,
    on_offset,
    on_rarest,
)
from headwise.viz_app.measuring.score_variance import score_variance
from headwise.viz_app.measuring.sentence_costs import MOST_SENTENCES, SentenceCost
from headwise.viz_app.measuring.stream_sizes import largest_ratios
from headwise.viz_app.measuring.words import (
    AlignedBatch,
    LinksLookup,
    align_batch,
    count_baseline_links,
    count_correct_links,
)
from headwise.viz_app.records.measures import (
    CONTRIBUTIONS,
    MEASURES,
    OF_CORPUS,
    RESAMPLED,
    SCORE_MEASURES,
    STREAM_SIZES,
    AlignmentBaselines,
)
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.budget import require_memory
from headwise.viz_app.trace.memory import measuring_bytes

if TYPE_CHECKING:  # the app need not load what trains in several processes
    from headwise.model.training.processes import Processes

_RESAMPLES = 200
"""Resamples of the bootstrap."""
_SEED = 0
_LARGEST = float(np.finfo(np.float16).max)
_ERROR_RATES = ("aer_predicted", "aer_consumed")
"""Measures that are 1 − 2 of the mean."""
_WITHOUT_MAPS = {
    "cost",
    "gradient",
    "qk_norm",
    "qk_rank",
    "ov_rank",
    *SCORE_MEASURES,
    *OF_CORPUS,
}
"""Measures that are not of attention maps."""


def punctuation_ids(tokenizer: Vocabulary) -> Tensor:
    """Return which tokens of the vocabulary consist of punctuation only: bool (V,)."""

    def is_punctuation(token: str) -> bool:
        text = token.removeprefix(" ")
        return bool(text) and all(unicodedata.category(letter)[0] == "P" for letter in text)

    tokens = tokenizer.tokens(range(tokenizer.vocab_size))
    return torch.tensor([is_punctuation(token) for token in tokens])


@lru_cache(maxsize=64)  # a batch's, which every measure and kind of head asks for
def _draws(place: int) -> NDArray[np.int64]:
    """Draw how often each resample has the sentence at a place in the corpus."""
    return np.random.default_rng((_SEED, place)).poisson(1, _RESAMPLES)


def draws(places: Sequence[int]) -> NDArray[np.int64]:
    """Return how often each resample has the sentences at some places in the corpus, (B, 200)."""
    return np.array([_draws(place) for place in places])


class Bootstrap:
    """Resampled sums of figures over sentences, and of their tokens, give standard errors.

    A resample draws each sentence a number of times that has the Poisson distribution of mean 1, so
    that sentences can be added one after another and in several processes. (Chamandy et al. 2012;
    the resampling of a whole corpus, Efron 1979, has this distribution in the limit.) The numbers
    depend on the seed and on the sentence's place in the corpus only.
    """

    def __init__(self, figures: int, device: torch.device) -> None:
        # The figures, and the tokens of each.
        self._sums = torch.zeros(2, _RESAMPLES, figures, dtype=torch.float64, device=device)

    def add(self, places: Sequence[int], figures: Tensor, tokens: Tensor) -> None:
        """Add sentences: their indices in the corpus, figures (B, figures), and tokens (B,).

        The figures are summed over the tokens of a sentence. Tokens (B, figures) are of each.
        """
        times = torch.tensor(draws(places), dtype=torch.float64, device=self._sums.device)
        self._sums += times.T @ torch.stack([figures, _by_figure(tokens, figures)]).double()

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = processes.sum(self._sums)

    def standard_errors(self) -> Tensor:
        """Return the standard deviation of each figure per token over the resamples, (figures,).

        NaN where a resample has no token, as of one or two sentences.
        """
        return self.deviations().std(dim=0)

    def deviations(self) -> Tensor:
        """Return each figure per token on each resample, less its mean, (200, figures)."""
        figures, tokens = self._sums
        return figures / tokens - (figures / tokens).mean(dim=0)


def _by_figure(counts: Tensor, figures: Tensor) -> Tensor:
    """Return counts (B,), or (B, figures) as they are, for each of some figures (B, figures)."""
    return (counts if counts.dim() == 2 else counts[:, None]).expand_as(figures)


class MeasureSums:
    """Running sums and counts are held for every measure, kind and head of a model."""

    def __init__(self, model: Description, device: torch.device, own: Collection[str] = ()) -> None:
        """Begin with nothing; ``own`` names the measures besides ours."""
        self._shapes = model.shapes
        self._names = (*MEASURES, *own)
        # By measure: total and count of each head, layer by layer.
        self._sums = {
            kind: torch.zeros(
                len(self._names), 2, layers * heads, dtype=torch.float64, device=device
            )
            for kind, (layers, heads) in self._shapes.items()
        }
        self._resampled = {
            (name, kind): Bootstrap(layers * heads, device)
            for kind, (layers, heads) in self._shapes.items()
            for name in self._names
        }
        # Sum and count of each measure of the whole model.
        self._of_model = torch.zeros(len(OF_CORPUS), 2, dtype=torch.float64, device=device)
        self._resampled_of_model = {name: Bootstrap(1, device) for name in OF_CORPUS}
        self._costs: dict[int, SentenceCost] = {}  # by place in the corpus
        # Correct links of the two baselines of alignment, and |A| + |S|.
        self._baselines = torch.zeros(3, dtype=torch.float64, device=device)

    def add(self, name: str, kind: Kind, found: HeadSum, places: Sequence[int]) -> None:
        """Add a batch's sums of a measure for a kind of attention.

        ``places`` are the indices of the batch's sentences in the corpus.
        """
        counts = _by_figure(found.count, found.total)
        self._sums[kind][self._names.index(name)] += torch.stack([found.total, counts]).sum(dim=1)
        self._resampled[name, kind].add(places, found.total, counts)

    def add_costs(
        self, costs: Mapping[Kind, Tensor], tokens: Tensor, places: Sequence[int]
    ) -> None:
        """Keep what each head, (B, L, H) of each kind, costs each sentence of a batch."""
        arrays = {kind: of_kind.float().cpu().numpy() for kind, of_kind in costs.items()}
        for row, (place, count) in enumerate(zip(places, tokens.tolist(), strict=True)):
            if place < MOST_SENTENCES:
                of_sentence = {kind: array[row] for kind, array in arrays.items()}
                self._costs[place] = SentenceCost(int(count), of_sentence)

    def add_contributions(
        self, found: Contributions, is_predicted: Tensor, places: Sequence[int]
    ) -> None:
        """Add the contributions to a batch's predictions, which are where bool (B, T) says.

        ``places`` are as for ``add``.
        """
        for name in CONTRIBUTIONS:
            values: Tensor = getattr(found, name)
            self.add_of_model(name, values.masked_fill(~is_predicted, math.nan), places)

    def add_of_model(self, name: str, found: Tensor, places: Sequence[int]) -> None:
        """Add a measure of the whole model, one of ``OF_CORPUS``, on a batch: (B, n).

        NaN does not count. ``places`` are as for ``add``.
        """
        total, count = found.double().nansum(dim=1), found.isfinite().sum(dim=1)
        self._of_model[OF_CORPUS.index(name)] += torch.stack([total.sum(), count.sum()])
        self._resampled_of_model[name].add(places, total[:, None], count)

    def add_baselines(self, aligned: AlignedBatch) -> None:
        """Add the links of a batch that the two baselines of alignment have right."""
        self._baselines[:-1] += count_baseline_links(aligned)
        self._baselines[-1] += aligned.sizes.sum()

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = {kind: processes.sum(sums) for kind, sums in self._sums.items()}
        for resampled in (*self._resampled.values(), *self._resampled_of_model.values()):
            resampled.all_reduce(processes)
        self._costs = {
            place: of_sentence
            for of_process in processes.gather(self._costs)
            for place, of_sentence in of_process.items()
        }
        self._of_model = processes.sum(self._of_model)
        self._baselines = processes.sum(self._baselines)

    def values(self) -> dict[str, dict[Kind, Floats]]:
        """Return the mean of each measure and kind, (L, H); NaN where no row was counted."""
        found: dict[str, dict[Kind, Floats]] = {name: {} for name in self._names}
        for kind, sums in self._sums.items():
            means = (sums[:, 0] / sums[:, 1]).float().unflatten(-1, self._shapes[kind])
            for name, values in zip(self._names, means.cpu(), strict=True):
                # 1 - 2 hits / links
                found[name][kind] = (1 - 2 * values if name in _ERROR_RATES else values).numpy()
        return found

    def errors(self) -> dict[str, dict[Kind, Floats]]:
        """Return the standard error of each mean that ``values`` has, (L, H) for each kind."""
        found: dict[str, dict[Kind, Floats]] = {name: {} for name in self._names}
        for (name, kind), resampled in self._resampled.items():
            errors = resampled.standard_errors().float().cpu().view(self._shapes[kind]).numpy()
            found[name][kind] = 2 * errors if name in _ERROR_RATES else errors
        return found

    def resamples(self) -> dict[Kind, Floats]:
        """Return what ``Resamples`` has: kind → (names, resamples, L, H), float16."""
        found = {}
        for kind, shape in self._shapes.items():
            rows = [
                self._resampled[name, kind].deviations() * (-2 if name in _ERROR_RATES else 1)
                for name in RESAMPLED
            ]
            table = torch.stack(rows).clamp(-_LARGEST, _LARGEST).half().cpu()
            found[kind] = table.unflatten(-1, shape).numpy()
        return found

    def of_model(self) -> dict[str, float]:
        """Return the mean for each name in ``OF_CORPUS``."""
        means = self._of_model[:, 0] / self._of_model[:, 1]
        return dict(zip(OF_CORPUS, means.tolist(), strict=True))

    def errors_of_model(self) -> dict[str, float]:
        """Return the standard error of each mean that ``of_model`` has."""
        return {
            name: float(resampled.standard_errors()[0])
            for name, resampled in self._resampled_of_model.items()
        }

    def costs(self) -> list[tuple[int, SentenceCost]]:
        """Return what each head costs each sentence, by its place in the corpus."""
        return list(self._costs.items())

    def alignment(self) -> AlignmentBaselines | None:
        """Return the alignment error rates of the two baselines; None without alignments."""
        *correct, links = self._baselines.tolist()
        if not links:
            return None
        return AlignmentBaselines(*(1 - 2 * right / links for right in correct))


class Measurer:
    """A measurer computes all measures of a batch for any checkpoint of a run."""

    def __init__(
        self,
        tokenizers: Tokenizers,
        counts: Counts | None,
        device: torch.device,
        own: Mapping[str, RowMeasure] | None = None,
        *,
        links_of: LinksLookup | None = None,
        wanted: Collection[str] = (*MEASURES, *OF_CORPUS),
    ) -> None:
        """Prepare for a run.

        ``counts`` say how often tokens occur in its training data, ``own`` has measures besides
        ours, ``links_of`` finds reference alignments, if there are any, ``wanted`` names those of
        our measures that are computed.
        """
        self._own, self._wanted, self._links_of = own or {}, frozenset(wanted), links_of
        self._tokenizers = tokenizers
        source, target = (
            punctuation_ids(side).to(device) for side in (tokenizers.source, tokenizers.target)
        )
        self._punctuation = dict.fromkeys(KINDS, source) | {"decoder_self": target}
        self._occurrences: dict[Kind, Tensor] = {}
        if counts is not None:
            sides = [torch.tensor(side, device=device) for side in (counts.source, counts.target)]
            for ids, side in zip(sides, (tokenizers.source, tokenizers.target), strict=True):
                ids[list(side.control_ids)] = -1
            self._occurrences = dict.fromkeys(KINDS, sides[0]) | {"decoder_self": sides[1]}

    def add(
        self,
        sums: MeasureSums,
        model: Seq2SeqModel,
        others: Mapping[str, Seq2SeqModel],
        batch: Sequence[EncodedPair],
    ) -> None:
        """Measure the heads of a model on a batch and add the results to ``sums``.

        The targets of the batch are references. ``others`` has the checkpoint to whose maps those
        of the model are compared, by the name of that measure.

        Raises:
            ValueError: if its longest sentence takes more memory than is free.
        """
        if model.device.type == "cpu" and "cost" in self._wanted:
            source = max(len(sentence.source) for sentence in batch)
            target = max(len(sentence.target) for sentence in batch)
            require_memory(measuring_bytes(model.description, source, target, 1))
        ids, places = PaddedIds.of_pairs(batch, model), [sentence.number for sentence in batch]
        if self._own or self._wanted - _WITHOUT_MAPS:
            self._add_maps(sums, model, others, batch, ids)
        if not self._wanted.isdisjoint(CONTRIBUTIONS):
            sums.add_contributions(contributions(model, ids), ids.is_predicted, places)
        if not self._wanted.isdisjoint(STREAM_SIZES):
            for name, sizes in largest_ratios(model, ids).items():
                sums.add_of_model(name, torch.tensor(sizes, device=model.device)[:, None], places)
        if not self._wanted.isdisjoint(SCORE_MEASURES):
            for (name, kind), found in score_variance(model, ids).items():
                sums.add(name, kind, found, places)
        tokens = ids.is_predicted.sum(dim=-1).double()
        for name, of_batch in (("cost", batch_head_costs), ("gradient", batch_head_importance)):
            if name not in self._wanted:
                continue
            of_kinds = of_batch(model, ids.source, ids.target)
            for kind, values in of_kinds.items():
                sums.add(name, kind, HeadSum(values.double().flatten(1), tokens), places)
            if name == "cost":
                sums.add_costs(of_kinds, tokens, places)

    def _add_maps(
        self,
        sums: MeasureSums,
        model: Seq2SeqModel,
        others: Mapping[str, Seq2SeqModel],
        batch: Sequence[EncodedPair],
        ids: PaddedIds,
    ) -> None:
        places = [sentence.number for sentence in batch]
        maps = _as_distributions(model, attention_maps(model, ids)[0])
        for kind, weights in maps.items():
            for name, found in self.of_maps(kind, weights, ids):
                sums.add(name, kind, found, places)
        for name, other in others.items():
            there = maps
            if other is not model:
                there = _as_distributions(other, attention_maps(other, ids)[0])
            for kind, weights in maps.items():
                found = distance(weights, there[kind], ids.allowed(kind))
                sums.add(name, kind, found, places)
        if self._links_of is None:
            return
        aligned = align_batch(batch, self._tokenizers, self._links_of, model.device)
        if aligned is not None:
            sums.add_baselines(aligned)
            of_aligned = [places[row] for row in aligned.rows.tolist()]
            for name, queries in (
                ("aer_predicted", aligned.predicted),
                ("aer_consumed", aligned.consumed),
            ):
                correct = count_correct_links(maps["cross"], aligned, queries)
                sums.add(name, "cross", HeadSum(correct, aligned.sizes), of_aligned)

    def of_maps(self, kind: Kind, weights: Tensor, ids: PaddedIds) -> Iterator[tuple[str, HeadSum]]:
        """Yield the measures of where the heads of a kind look; weights are (B, H, Q, M)."""
        allowed, keys = ids.allowed(kind), ids.keys(kind)
        yield "entropy", entropy(weights, allowed)
        yield "confidence", confidence(weights, allowed)
        offsets = {"previous": -1, "same": 0, "next": 1}
        if kind == "decoder_self":
            del offsets["next"]  # the mask hides it
        for name, offset in offsets.items():
            yield name, on_offset(weights, allowed, offset)
        if kind == "decoder_self":
            yield "begin", on_keys(weights, allowed, keys == ids.special.start)
        else:
            yield "end", on_keys(weights, allowed, keys == ids.special.end)
        if self._punctuation[kind].any():
            yield "punctuation", on_keys(weights, allowed, self._punctuation[kind][keys])
        if kind in self._occurrences:
            yield "rare", on_rarest(weights, allowed, self._occurrences[kind][keys])
        for name, measure in self._own.items():
            yield name, measure_rows(name, measure, weights, allowed)


def _as_distributions(model: Seq2SeqModel, maps: Mapping[Kind, Tensor]) -> Mapping[Kind, Tensor]:
    """Return maps whose rows sum to 1, also those of a half of an attention, as shares of it."""
    if not model.description.merged_attention:
        return maps
    return {kind: of / of.sum(-1, keepdim=True).clamp(min=1e-30) for kind, of in maps.items()}
