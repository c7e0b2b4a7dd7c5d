"""All measures of a checkpoint's heads, summed over the batches of a corpus.

``L`` layers, ``H`` heads, ``V`` vocabulary.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.model.interface import KINDS, Description, Kind, Seq2SeqModel, Tokenizers, Vocabulary
from headwise.model.interventions import batch_head_costs, batch_head_importance
from headwise.model.run_info import Counts
from headwise.model.training.processes import Processes
from headwise.viz_app.measuring.batches import PaddedIds, attention_maps
from headwise.viz_app.measuring.bootstrap import Bootstrap
from headwise.viz_app.measuring.contributions import Contributions, contributions
from headwise.viz_app.measuring.heads import (
    HeadSum,
    confidence,
    distance,
    entropy,
    on_keys,
    on_offset,
    on_rarest,
)
from headwise.viz_app.measuring.words import AlignedBatch, count_baseline_links, count_correct_links
from headwise.viz_app.records.measures import CONTRIBUTIONS, MEASURES, AlignmentBaselines
from headwise.viz_app.records.trace import Floats


def punctuation_ids(tokenizer: Vocabulary) -> Tensor:
    """Return which tokens of the vocabulary consist of punctuation only: bool (V,)."""

    def is_punctuation(token: str) -> bool:
        text = token.removeprefix(" ")
        return bool(text) and all(unicodedata.category(letter)[0] == "P" for letter in text)

    tokens = tokenizer.tokens(range(tokenizer.vocab_size))
    return torch.tensor([is_punctuation(token) for token in tokens])


class MeasureSums:
    """Running sums and counts are held for every measure, kind and head of a model."""

    def __init__(self, model: Description, device: torch.device) -> None:
        self._shapes = model.shapes
        # By measure and head, layer by layer; in the last column the count.
        self._sums = {
            kind: torch.zeros(len(MEASURES), layers * heads + 1, dtype=torch.float64, device=device)
            for kind, (layers, heads) in self._shapes.items()
        }
        self._costs = {
            kind: Bootstrap(layers * heads, device)
            for kind, (layers, heads) in self._shapes.items()
        }
        # Sum and count of each measure of the contributions to predictions.
        self._contributions = torch.zeros(len(CONTRIBUTIONS), 2, dtype=torch.float64, device=device)
        # Correct links of the two baselines of alignment, and |A| + |S|.
        self._baselines = torch.zeros(3, dtype=torch.float64, device=device)

    def add(self, name: str, kind: Kind, found: HeadSum) -> None:
        """Add a batch's sum of a measure for a kind of attention."""
        row = self._sums[kind][MEASURES.index(name)]
        row[:-1] += found.total
        row[-1] += found.count

    def add_costs(self, kind: Kind, places: Sequence[int], costs: Tensor, tokens: Tensor) -> None:
        """Add the costs of ablating the heads of a kind.

        Args:
            kind: the kind of attention.
            places: index of each sentence in the corpus, (B,).
            costs: in nats, (B, L H).
            tokens: number of predicted tokens of each sentence, (B,).
        """
        self.add("cost", kind, HeadSum(costs.double().sum(dim=0), tokens.sum().double()))
        self._costs[kind].add(places, costs, tokens)

    def add_contributions(self, found: Contributions, is_predicted: Tensor) -> None:
        """Add the contributions to the predictions of a batch.

        Args:
            found: the contributions.
            is_predicted: at which steps a token is predicted, bool (B, T).
        """
        for sums, name in zip(self._contributions, CONTRIBUTIONS, strict=True):
            values = getattr(found, name)[is_predicted].double()
            sums += torch.stack([values.nansum(), values.isfinite().sum()])

    def add_baselines(self, aligned: AlignedBatch) -> None:
        """Add the links of a batch that the two baselines of alignment have right."""
        self._baselines[:-1] += count_baseline_links(aligned)
        self._baselines[-1] += aligned.size

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = {kind: processes.sum(sums) for kind, sums in self._sums.items()}
        for costs in self._costs.values():
            costs.all_reduce(processes)
        self._contributions = processes.sum(self._contributions)
        self._baselines = processes.sum(self._baselines)

    def values(self) -> dict[str, dict[Kind, Floats]]:
        """Return the mean of each measure and kind, (L, H); NaN where no row was counted."""
        found: dict[str, dict[Kind, Floats]] = {name: {} for name in MEASURES}
        for kind, sums in self._sums.items():
            means = (sums[:, :-1] / sums[:, -1:]).float().unflatten(-1, self._shapes[kind])
            for name, values in zip(MEASURES, means.cpu(), strict=True):
                is_error = name in ("aer_predicted", "aer_consumed")  # 1 - 2 hits / links
                found[name][kind] = (1 - 2 * values if is_error else values).numpy()
        return found

    def cost_errors(self) -> dict[Kind, Floats]:
        """Return the standard error of the mean cost of each head, (L, H) for each kind."""
        return {
            kind: costs.standard_errors().float().cpu().view(self._shapes[kind]).numpy()
            for kind, costs in self._costs.items()
        }

    def contributions(self) -> dict[str, float]:
        """Return the mean over predictions for each name in ``CONTRIBUTIONS``."""
        means = self._contributions[:, 0] / self._contributions[:, 1]
        return dict(zip(CONTRIBUTIONS, means.tolist(), strict=True))

    def alignment(self) -> AlignmentBaselines | None:
        """Return the alignment error rates of the two baselines; None without alignments."""
        *correct, links = self._baselines.tolist()
        if not links:
            return None
        return AlignmentBaselines(*(1 - 2 * right / links for right in correct))


