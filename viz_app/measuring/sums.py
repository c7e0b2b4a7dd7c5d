"""All measures of a checkpoint's heads, and their outputs, summed over the batches of a corpus.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.budget import require_memory
from headwise.model.config import Counts
from headwise.model.estimates import measuring_bytes
from headwise.model.interface import (
    KINDS,
    Description,
    Kind,
    Seq2SeqModel,
    SpecialIds,
    Tokenizers,
    attention_path,
)
from headwise.model.interventions import mean_shapes
from headwise.model.masks import pad
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, batches_by_length, captured
from headwise.viz_app.measuring.checkpoint_measures import DRAWN, OF_CORPUS
from headwise.viz_app.measuring.head_measures import (
    MEAN_ABLATION,
    MEASURES,
    RESAMPLED,
    in_groups,
    own_measure,
)
from headwise.viz_app.measuring.heads import HeadSum, RowMeasure
from headwise.viz_app.measuring.inputs import MeasuredBatch, Rows, RunInputs, costs_of
from headwise.viz_app.measuring.sentence_costs import MOST_SENTENCES
from headwise.viz_app.measuring.words import count_baseline_links
from headwise.viz_app.records.measures import AlignmentBaselines
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.attention import to_numpy, to_tensor

if TYPE_CHECKING:  # the app need not load what trains in several processes
    from headwise.model.training.processes import Processes

_RESAMPLES = 200  # resamples of the bootstrap
_SEED = 0
_LARGEST = float(np.finfo(np.float16).max)
_ERROR_RATES = in_groups("alignment")  # measures that are 1 − 2 of the mean


@lru_cache(maxsize=64)  # a batch's, which every measure and kind of head asks for
def _draws(place: int) -> NDArray[np.int64]:
    """Draw how often each resample has the sentence at a place in the corpus."""
    return np.random.default_rng((_SEED, place)).poisson(1, _RESAMPLES)


def draws(places: Sequence[int]) -> NDArray[np.int64]:
    """Return how often each resample has the sentences at some places in the corpus, (B, 200)."""
    return np.array([_draws(place) for place in places])


class Bootstrap:
    """Sums of figures over sentences, and of their tokens, give means and their standard errors.

    A resample draws each sentence a number of times that has the Poisson distribution of mean 1, so
    that sentences can be added one after another and in several processes. (Chamandy et al. 2012;
    the resampling of a whole corpus, Efron 1979, has this distribution in the limit.) The numbers
    depend on the seed and on the sentence's place in the corpus only.
    """

    def __init__(self, figures: int, device: torch.device) -> None:
        # The figures, and the tokens of each.
        self._sums = torch.zeros(2, figures, dtype=torch.float64, device=device)
        self._resampled = self._sums.new_zeros(2, _RESAMPLES, figures)

    def add(self, places: Sequence[int], figures: Tensor, tokens: Tensor) -> None:
        """Add sentences: their indices in the corpus, figures (B, figures), and tokens (B,).

        The figures are summed over the tokens of a sentence. Tokens (B, figures) are of each.
        """
        tokens = (tokens if tokens.dim() == 2 else tokens[:, None]).expand_as(figures)
        both = torch.stack([figures, tokens]).double()
        times = torch.tensor(draws(places), dtype=torch.float64, device=both.device)
        self._sums += both.sum(dim=1)
        self._resampled += times.T @ both

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums, self._resampled = processes.sum(self._sums), processes.sum(self._resampled)

    def means(self) -> Tensor:
        """Return each figure per token, (figures,); NaN where there is no token."""
        figures, tokens = self._sums
        return figures / tokens

    def standard_errors(self) -> Tensor:
        """Return the standard deviation of each figure per token over the resamples, (figures,).

        NaN where a resample has no token, as of one or two sentences.
        """
        return self.deviations().std(dim=0)

    def deviations(self) -> Tensor:
        """Return each figure per token on each resample, less its mean, (200, figures)."""
        figures, tokens = self._resampled
        return figures / tokens - (figures / tokens).mean(dim=0)


class MeasureSums:
    """Sums of measures over the batches of a corpus, for a model and each of its heads."""

    def __init__(
        self,
        model: Description,
        device: torch.device,
        own: Mapping[str, RowMeasure] | None = None,
        *,
        wanted: Collection[str] | None = None,
    ) -> None:
        """Begin with nothing; ``own`` has measures besides ours, of which ``wanted`` are summed."""
        self._shapes = model.shapes
        self._wanted = frozenset((*MEASURES, *OF_CORPUS) if wanted is None else wanted)
        added = {name: own_measure(name, each) for name, each in (own or {}).items()}
        self._measures = {name: MEASURES[name] for name in MEASURES if name in self._wanted} | added
        self._names = (*MEASURES, *added)
        self._of_heads = {
            (name, kind): Bootstrap(layers * heads, device)
            for name in self._names
            for kind, (layers, heads) in self._shapes.items()
        }
        self._of_model = {name: Bootstrap(1, device) for name in OF_CORPUS}
        # By place in the corpus: tokens, and costs (L, H) of each kind.
        self._costs: dict[int, tuple[int, list[Floats]]] = {}
        # Correct links of the two baselines of alignment, and |A| + |S|.
        self._baselines = torch.zeros(3, dtype=torch.float64, device=device)

    def measure(self, batch: MeasuredBatch) -> None:
        """Add what is wanted of a batch.

        ValueError if its longest sentence takes more memory than is free.
        """
        costs = {"cost", MEAN_ABLATION} & self._wanted
        if batch.model.device.type == "cpu" and costs:
            source, target = (
                max(len(getattr(pair, side)) for pair in batch.pairs)
                for side in ("source", "target")
            )
            require_memory(measuring_bytes(batch.model.description, source, target, 1))
        for name, measure in self._measures.items():
            for kind, found in measure.sums(batch).items():
                self.add(name, kind, found, batch.places)
        for name in OF_CORPUS:
            of_batch = DRAWN[name].of_batch
            if name in self._wanted and of_batch is not None:
                values = of_batch(batch).double()
                total, count = values.nansum(dim=1), values.isfinite().sum(dim=1)
                self._of_model[name].add(batch.places, total[:, None], count)
        if "cost" in self._wanted:
            self._keep_costs(batch)
        if not self._wanted.isdisjoint(_ERROR_RATES) and batch.aligned is not None:
            self._baselines[:-1] += count_baseline_links(batch.aligned)
            self._baselines[-1] += batch.aligned.sizes.sum()

    def add(self, name: str, kind: Kind, found: HeadSum, places: Sequence[int]) -> None:
        """Add a batch's sums of a measure for a kind of attention.

        ``places`` are the indices of the batch's sentences in the corpus.
        """
        self._of_heads[name, kind].add(places, found.total, found.count)

    def _keep_costs(self, batch: MeasuredBatch) -> None:
        found = batch.once(costs_of)
        arrays = [found[kind].float().cpu().numpy() for kind in self._shapes]
        for place, tokens, *costs in zip(batch.places, batch.tokens.tolist(), *arrays, strict=True):
            if place < MOST_SENTENCES:
                self._costs[place] = (int(tokens), costs)

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        for summed in (*self._of_heads.values(), *self._of_model.values()):
            summed.all_reduce(processes)
        self._costs = {
            place: of_sentence
            for of_process in processes.gather(self._costs)
            for place, of_sentence in of_process.items()
        }
        self._baselines = processes.sum(self._baselines)

    def values(self) -> dict[str, dict[Kind, Floats]]:
        """Return the mean of each measure and kind, (L, H); NaN where no row was counted."""
        return self._by_name(Bootstrap.means, lambda hits: 1 - 2 * hits)

    def errors(self) -> dict[str, dict[Kind, Floats]]:
        """Return the standard error of each mean that ``values`` has, (L, H) for each kind."""
        return self._by_name(Bootstrap.standard_errors, lambda hits: 2 * hits)

    def _by_name(
        self, figure: Callable[[Bootstrap], Tensor], of_rate: Callable[[Floats], Floats]
    ) -> dict[str, dict[Kind, Floats]]:
        """Return a figure of each measure; ``of_rate`` makes that of an error rate from hits."""
        found: dict[str, dict[Kind, Floats]] = {name: {} for name in self._names}
        for (name, kind), sums in self._of_heads.items():
            values = figure(sums).float().cpu().view(self._shapes[kind]).numpy()
            found[name][kind] = of_rate(values) if name in _ERROR_RATES else values
        return found

    def resamples(self) -> dict[Kind, NDArray[np.float16]]:
        """Return what ``Resamples`` has: kind → (names, resamples, L, H), float16."""
        found = {}
        for kind, shape in self._shapes.items():
            rows = [
                self._of_heads[name, kind].deviations() * (-2 if name in _ERROR_RATES else 1)
                for name in RESAMPLED
            ]
            table = torch.stack(rows).clamp(-_LARGEST, _LARGEST).half().cpu()
            found[kind] = table.unflatten(-1, shape).numpy()
        return found

    def of_model(self) -> dict[str, float]:
        return {name: float(of.means()[0]) for name, of in self._of_model.items()}

    def errors_of_model(self) -> dict[str, float]:
        return {name: float(of.standard_errors()[0]) for name, of in self._of_model.items()}

    def costs(self) -> tuple[NDArray[np.int32], NDArray[np.int32], dict[Kind, NDArray[np.float16]]]:
        """Return what each head costs each sentence: places, tokens and costs by kind."""
        places = sorted(self._costs)
        tokens, costs = zip(*(self._costs[place] for place in places), strict=True)
        by_kind = {
            kind: np.stack(of_kind).clip(-_LARGEST, _LARGEST).astype(np.float16)
            for kind, of_kind in zip(self._shapes, zip(*costs, strict=True), strict=True)
        }
        return np.array(places, np.int32), np.array(tokens, np.int32), by_kind

    def alignment(self) -> AlignmentBaselines | None:
        """Return the alignment error rates of the two baselines; None without alignments."""
        *correct, links = self._baselines.tolist()
        if not links:
            return None
        return AlignmentBaselines(*(1 - 2 * right / links for right in correct))


class MeanSums:
    """Sums of all heads' outputs over a corpus, and the numbers of their positions."""

    def __init__(self, model: Description, device: torch.device) -> None:
        self._sums = {
            kind: torch.zeros(shape, dtype=torch.float64, device=device)
            for kind, shape in mean_shapes(model).items()
        }
        self._counts = torch.zeros(len(KINDS), dtype=torch.float64, device=device)

    @torch.inference_mode()
    def add(self, model: Seq2SeqModel, ids: PaddedIds) -> None:
        """Run a model on a batch, its targets forced, and add the outputs of its heads."""
        points = {
            kind: [f"{attention_path(kind, layer)}.heads" for layer in range(len(sums))]
            for kind, sums in self._sums.items()
        }
        seen = captured(model, ids, chain(*points.values()))
        for place, kind in enumerate(KINDS):
            counts = ids.allowed(kind).any(dim=-1)  # (B, Q)
            self._counts[place] += counts.sum()
            for layer, point in enumerate(points[kind]):
                [heads] = seen[point]  # (B, H, Q, K)
                self._sums[kind][layer] += heads.transpose(1, 2)[counts].double().sum(dim=0)

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = {kind: processes.sum(sums) for kind, sums in self._sums.items()}
        self._counts = processes.sum(self._counts)

    def means(self) -> dict[Kind, Floats]:
        """Return the mean output of each head, (L, H, K) for each kind; NaN of no sentence."""
        return {
            kind: (self._sums[kind] / count).float().cpu().numpy()
            for kind, count in zip(KINDS, self._counts, strict=True)
        }


