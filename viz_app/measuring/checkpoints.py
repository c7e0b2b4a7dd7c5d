"""Measuring the checkpoints of a run, one after another, over a corpus and on example sentences.

Each of n processes reads the whole corpus and measures every n-th batch; sums are added at the end
of a checkpoint. What measures here yields, besides what it has found, how many sentences are done
after each batch, in all processes: its caller can show that, or stop between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import torch
from torch import Tensor

from headwise.model.checkpoint import Checkpoint
from headwise.model.interface import Kind, Seq2SeqModel
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, load_checkpoint
from headwise.model.training.corpora import CorpusStream
from headwise.model.training.processes import ALONE, Processes
from headwise.viz_app.core import batches
from headwise.viz_app.measuring.checkpoint_measures import OF_CORPUS
from headwise.viz_app.measuring.examples import (
    examples_in_batch,
    strongest_examples,
    translate_batch,
)
from headwise.viz_app.measuring.head_measures import (
    AT_ONCE,
    MEAN_ABLATION,
    OF_WEIGHTS,
    require_own_names,
    weight_measures,
)
from headwise.viz_app.measuring.heads import RowMeasure
from headwise.viz_app.measuring.inputs import MeasuredBatch, RunInputs
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.stages import StageMeasurer, find_aligning_head
from headwise.viz_app.measuring.sums import MeanSums, MeasureSums, even_head
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples
from headwise.viz_app.measuring.words import LinksLookup
from headwise.viz_app.records.measures import CorpusSummary, Measures, OwnMeasure, Sentence
from headwise.viz_app.records.trace import Floats

MEANS = "means"  # stands among the names of what is wanted for the mean outputs of heads
_ALIGNED = 128  # sentences by which the head is chosen whose links align words


@dataclass(frozen=True)
class ExampleSentences:
    """Example sentences are encoded once for all checkpoints and numbered from 0."""

    corpus: CorpusSummary
    sentences: tuple[batches.EncodedPair, ...]
    left_out: batches.LeftOutCounts


NO_EXAMPLES = ExampleSentences(CorpusSummary("", "", 0, 0), (), batches.LeftOutCounts())


def read_examples(run: Run, stream: CorpusStream, most: int | None = None) -> ExampleSentences:
    """Encode at most ``most`` example sentences of a corpus; those too long are left out."""
    left_out = batches.LeftOutCounts()
    encoded = batches.encode(
        stream.pairs, run.tokenizers, max_length=run.description.max_length, left_out=left_out
    )
    numbered = enumerate(islice(encoded, most))
    sentences = tuple(replace(sentence, number=number) for number, sentence in numbered)
    tokens = sum(len(sentence.target) - 1 for sentence in sentences)
    corpus = CorpusSummary(stream.name, stream.sha256, len(sentences), tokens)
    return ExampleSentences(corpus, sentences, left_out)


@dataclass(frozen=True)
class MeasureTask:
    """A task says which checkpoints of a run are measured, on what, and by which processes."""

    run: Run
    steps: Sequence[int]
    open_corpus: Callable[[], CorpusStream]  # from its beginning, for each checkpoint
    sentences: int  # most sentences of the corpus
    open_text: Callable[[], CorpusStream] | None = None
    """For the language model, which learns of targets; None for the one that is measured."""
    examples: ExampleSentences = NO_EXAMPLES
    links_of: LinksLookup | None = None  # reference alignments, if there are any
    processes: Processes = ALONE
    placement: Placement = DEFAULT_PLACEMENT  # where the models compute, and how precisely
    load: Callable[[Run, int, Placement], Checkpoint] = load_checkpoint  # loads a checkpoint there
    batch: int = 32  # most sentences of a batch
    own: Mapping[str, RowMeasure] = field(default_factory=dict)  # a person's, by name
    about_own: Mapping[str, OwnMeasure] = field(default_factory=dict)  # what each of these is

    def __post_init__(self) -> None:
        require_own_names(self.own)


def sentences_of(
    task: MeasureTask, stream: CorpusStream, left_out: batches.LeftOutCounts | None = None
) -> Iterator[batches.EncodedPair]:
    """Encode the sentences of a corpus that are measured."""
    run, most = task.run, task.run.description.max_length
    encoded = batches.encode(stream.pairs, run.tokenizers, max_length=most, left_out=left_out)
    return islice(encoded, task.sentences)


def over_corpus(
    task: MeasureTask, add: Callable[[Sequence[batches.EncodedPair]], None]
) -> Generator[int, None, CorpusSummary]:
    """Give this process's batches to ``add``, and describe the whole corpus that was read."""
    stream = task.open_corpus()
    sentences = tokens = 0
    encoded = sentences_of(task, stream)
    for number, batch in enumerate(batches.batches_by_length(encoded, task.batch)):
        if task.processes.has(number):
            add(batch)
        sentences += len(batch)
        tokens += sum(len(sentence.target) - 1 for sentence in batch)
        yield len(batch)
    return CorpusSummary(stream.name, stream.sha256, sentences, tokens)


