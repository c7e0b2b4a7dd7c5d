"""Checkpoints measured one after another, over a corpus and on example sentences.

Every process goes through the whole corpus and takes every n-th batch of it; sums are added up at
the end of a checkpoint. What is in memory is a window of the corpus and the example sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch
import torch.distributed as dist

from model.checkpoint import Checkpoint, Run, load_weights
from model.corpora import CorpusStream
from model.processes import Processes
from viz_app.measure_records import Corpus, Measures, Sentence
from viz_app.measuring.batches import Encoded, Ids, LeftOut, encode, in_batches
from viz_app.measuring.examples import examples_of, strongest, translated
from viz_app.measuring.sums import Measurer, Sums
from viz_app.measuring.words import LinksOf, link

Found = TypeVar("Found")


@dataclass(frozen=True)
class Examples:
    """The example sentences, as many as fit the model, numbered from 0."""

    corpus: Corpus
    sentences: tuple[Encoded, ...]
    left_out: LeftOut


def read_examples(run: Run, stream: CorpusStream, most: int | None = None) -> Examples:
    """The example sentences of a corpus; all of them, or so many."""
    left_out = LeftOut()
    encoded = encode(
        stream.pairs, run.tokenizers, max_length=run.info.model.max_length, left_out=left_out
    )
    sentences = tuple(
        Encoded(number, s.pair, s.source, s.target)
        for number, s in enumerate(islice(encoded, most))
    )
    pieces = sum(len(sentence.target) - 1 for sentence in sentences)
    corpus = Corpus(stream.name, stream.sha256, len(sentences), pieces)
    return Examples(corpus, sentences, left_out)


@dataclass(frozen=True)
class Task:
    """What is measured of a run."""

    run: Run
    steps: Sequence[int]
    open_corpus: Callable[[], CorpusStream]
    """Opens the corpus anew for each checkpoint."""
    sentences: int
    """Most sentences of the corpus."""
    examples: Examples
    links_of: LinksOf | None
    """Reference alignments of the corpus."""
    processes: Processes
    device: torch.device


def measure(
    task: Task, advance: Callable[[int], object], left_out: Callable[[LeftOut], object]
) -> Iterator[Measures]:
    """Measure the checkpoints of a task, in order; the same comes in every process.

    Args:
        task: what to do.
        advance: told of sentences that are done, those of the other processes too.
        left_out: told at the end of a checkpoint what was passed over in the corpus.
    """
    newest = load_weights(task.run, task.run.steps()[-1])
    newest.model.to(task.device)
    measurer = Measurer(task.run.tokenizers, newest.model)
    for step in task.steps:
        checkpoint = newest if step == newest.step else load_weights(task.run, step)
        checkpoint.model.to(task.device)
        sums = Sums(task.run.info.model.n_layers, task.run.info.model.n_heads, task.device)
        passed = LeftOut()
        corpus = _over_corpus(task, measurer, sums, checkpoint, passed, advance)
        sums.over_all(task.processes)
        left_out(passed)
        batches = list(enumerate(in_batches(task.examples.sentences)))
        mine = [batch for number, batch in batches if _is_mine(task, number)]
        model = checkpoint.model
        best = _of_all(task, [examples_of(model, batch) for batch in mine])
        said = _of_all(task, [translated(model, task.run.tokenizers, batch) for batch in mine])
        yield Measures(
            run=task.run.info.name,
            step=step,
            sha256=checkpoint.sha256,
            corpus=corpus,
            values=sums.values(),
            examples_corpus=task.examples.corpus,
            sentences=tuple(Sentence(*s.pair) for s in task.examples.sentences),
            examples=strongest(model, best),
            translated=tuple(said),
            distance_to=newest.step,
        )


def _is_mine(task: Task, batch: int) -> bool:
    return batch % task.processes.count == task.processes.index


def _over_corpus(
    task: Task,
    measurer: Measurer,
    sums: Sums,
    checkpoint: Checkpoint,
    left_out: LeftOut,
    advance: Callable[[int], object],
) -> Corpus:
    """Add this process's share of the corpus to sums; what the whole corpus was comes back."""
    tokenizers, device = task.run.tokenizers, task.device
    max_length = task.run.info.model.max_length
    stream = task.open_corpus()
    encoded = encode(stream.pairs, tokenizers, max_length=max_length, left_out=left_out)
    sentences = pieces = 0
    for number, batch in enumerate(in_batches(islice(encoded, task.sentences))):
        if _is_mine(task, number):
            ids = Ids.of([s.source for s in batch], [s.target for s in batch], device)
            links = task.links_of
            linked = link(batch, tokenizers, links, device) if links is not None else None
            measurer.add(sums, checkpoint.model, ids, linked)
        sentences += len(batch)
        pieces += sum(len(sentence.target) - 1 for sentence in batch)
        advance(len(batch))
    return Corpus(stream.name, stream.sha256, sentences, pieces)


def _of_all(task: Task, found: list[dict[int, Found]]) -> list[Found]:
    """What all processes found for the example sentences, in their order."""
    boxes: list[list[dict[int, Found]] | None] = [found]
    if task.processes.count > 1:
        boxes = [None] * task.processes.count
        dist.all_gather_object(boxes, found, group=task.processes.waiting)
    together = {n: one for box in boxes for part in box or [] for n, one in part.items()}
    return [together[number] for number in sorted(together)]