@dataclass(frozen=True)
class OtherCheckpoints:
    """The checkpoints of a run to whose maps a checkpoint's are compared."""

    newest: Seq2SeqModel
    first: Seq2SeqModel
    previous: Seq2SeqModel | None
    """The measured checkpoint before this one; None at the first."""


class Measurer:
    """A measurer computes all measures of a batch for any checkpoint of a run."""

    def __init__(self, tokenizers: Tokenizers, counts: Counts | None, device: torch.device) -> None:
        """Prepare for a run.

        Args:
            tokenizers: the tokenizers of the run.
            counts: how often each token occurs in its training data, if that is known.
            device: where the models compute.
        """
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
        others: OtherCheckpoints,
        ids: PaddedIds,
        places: Sequence[int],
        aligned: AlignedBatch | None,
    ) -> None:
        """Measure the heads of a model on a batch and add the results to ``sums``.

        Args:
            sums: the running sums.
            model: the checkpoint to measure, in evaluation mode.
            others: the checkpoints to which distances are measured.
            ids: the batch; its targets are references.
            places: index of each sentence of the batch in the corpus.
            aligned: reference alignments of the batch, if it has any.
        """
        maps, _ = attention_maps(model, ids)
        for kind, weights in maps.items():
            self._add_places(sums, kind, weights, ids)
        self._add_distances(sums, model, maps, others, ids)
        sums.add_contributions(contributions(model, ids), ids.is_predicted)
        tokens = ids.is_predicted.sum(dim=-1)
        for kind, costs in batch_head_costs(model, ids.source, ids.target).items():
            sums.add_costs(kind, places, costs.flatten(1), tokens)
        for kind, values in batch_head_importance(model, ids.source, ids.target).items():
            total = values.double().sum(dim=0).flatten()
            sums.add("gradient", kind, HeadSum(total, tokens.sum().double()))
        if aligned is not None:
            sums.add_baselines(aligned)
            for name, queries in (
                ("aer_predicted", aligned.predicted),
                ("aer_consumed", aligned.consumed),
            ):
                correct = count_correct_links(maps["cross"], aligned, queries)
                sums.add(name, "cross", HeadSum(correct, aligned.size))

    def _add_places(self, sums: MeasureSums, kind: Kind, weights: Tensor, ids: PaddedIds) -> None:
        """Add the measures of where the heads of a kind look; weights are (B, H, Q, M)."""
        allowed, keys = ids.allowed(kind), ids.keys(kind)
        sums.add("entropy", kind, entropy(weights, allowed))
        sums.add("confidence", kind, confidence(weights, allowed))
        offsets = {"previous": -1, "same": 0, "next": 1}
        if kind == "decoder_self":
            del offsets["next"]  # the mask hides it
        for name, offset in offsets.items():
            sums.add(name, kind, on_offset(weights, allowed, offset))
        if kind == "decoder_self":
            sums.add("begin", kind, on_keys(weights, allowed, keys == ids.special.start))
        else:
            sums.add("end", kind, on_keys(weights, allowed, keys == ids.special.end))
        if self._punctuation[kind].any():
            sums.add("punctuation", kind, on_keys(weights, allowed, self._punctuation[kind][keys]))
        if kind in self._occurrences:
            sums.add("rare", kind, on_rarest(weights, allowed, self._occurrences[kind][keys]))

    def _add_distances(
        self,
        sums: MeasureSums,
        model: Seq2SeqModel,
        maps: Mapping[Kind, Tensor],
        others: OtherCheckpoints,
        ids: PaddedIds,
    ) -> None:
        for name, other in (
            ("distance", others.newest),
            ("from_first", others.first),
            ("velocity", others.previous),
        ):
            if other is not None:
                there = maps if other is model else attention_maps(other, ids)[0]
                for kind, weights in maps.items():
                    sums.add(name, kind, distance(weights, there[kind], ids.allowed(kind)))