@dataclass(frozen=True)
class CheckpointSums:
    """What was summed of a checkpoint over a corpus, by all processes."""

    run: str
    checkpoint: Checkpoint
    corpus: CorpusSummary
    heads: MeasureSums
    outputs: MeanSums
    of_weights: Mapping[str, Mapping[Kind, Floats]]

    @property
    def step(self) -> int:
        return self.checkpoint.step

    def values(self) -> dict[str, Mapping[Kind, Floats]]:
        """Return the value of each measure of heads, (L, H) of each kind."""
        return {**self.heads.values(), **self.of_weights}

    def means(self) -> HeadMeans:
        return HeadMeans(*self._of, self.outputs.means())

    def resamples(self) -> Resamples:
        return Resamples(*self._of, self.heads.resamples())

    def costs(self) -> SentenceCosts:
        return SentenceCosts(*self._of, *self.heads.costs())

    @property
    def _of(self) -> tuple[str, int, str, CorpusSummary]:
        return self.run, self.step, self.checkpoint.sha256, self.corpus


def sum_checkpoints(
    task: MeasureTask, *, wanted: Collection[str]
) -> Iterator[CheckpointSums | int]:
    """Sum what is wanted of the checkpoints of a task in order; every process yields the same.

    ``wanted`` are names of measures of heads, of the whole model, and ``MEANS``. With
    ``MEAN_ABLATION`` among them there are two passes over the corpus.
    """
    run, measured, inputs = task.run, frozenset(wanted) - {MEANS}, None
    loaded: dict[int, Checkpoint] = {}
    for step in task.steps:
        loaded, others = _load_compared(task, step, loaded, measured)
        device = loaded[step].model.device
        inputs = inputs or RunInputs(run.tokenizers, run.counts, device, task.links_of)
        yield from _sum_checkpoint(task, loaded[step], others, inputs, measured, MEANS in wanted)


def _sum_checkpoint(
    task: MeasureTask,
    checkpoint: Checkpoint,
    others: Mapping[str, Seq2SeqModel],
    inputs: RunInputs,
    measured: Collection[str],
    with_means: bool,
) -> Iterator[CheckpointSums | int]:
    model = checkpoint.model
    heads = MeasureSums(model.description, model.device, task.own, wanted=measured)
    outputs = MeanSums(model.description, model.device)
    means: dict[Kind, Tensor] | None = None
    if MEAN_ABLATION in measured:  # the means have to be known before
        yield from over_corpus(
            task, lambda pairs: outputs.add(model, batches.PaddedIds.of_pairs(pairs, model))
        )
        outputs.all_reduce(task.processes)
        means = {k: torch.tensor(of, device=model.device) for k, of in outputs.means().items()}
        with_means = False

    def add(pairs: Sequence[batches.EncodedPair]) -> None:
        batch = MeasuredBatch(inputs, model, pairs, others, means)
        heads.measure(batch)
        if with_means:
            outputs.add(model, batch.ids)

    corpus = yield from over_corpus(task, add)
    heads.all_reduce(task.processes)
    if means is None:
        outputs.all_reduce(task.processes)
    of_weights = {} if set(measured).isdisjoint(OF_WEIGHTS) else weight_measures(model)
    yield CheckpointSums(task.run.name, checkpoint, corpus, heads, outputs, of_weights)