# Without a model: the maps of a trace, and even rows. A head whose rows are even looks at every key
# that the mask allows with the same weight: what it has of a measure is its chance level.


def ids_of(batch: Sequence[EncodedPair]) -> PaddedIds:
    """Pad a batch without its model: the start and the end are those of its first pair."""
    source, target = (pad(rows) for rows in ([e.source for e in batch], [e.target for e in batch]))
    special = SpecialIds(batch[0].target[0], batch[0].source[-1], padding=None, unknown=None)
    return PaddedIds(source, target, special)


def _of_rows(rows: Rows) -> dict[str, HeadSum]:
    """Return the sums of all measures that have a meaning for the rows of maps."""
    sums = {name: measure.of_kind(rows) for name, measure in MEASURES.items()}
    return {name: found for name, found in sums.items() if found is not None}


def even_head(
    tokenizers: Tokenizers, counts: Counts | None, sentences: Iterable[EncodedPair]
) -> Mapping[str, Mapping[Kind, float]]:
    """Measure a head whose rows are even over sentences: measure → kind → value, of the measures of
    where a head looks. ``counts`` are those of tokens in the training data.
    """
    run = RunInputs(tokenizers, counts, torch.device("cpu"))
    sums: dict[str, dict[Kind, list[float]]] = {}
    for batch in batches_by_length(sentences):
        ids = ids_of(batch)
        for kind in KINDS:
            allowed = ids.allowed(kind)
            weights = allowed.double() / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
            for name, found in _of_rows(Rows(kind, weights[:, None], ids, run)).items():
                total = sums.setdefault(name, {}).setdefault(kind, [0.0, 0.0])
                total[0] += float(found.total.sum())
                total[1] += float(found.count.sum())
    return {
        name: {kind: of / count if count else math.nan for kind, (of, count) in of_kinds.items()}
        for name, of_kinds in sums.items()
    }


