"""Translate texts greedily, by beam search or by sampling. ``R`` rows, ``V`` vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from headwise.model.decoding.beam import Beam, beam_search
from headwise.model.decoding.greedy import decode_step_by_step, greedy
from headwise.model.interface import Ids, Rows, Seq2SeqModel, Tokenizers
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
    """Decode a batch by sampling, else as ``greedy``; each source has a seed of its own."""
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


@dataclass(frozen=True)
class Decoding:
    """How to choose tokens: greedily, by beam search, or by sampling with a temperature."""

    beam: int = 1
    """Width of the beam; 1 is greedy decoding."""
    length_penalty: float = 0.6
    """Exponent of the length normalisation of beam search; 0 for none."""
    early_stopping: bool = False
    """Stop a beam search as soon as as many hypotheses as it is wide have ended, though a live one
    might become better."""
    temperature: float | None = None
    """Sample from the distribution at this temperature; without it, take the likeliest."""
    top_p: float = 1.0
    """Sample only from the fewest likeliest tokens with at least this total probability."""
    seed: int = 0
    """Seed of sampling; a text's random numbers depend on it and on the index of the text."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam: expected at least 1, got {self.beam}")
        if not 0 <= self.length_penalty <= 10:
            raise ValueError(f"length_penalty: expected 0 to 10, got {self.length_penalty}")
        if self.temperature is not None and not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature: expected more than 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected 0 < p <= 1, got {self.top_p}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: expected 0 to {2**32 - 1}, got {self.seed}")
        if self.temperature is not None and self.beam > 1:
            raise ValueError("expected a beam or a temperature, got both; leave one out")
        if self.temperature is None and self.top_p < 1:
            raise ValueError("top_p belongs to sampling; give a temperature too, 1 for none")


GREEDY = Decoding()
"""Greedy decoding: the likeliest token at every step."""

Result = TypeVar("Result")


def translate(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    *,
    batch_size: int = 64,
    decoding: Decoding = GREEDY,
    start: int = 0,
) -> list[str]:
    """Translate texts, ``batch_size`` together; sampling seeds each by its index from ``start``."""
    sources, prefix = [tokenizers.encode_source(text) for text in texts], tokenizers.prefix

    def decode(batch: list[int]) -> list[list[int]]:
        rows = [sources[i] for i in batch]
        if decoding.temperature is not None:
            # Far from those of the next texts and seeds; torch uses only 32 bits.
            seeds = [(decoding.seed + 0x9E3779B1 * (start + i)) % 2**32 for i in batch]
            return sample(
                model,
                rows,
                seeds=seeds,
                temperature=decoding.temperature,
                top_p=decoding.top_p,
                prefix=prefix,
            )
        if decoding.beam > 1:
            beams = search(model, rows, decoding, prefix)
            return [beam.hypotheses[0].target for beam in beams]
        return greedy(model, rows, prefix)

    targets = decode_in_batches(sources, batch_size, decode)
    return [tokenizers.target.decode(target) for target in targets]


def search(model: Seq2SeqModel, sources: Rows, decoding: Decoding, prefix: Ids) -> list[Beam]:
    """Run the beam search that a way of decoding asks for."""
    return beam_search(
        model,
        sources,
        size=decoding.beam,
        alpha=decoding.length_penalty,
        prefix=prefix,
        early_stopping=decoding.early_stopping,
    )


def decode_in_batches(
    sources: Rows, batch_size: int, decode: Callable[[list[int]], list[Result]]
) -> list[Result]:
    """Call ``decode`` with indices of sources of similar length; results are in their order."""
    found: dict[int, Result] = {}
    for batch in sorted_batches(sources, batch_size):
        found.update(zip(batch, decode(batch), strict=True))
    return [found[place] for place in range(len(sources))]


def sorted_batches(rows: Rows, size: int) -> Iterator[list[int]]:
    """Yield the indices of all rows in batches of at most ``size``, longest rows first."""
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
