"""In which sentences of a corpus the neurons of all feed-forwards are strongest, and where.

A neuron's activation is what the second linear layer of its feed-forward is given: after the
activation function, and, where the feed-forward is gated, after the product with the gate. It is
strongest where it is farthest from 0. (Geva et al. 2021, "Transformer Feed-Forward Layers Are
Key-Value Memories", describe neurons by such sentences.)

``B`` batch, ``n`` positions, ``L`` layers, ``F`` = d_ff, ``N`` examples.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from headwise.model.checkpoint import Checkpoint
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Seq2SeqModel
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, sublayers
from headwise.model.runs import load_checkpoint
from headwise.model.ties import first_largest_of
from headwise.viz_app.measuring.batches import EncodedPair, LeftOutCounts, PaddedIds
from headwise.viz_app.measuring.checkpoints import MeasureTask, over_corpus, sentences_of
from headwise.viz_app.records.measures import (
    Sentence,
    StackName,
    StrongestPositions,
    StrongestSentences,
)

STRONGEST = 4
"""Most sentences of a neuron."""
_BITS = 11
"""Bits of an activation that are kept, as many as float16 has."""


@dataclass(frozen=True)
class Places:
    """Some places of each neuron of a stack, (L, F, N)."""

    activation: Tensor
    """Rounded, so that which of two is larger does not hang on last bits."""
    sentence: Tensor
    """Number of the sentence in the corpus."""
    position: Tensor


def measure_neurons(task: MeasureTask) -> Iterator[StrongestSentences | int]:
    """Find the strongest sentences of every neuron of the checkpoints of a task, in order.

    Every process yields the same.

    Raises:
        ValueError: if no sentence of the corpus can be measured.
    """
    for step in task.steps:
        yield (yield from _of_checkpoint(task, load_checkpoint(task.run, step, task.placement)))


def _of_checkpoint(
    task: MeasureTask, checkpoint: Checkpoint
) -> Generator[int, None, StrongestSentences]:
    found: dict[StackName, list[Places]] = {stack: [] for stack in get_args(StackName)}

    def add(batch: Sequence[EncodedPair]) -> None:
        for stack, places in places_in_batch(checkpoint.model, batch).items():
            found[stack] = [strongest([*found[stack], places])]

    corpus = yield from over_corpus(task, add)
    if not corpus.sentences:
        raise ValueError(f"{corpus.name}: none of its sentences can be measured: see --help")
    together = {
        stack: strongest([each for part in task.processes.gather(places) for each in part])
        for stack, places in found.items()
    }
    numbers = np.unique(
        [number for each in together.values() for number in each.sentence.unique().tolist()]
    )
    wanted = set(numbers.tolist())
    again = sentences_of(task, task.open_corpus(), LeftOutCounts())
    texts = {each.number: Sentence(*each.pair) for each in again if each.number in wanted}
    return StrongestSentences(
        run=task.run.name,
        step=checkpoint.step,
        sha256=checkpoint.sha256,
        corpus=corpus,
        sentences=tuple(texts[number] for number in numbers.tolist()),
        stacks={stack: _record(places, numbers) for stack, places in together.items()},
    )


def _record(places: Places, numbers: np.ndarray) -> StrongestPositions:
    return StrongestPositions(
        sentence=np.searchsorted(numbers, places.sentence.numpy()),
        position=places.position.numpy(),
        activation=places.activation.numpy(),
    )


@torch.inference_mode()
def places_in_batch(
    model: Seq2SeqModel, sentences: Sequence[EncodedPair]
) -> dict[StackName, Places]:
    """Find the strongest place of each neuron in each sentence of a batch, N = B.

    The references are forced; padding has no places.
    """
    ids = PaddedIds.of_pairs(sentences, model)
    feed_forwards: dict[StackName, list[Sublayer]] = {
        stack: [each for each in sublayers(model, stack) if each.kind is None]
        for stack in get_args(StackName)
    }
    names = [f"{each.path}.hidden" for every in feed_forwards.values() for each in every]
    with capture(model, names) as seen:
        forced_stream(model, ids.source, ids.target[:, :-1])
    there = {"encoder": ids.is_source, "decoder": ids.is_predicted}
    numbers = torch.tensor([sentence.number for sentence in sentences])
    found: dict[StackName, Places] = {}
    for stack, every in feed_forwards.items():
        layers = [
            _strongest_in_each(seen[f"{each.path}.hidden"][0], there[stack]) for each in every
        ]
        activations, positions = (torch.stack(side) for side in zip(*layers, strict=True))
        found[stack] = Places(activations, numbers.expand(activations.shape), positions)
    return found


def _strongest_in_each(hidden: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Return activation and position of the strongest place in each sentence: (F, B) each.

    The activations are (B, n, F); bool (B, n) says which positions are no padding.
    """
    values = in_float32(hidden).transpose(1, 2)  # (B, F, n)
    sizes = values.abs().masked_fill(~there[:, None], -1.0)
    position = first_largest_of(sizes)  # (B, F)
    activation = values.gather(-1, position[..., None])[..., 0]
    return rounded(activation).float().T.cpu(), position.T.cpu()


def rounded(values: Tensor) -> Tensor:
    """Round numbers to as many bits as float16 has, whatever their size."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.round(mantissa * 2**_BITS) / 2**_BITS, exponent)


def strongest(found: Sequence[Places]) -> Places:
    """Choose the ``STRONGEST`` places of each neuron; of equal ones the earlier sentence's."""
    activation = torch.cat([each.activation for each in found], dim=-1)
    sentence = torch.cat([each.sentence for each in found], dim=-1)
    position = torch.cat([each.position for each in found], dim=-1)
    earlier = sentence.argsort(dim=-1)
    sizes = activation.abs().gather(-1, earlier)
    order = sizes.argsort(dim=-1, descending=True, stable=True)[..., :STRONGEST]
    chosen = earlier.gather(-1, order)
    return Places(*(side.gather(-1, chosen) for side in (activation, sentence, position)))
