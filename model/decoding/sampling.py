"""Sampling draws each token from the predicted distribution. ``R`` rows, ``V`` vocabulary."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.model.decoding.greedy import decode_step_by_step
from headwise.model.interface import Ids, Rows, Seq2SeqModel
from headwise.model.ties import NEAR, descending


def nucleus(logits: Tensor, *, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Compute the distribution of nucleus sampling (Holtzman et al. 2020).

    Only the smallest set of likeliest tokens with a total probability of at least ``top_p`` has
    probability, renormalised; all others have 0. A total counts as ``top_p`` if it is nearer to it
    than rounding, as ``model/ties.py`` says. Logits are (R, V); return ids (R, V), the likeliest
    first, and their probabilities, float64 (R, V).
    """
    logits = logits.double()
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # at most 0: no overflow
    order = np.stack([descending(row) for row in logits.numpy(force=True)])
    ids = torch.from_numpy(order).to(logits.device)
    probability = logits.softmax(dim=-1).gather(-1, ids)
    before = probability.cumsum(dim=-1) - probability
    enough = top_p * (1 - NEAR) if top_p < 1 else 1.0
    probability = probability.masked_fill(before >= enough, 0.0)
    return ids, probability / probability.sum(dim=-1, keepdim=True)


@torch.inference_mode()
def sample(
    model: Seq2SeqModel,
    sources: Rows,
    *,
    seeds: Ids,
    temperature: float = 1.0,
    top_p: float = 1.0,
    prefix: Ids | None = None,
) -> list[list[int]]:
    """Decode a batch by sampling.

    Each source has its own seed, so that its result does not depend on the rest of the batch. The
    rest is as in ``greedy``.
    """
    if len(seeds) != len(sources):
        raise ValueError(f"expected {len(sources)} seeds, one a source, got {len(seeds)}")
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(logits: Tensor, rows: list[int]) -> list[int]:
        ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
        drawn = [torch.rand(1, generator=generators[row], dtype=torch.float64) for row in rows]
        cumulative = probability.cumsum(dim=-1)
        below = torch.stack(drawn).to(cumulative.device) * cumulative[:, -1:]
        places = torch.searchsorted(cumulative, below, right=True)  # the first above the draw
        last = (probability > 0).sum(dim=-1, keepdim=True) - 1
        places = torch.minimum(places, last)  # a product may round up to the sum of all
        return ids.gather(-1, places)[:, 0].tolist()

    return decode_step_by_step(model, sources, draw, prefix)