@dataclass(frozen=True)
class MeasuredSentence:
    """Where heads look on one sentence, beside an even head: means over rows with several keys."""

    values: Mapping[str, Mapping[Kind, Floats]]  # measure → kind → (L, H)
    even: Mapping[str, Mapping[Kind, float]]  # measure → kind → what a head with even rows has


def measure_sentence(
    trace: Trace, tokenizers: Tokenizers, counts: Counts | None
) -> MeasuredSentence:
    """Measure where the heads of a trace look, as over a corpus."""
    given = [list(ids) for ids in (trace.source.ids, trace.target_ids)]
    sentence = EncodedPair(0, Pair(trace.source_text, trace.target_text), *given)
    ids, run = ids_of([sentence]), RunInputs(tokenizers, counts, torch.device("cpu"))
    values: dict[str, dict[Kind, Floats]] = {}
    for kind, maps in trace.attention.items():
        rows = Rows(kind, to_tensor(maps).flatten(0, 1)[None], ids, run)  # (1, L H, Q, M)
        for name, found in _of_rows(rows).items():
            means = (found.total[0] / found.count[0]).float()
            values.setdefault(name, {})[kind] = to_numpy(means).reshape(maps.shape[:2])
    return MeasuredSentence(values, even_head(tokenizers, counts, [sentence]))
