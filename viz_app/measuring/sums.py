"""All measures of a checkpoint's heads, summed over the batches of a corpus.

``L`` layers, ``H`` heads, ``V`` vocabulary.
"""

from __future__ import annotations

import unicodedata

import torch
from torch import Tensor

from model.decoding.ablation import batch_head_costs
from model.interface import KINDS, Description, Kind, Seq2SeqModel, Tokenizers, Vocabulary
from model.training.processes import Processes
from viz_app.measuring.batches import PaddedIds, attention_maps
from viz_app.measuring.heads import HeadSum, confidence, distance, entropy, on_keys, on_offset
from viz_app.measuring.words import AlignedBatch, count_correct_links
from viz_app.records.measures import MEASURES
from viz_app.records.trace import Floats


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

    def add(self, name: str, kind: Kind, found: HeadSum) -> None:
        """Add a batch's sum of a measure for a kind of attention."""
        row = self._sums[kind][MEASURES.index(name)]
        row[:-1] += found.total
        row[-1] += found.count

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = {kind: processes.sum(sums) for kind, sums in self._sums.items()}

    def values(self) -> dict[str, dict[Kind, Floats]]:
        """Return the mean of each measure and kind, (L, H); NaN where no row was counted."""
        found: dict[str, dict[Kind, Floats]] = {name: {} for name in MEASURES}
        for kind, sums in self._sums.items():
            means = (sums[:, :-1] / sums[:, -1:]).float().unflatten(-1, self._shapes[kind])
            for name, values in zip(MEASURES, means.cpu(), strict=True):
                is_error = name in ("aer_predicted", "aer_consumed")  # 1 - 2 hits / links
                found[name][kind] = (1 - 2 * values if is_error else values).numpy()
        return found


class Measurer:
    """A measurer computes all measures of a batch for any checkpoint of a run."""

    def __init__(self, tokenizers: Tokenizers, newest: Seq2SeqModel) -> None:
        """Prepare for a run.

        Args:
            tokenizers: the tokenizers of the run.
            newest: model of the last checkpoint, to which ``distance`` is measured.
        """
        self._newest = newest
        source, target = (
            punctuation_ids(side).to(newest.device)
            for side in (tokenizers.source, tokenizers.target)
        )
        self._punctuation = dict.fromkeys(KINDS, source) | {"decoder_self": target}

    @torch.inference_mode()
    def add(
        self, sums: MeasureSums, model: Seq2SeqModel, ids: PaddedIds, aligned: AlignedBatch | None
    ) -> None:
        """Measure the heads of a model on a batch and add the results to ``sums``.

        Args:
            sums: the running sums.
            model: the checkpoint to measure, in evaluation mode.
            ids: the batch; its targets are references.
            aligned: reference alignments of the batch, if it has any.
        """
        maps, _ = attention_maps(model, ids)
        others = attention_maps(self._newest, ids)[0] if model is not self._newest else maps
        for kind, weights in maps.items():
            allowed, keys = ids.allowed(kind), ids.keys(kind)
            sums.add("entropy", kind, entropy(weights, allowed))
            sums.add("confidence", kind, confidence(weights, allowed))
            for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
                sums.add(name, kind, on_offset(weights, allowed, offset))
            for name, which in (
                ("begin", keys == ids.special.start),
                ("end", keys == ids.special.end),
                ("punctuation", self._punctuation[kind][keys]),
            ):
                sums.add(name, kind, on_keys(weights, allowed, which))
            sums.add("distance", kind, distance(weights, others[kind], allowed))
        tokens = ids.is_predicted.sum().double()
        for kind, costs in batch_head_costs(model, ids.source, ids.target).items():
            sums.add("cost", kind, HeadSum(costs.double().sum(dim=0).flatten(), tokens))
        if aligned is not None:
            for name, queries in (
                ("aer_predicted", aligned.predicted),
                ("aer_consumed", aligned.consumed),
            ):
                sums.add(
                    name,
                    "cross",
                    HeadSum(count_correct_links(maps["cross"], aligned, queries), aligned.size),
                )
