"""All measures of a checkpoint's heads over a corpus, batch by batch.

``L`` layers, ``H`` heads; what is kept are running sums.
"""

from __future__ import annotations

import unicodedata

import torch
from torch import Tensor

from model.ablation import batch_head_costs
from model.config import BOS, EOS, PAD
from model.processes import Processes
from model.tokenizer import Tokenizer, TokenizerPair
from model.transformer import Transformer
from viz_app.measure_records import MEASURES
from viz_app.measuring.batches import Ids, attention_maps
from viz_app.measuring.heads import Sum, confidence, distance, entropy, on_keys, on_offset
from viz_app.measuring.words import Linked, hits
from viz_app.records import KINDS, Floats, Kind


def punctuation_ids(tokenizer: Tokenizer) -> Tensor:
    """Which pieces are punctuation and nothing else: bool (V,)."""

    def is_punctuation(piece: str) -> bool:
        text = piece.removeprefix(" ")
        return bool(text) and all(unicodedata.category(letter)[0] == "P" for letter in text)

    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return torch.tensor([is_punctuation(piece) for piece in pieces])


class Sums:
    """Running sums and counts of every measure and kind of a model with L layers of H heads."""

    def __init__(self, n_layers: int, n_heads: int, device: torch.device) -> None:
        self._shape = n_layers, n_heads
        # By measure, kind and head, layer by layer; in the last column the count.
        size = len(MEASURES), len(KINDS), n_layers * n_heads + 1
        self._sums = torch.zeros(size, dtype=torch.float64, device=device)

    def add(self, name: str, kind: Kind, found: Sum) -> None:
        """Add what a batch gave for a measure and a kind."""
        row = self._sums[MEASURES.index(name), KINDS.index(kind)]
        row[:-1] += found.total
        row[-1] += found.count

    def over_all(self, processes: Processes) -> None:
        """Add up the sums of all processes; all must call it."""
        self._sums = processes.sum(self._sums)

    def values(self) -> dict[str, dict[Kind, Floats]]:
        """Name → kind → (L, H), NaN where nothing was counted."""
        values = (self._sums[..., :-1] / self._sums[..., -1:]).float()
        for name in ("aer_predicted", "aer_consumed"):
            place = MEASURES.index(name)
            values[place] = 1 - 2 * values[place]
        found = values.unflatten(-1, self._shape).cpu().numpy()
        return {
            name: {kind: found[i, j] for j, kind in enumerate(KINDS)}
            for i, name in enumerate(MEASURES)
        }


class Measurer:
    """What it takes to measure the batches of a run's checkpoints."""

    def __init__(self, tokenizers: TokenizerPair, newest: Transformer) -> None:
        """``newest`` is the model to which ``distance`` is measured."""
        self._newest = newest
        source, target = (
            punctuation_ids(side).to(newest.device)
            for side in (tokenizers.source, tokenizers.target)
        )
        self._punctuation = dict.fromkeys(KINDS, source) | {"decoder_self": target}

    @torch.inference_mode()
    def add(self, sums: Sums, model: Transformer, ids: Ids, linked: Linked | None) -> None:
        """Measure a batch.

        Args:
            sums: where the figures are added.
            model: in evaluation mode.
            ids: the batch, targets being references.
            linked: reference alignments of it, if there are any.
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
                ("begin", keys == BOS),
                ("end", keys == EOS),
                ("punctuation", self._punctuation[kind][keys]),
            ):
                sums.add(name, kind, on_keys(weights, allowed, which))
            sums.add("distance", kind, distance(weights, others[kind], allowed))
        pieces = (ids.predicted != PAD).sum().double()
        for kind, costs in batch_head_costs(model, ids.source, ids.target).items():
            sums.add("cost", kind, Sum(costs.double().sum(dim=0).flatten(), pieces))
        if linked is not None:
            for name, queries in (
                ("aer_predicted", linked.predicted),
                ("aer_consumed", linked.consumed),
            ):
                sums.add(name, "cross", Sum(hits(maps["cross"], linked, queries), linked.size))
