"""In which sentences of a corpus the neurons of all feed-forwards are strongest, and where.

A neuron's activation is what the second linear layer of its feed-forward is given: after the
activation function, and, where the feed-forward is gated, after the product with the gate. It is
strongest where it is farthest from 0. (Geva et al. 2021, "Transformer Feed-Forward Layers Are
Key-Value Memories", describe neurons by such sentences.)

``B`` batch, ``n`` positions, ``L`` layers, ``F`` = d_ff, ``N`` examples.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from headwise.model.checkpoint import Checkpoint
from headwise.model.interface import Seq2SeqModel, Stack
from headwise.model.placement import in_float32
from headwise.model.readings import sublayers
from headwise.model.runs import load_checkpoint
from headwise.model.ties import first_largest_of
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, captured
from headwise.viz_app.measuring.checkpoints import MeasureTask, over_corpus, sentences_of
from headwise.viz_app.records.measures import Sentence, StrongestPositions, StrongestSentences

STRONGEST = 4  # most sentences of a neuron
_BITS = 11  # bits of an activation that are kept, as many as float16 has


def measure_neurons(task: MeasureTask) -> Iterator[StrongestSentences | int]:
    """Find the strongest sentences of every neuron of the checkpoints of a task, in order.

    Every process yields the same. ValueError if no sentence of the corpus can be measured.
    """
    for step in task.steps:
        yield (yield from _of_checkpoint(task, load_checkpoint(task.run, step, task.placement)))


def _of_checkpoint(
    task: MeasureTask, checkpoint: Checkpoint
) -> Generator[int, None, StrongestSentences]:
    found: dict[Stack, list[StrongestPositions]] = {stack: [] for stack in get_args(Stack)}

    def add(batch: Sequence[EncodedPair]) -> None:
        for stack, places in places_in_batch(checkpoint.model, batch).items():
            found[stack] = [strongest([*found[stack], places])]

    corpus = yield from over_corpus(task, add)
    if not corpus.sentences:
        raise ValueError(f"{corpus.name}: none of its sentences can be measured: see --help")
    stacks = {
        stack: strongest([each for part in task.processes.gather(places) for each in part])
        for stack, places in found.items()
    }
    numbers = np.unique(np.concatenate([each.sentence.ravel() for each in stacks.values()]))
    named = set(numbers.tolist())
    again = sentences_of(task, task.open_corpus())
    texts = {each.number: Sentence(*each.pair) for each in again if each.number in named}
    return StrongestSentences(
        run=task.run.name,
        step=checkpoint.step,
        sha256=checkpoint.sha256,
        corpus=corpus,
        sentences=tuple(texts[number] for number in numbers.tolist()),
        stacks={
            stack: replace(places, sentence=np.searchsorted(numbers, places.sentence))
            for stack, places in stacks.items()
        },
    )


@torch.inference_mode()
def places_in_batch(
    model: Seq2SeqModel, sentences: Sequence[EncodedPair]
) -> dict[Stack, StrongestPositions]:
    """Find the strongest place of each neuron in each sentence of a batch, by number: (L, F, B).

    The references are forced; padding has no places.
    """
    ids = PaddedIds.of_pairs(sentences, model)
    there: dict[Stack, Tensor] = {"encoder": ids.is_source, "decoder": ids.is_predicted}
    points = {
        stack: [f"{each.path}.hidden" for each in sublayers(model, stack) if each.kind is None]
        for stack in there
    }
    seen = captured(model, ids, chain(*points.values()))
    numbers = np.array([sentence.number for sentence in sentences])
    found = {}
    for stack, of_stack in points.items():
        layers = [_strongest_in_each(seen[point][0], there[stack]) for point in of_stack]
        positions, activations = map(np.stack, zip(*layers, strict=True))
        of_each = np.broadcast_to(numbers, positions.shape)
        found[stack] = StrongestPositions(of_each, positions, activations)
    return found


def _strongest_in_each(hidden: Tensor, there: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return position and activation of the strongest place in each sentence: (F, B) each.

    The activations are (B, n, F); bool (B, n) says which positions are no padding.
    """
    values = in_float32(hidden).transpose(1, 2)  # (B, F, n)
    sizes = values.abs().masked_fill(~there[:, None], -1.0)
    position = first_largest_of(sizes)  # (B, F)
    activation = values.gather(-1, position[..., None])[..., 0]
    return position.T.numpy(force=True), rounded(activation).float().T.numpy(force=True)


def rounded(values: Tensor) -> Tensor:
    """Round numbers to as many bits as float16 has, whatever their size."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.round(mantissa * 2**_BITS) / 2**_BITS, exponent)


def strongest(found: Sequence[StrongestPositions]) -> StrongestPositions:
    """Choose the ``STRONGEST`` places of each neuron; of equal ones the earlier sentence's."""
    sides = zip(*(vars(each).values() for each in found), strict=True)
    sentence, position, activation = (np.concatenate(side, axis=-1) for side in sides)
    order = np.lexsort((sentence, -np.abs(activation)))[..., :STRONGEST]
    chosen = (np.take_along_axis(side, order, -1) for side in (sentence, position, activation))
    return StrongestPositions(*chosen)
