"""Ways of decoding: greedy, beam search or sampling. ``R`` rows of a batch, ``V`` vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from model.beam import beam_search
from model.config import BOS, EOS
from model.data import sorted_batches
from model.generation import Generation
from model.tokenizer import TokenizerPair
from model.transformer import Transformer


@dataclass(frozen=True)
class Decoding:
    """How to choose pieces: greedily, by beam search, or by sampling with a temperature."""

    beam: int = 1
    """Width of the beam; 1 is greedy decoding."""
    length_penalty: float = 0.6
    """Exponent of the beam's normalisation for length; 0 is none."""
    temperature: float | None = None
    """Sample from the distribution at this temperature; without it, take the likeliest."""
    top_p: float = 1.0
    """Sample from the likeliest pieces only that have this much probability together."""
    seed: int = 0
    """Of sampling; each text's draws follow from it and the text's place."""

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
"""The likeliest piece at every step."""

Found = TypeVar("Found")

Choose = Callable[[Tensor, list[int]], list[int]]
"""Logits (R, V) and the source of each row → the id chosen for each row."""


def _decode(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    choose: Choose,
    prefix: Sequence[int] = (BOS,),
) -> list[list[int]]:
    batch = Generation(model, sources, prefix)
    targets = [list(prefix) for _ in sources]
    rows = list(range(len(sources)))
    while rows:
        going_on, ids = [], []
        for place, id in enumerate(choose(batch.logits(), rows)):
            target = targets[rows[place]]
            target.append(id)
            if id != EOS and len(target) <= batch.limits[rows[place]]:
                going_on.append(place)
                ids.append(id)
        rows = [rows[place] for place in going_on]
        if rows:
            batch.append(going_on, ids)
    return targets


@torch.inference_mode()
def greedy(
    model: Transformer, sources: Sequence[Sequence[int]], prefix: Sequence[int] = (BOS,)
) -> list[list[int]]:
    """The likeliest piece at every step, for a batch of sources at once.

    Args:
        model: in evaluation mode.
        sources: ids of each source, ``</s>`` included.
        prefix: ids, ``<s>`` first, with which every target begins.

    Returns:
        For each source its target: ``<s>``, the pieces and ``</s>``, this last missing where the
        limit of ``longest_target`` was reached first. Rows that have ended leave the batch.

    Raises:
        ValueError: on an empty batch or source, or one that is too long for the model.
    """
    return _decode(model, sources, lambda logits, _: _likeliest(logits), prefix)


def _likeliest(logits: Tensor) -> list[int]:
    if logits.is_cpu:  # NumPy's argmax takes a tenth of the time of PyTorch's there
        return logits.numpy().argmax(axis=-1).tolist()
    return logits.argmax(dim=-1).tolist()


def nucleus(logits: Tensor, *, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Pieces from the likeliest down and their probabilities: ids (R, V), float64 (R, V).

    The fewest pieces with at least ``top_p`` together share all the probability (Holtzman et al.
    2020); that of the others is 0.
    """
    logits = logits.double()
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # at most 0: no overflow
    probability, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    before = probability.cumsum(dim=-1) - probability
    probability = probability.masked_fill(before >= top_p, 0.0)
    return ids, probability / probability.sum(dim=-1, keepdim=True)


@torch.inference_mode()
def sample(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    *,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> list[list[int]]:
    """Pieces drawn at random, one seed a source: a draw does not depend on the rest of the batch.

    Args and results are otherwise as in ``greedy``.

    Raises:
        ValueError: if seeds and sources differ in number, or as ``greedy`` does.
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

    return _decode(model, sources, draw)


def translate(
    model: Transformer,
    tokenizers: TokenizerPair,
    texts: Sequence[str],
    *,
    batch_size: int = 64,
    decoding: Decoding = GREEDY,
    start: int = 0,
) -> list[str]:
    """Translate texts, those of similar length together; the order is kept.

    Args:
        model: in evaluation mode.
        tokenizers: those of its run.
        texts: what to translate.
        batch_size: texts decoded together.
        decoding: how.
        start: place of the first of these texts among all, for sampling.
    """
    sources = [tokenizers.encode_source(text) for text in texts]
    targets = in_batches(
        sources,
        batch_size,
        lambda batch: _targets(
            model, [sources[i] for i in batch], [start + i for i in batch], decoding
        ),
    )
    return [tokenizers.target.decode(target) for target in targets]


def in_batches(
    sources: Sequence[Sequence[int]],
    batch_size: int,
    decode: Callable[[list[int]], list[Found]],
) -> list[Found]:
    """Decode sources of similar length together: places of a batch → what is found for each."""
    found: dict[int, Found] = {}
    for batch in sorted_batches(sources, batch_size):
        found.update(zip(batch, decode(batch), strict=True))
    return [found[place] for place in range(len(sources))]


def _seed_of(decoding: Decoding, place: int) -> int:
    """Another for each place, far from those of the next seeds; 32 bits are all that torch uses."""
    return (decoding.seed + 0x9E3779B1 * place) % 2**32


def _targets(
    model: Transformer, sources: list[list[int]], places: list[int], decoding: Decoding
) -> list[list[int]]:
    if decoding.temperature is not None:
        return sample(
            model,
            sources,
            seeds=[_seed_of(decoding, place) for place in places],
            temperature=decoding.temperature,
            top_p=decoding.top_p,
        )
    if decoding.beam > 1:
        beams = beam_search(model, sources, size=decoding.beam, alpha=decoding.length_penalty)
        return [beam.hypotheses[0].target for beam in beams]
    return greedy(model, sources)