def _load_compared(
    task: MeasureTask, step: int, loaded: Mapping[int, Checkpoint], wanted: Collection[str]
) -> tuple[dict[int, Checkpoint], dict[str, Seq2SeqModel]]:
    """Load a checkpoint and those to which its maps are compared, by the name of the measure.

    ``loaded`` are those that need not be loaded anew.
    """
    there = task.run.steps()
    compared = {"distance": there[-1], "from_first": there[0]}
    if before := there[: there.index(step)]:
        compared["velocity"] = before[-1]
    compared = {name: one for name, one in compared.items() if name in wanted}
    found = {
        one: loaded.get(one) or task.load(task.run, one, task.placement)
        for one in {step, *compared.values()}
    }
    return found, {name: found[one].model for name, one in compared.items()}


def sentences_passed(steps: Collection[int], sentences: int, examples: int) -> int:
    """Count what ``measure`` yields as done, all passes over corpus and examples together."""
    return len(steps) * (sentences + 2 * examples)


def measure(task: MeasureTask) -> Iterator[tuple[Measures, CheckpointSums] | int]:
    """Measure the checkpoints of a task in order; every process yields the same."""
    newest = task.load(task.run, task.run.steps()[-1], task.placement)
    examples, tokenizers = task.examples.sentences, task.run.tokenizers
    some = islice(sentences_of(task, task.open_corpus()), _ALIGNED)
    head = find_aligning_head(newest.model, tokenizers, some, task.links_of)
    text = (pair.target for pair in (task.open_text or task.open_corpus)().pairs)
    stages = StageMeasurer(tokenizers, newest.model, head, [each.pair for each in examples], text)
    even = even_head(tokenizers, task.run.counts, sentences_of(task, task.open_corpus()))
    for found in sum_checkpoints(task, wanted=(*AT_ONCE, *OF_CORPUS, MEANS)):
        if isinstance(found, int):
            yield found
            continue
        model, sums = found.checkpoint.model, found.heads
        errors = sums.errors()
        best = yield from _in_batches(task, examples, partial(examples_in_batch, model))
        translated = yield from _in_batches(
            task, examples, partial(translate_batch, model, tokenizers)
        )
        of_translations = stages.measure([t.translation for t in translated])
        measures = Measures(
            run=task.run.name,
            step=found.step,
            sha256=found.checkpoint.sha256,
            corpus=found.corpus,
            values=found.values(),
            cost_errors=errors["cost"],
            alignment=sums.alignment(),
            stages=sums.of_model() | {k: value for k, (value, _) in of_translations.items()},
            examples_corpus=task.examples.corpus,
            sentences=tuple(Sentence(*s.pair) for s in task.examples.sentences),
            examples=strongest_examples(model, best),
            translated=tuple(translated),
            own=dict(task.about_own),
            errors=errors,
            even=even,
            stage_errors=sums.errors_of_model()
            | {name: error for name, (_, error) in of_translations.items()},
            distance_to=newest.step,
        )
        yield measures, found


def _in_batches(
    task: MeasureTask,
    sentences: Iterable[batches.EncodedPair],
    measured: Callable[[Sequence[batches.EncodedPair]], Mapping[int, batches.Result]],
) -> Generator[int, None, list[batches.Result]]:
    """Measure batches of sentences, each in one process, and gather what all processes found."""
    mine = []
    for number, batch in enumerate(batches.batches_by_length(sentences, task.batch)):
        if task.processes.has(number):
            mine.append(measured(batch))
        yield len(batch)
    return batches.gather(task.processes, mine)
