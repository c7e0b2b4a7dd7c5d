"""Measuring the checkpoints of a run, one after another, over a corpus and on example sentences.

Each of n processes reads the whole corpus and measures every n-th batch; sums are added over the
processes at the end of a checkpoint. In memory are only a window of the corpus, the example
sentences, and the language model's count of each sequence of three tokens in its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from headwise.model.checkpoint import Checkpoint
from headwise.model.interface import Seq2SeqModel
from headwise.model.placement import Placement
from headwise.model.runs import Run, load_checkpoint
from headwise.model.training.corpora import CorpusStream
from headwise.model.training.processes import Processes
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    batches_by_length,
    encode,
    gather,
)
from headwise.viz_app.measuring.even import even_head
from headwise.viz_app.measuring.examples import examples_in_batch, strongest_examples
from headwise.viz_app.measuring.failures import translate_batch
from headwise.viz_app.measuring.head_means import MeanSums
from headwise.viz_app.measuring.heads import RowMeasure, weight_measures
from headwise.viz_app.measuring.sentence_costs import as_table
from headwise.viz_app.measuring.stages import StageMeasurer, find_aligning_head
from headwise.viz_app.measuring.sums import Measurer, MeasureSums, add_scores
from headwise.viz_app.measuring.words import LinksLookup, align_batch
from headwise.viz_app.records.measures import (
    RESAMPLED,
    CorpusSummary,
    HeadMeans,
    Measures,
    OwnMeasure,
    Resamples,
    Sentence,
    SentenceCosts,
    require_own_names,
)

_ALIGNED = 128
"""Number of sentences of the corpus by which a head is chosen whose links align words."""


@dataclass(frozen=True)
class ExampleSentences:
    """Example sentences are encoded once for all checkpoints and numbered from 0."""

    corpus: CorpusSummary
    sentences: tuple[EncodedPair, ...]
    left_out: LeftOutCounts


def read_examples(run: Run, stream: CorpusStream, most: int | None = None) -> ExampleSentences:
    """Encode at most ``most`` example sentences of a corpus; those too long are left out."""
    left_out = LeftOutCounts()
    encoded = encode(
        stream.pairs, run.tokenizers, max_length=run.description.max_length, left_out=left_out
    )
    sentences = tuple(
        EncodedPair(number, s.pair, s.source, s.target)
        for number, s in enumerate(islice(encoded, most))
    )
    tokens = sum(len(sentence.target) - 1 for sentence in sentences)
    corpus = CorpusSummary(stream.name, stream.sha256, len(sentences), tokens)
    return ExampleSentences(corpus, sentences, left_out)


@dataclass(frozen=True)
class MeasureTask:
    """A task says which checkpoints of a run are measured, on what, and by which processes."""

    run: Run
    steps: Sequence[int]
    open_corpus: Callable[[], CorpusStream]
    """Opens the corpus from its beginning; called once for each checkpoint."""
    open_text: Callable[[], CorpusStream]
    """Opens the corpus of whose targets the language model learns; called once."""
    sentences: int
    """Most sentences of the corpus."""
    examples: ExampleSentences
    links_of: LinksLookup | None
    """Finds the reference alignment of a sentence; None if the corpus has no alignments."""
    processes: Processes
    placement: Placement
    """Where the models compute, and how precisely."""
    own: Mapping[str, RowMeasure] = field(default_factory=dict)
    """Measures of a person's own, by name."""
    about_own: Mapping[str, OwnMeasure] = field(default_factory=dict)
    """What each of these is."""

    def __post_init__(self) -> None:
        require_own_names(self.own)


def count_sentences(task: MeasureTask) -> int:
    """Count the sentences of the corpus that are measured at each checkpoint."""
    return sum(1 for _ in sentences_of(task, task.open_corpus(), LeftOutCounts()))


def sentences_of(
    task: MeasureTask, stream: CorpusStream, left_out: LeftOutCounts
) -> Iterator[EncodedPair]:
    """Encode the sentences of a corpus that are measured."""
    max_length = task.run.description.max_length
    encoded = encode(stream.pairs, task.run.tokenizers, max_length=max_length, left_out=left_out)
    return islice(encoded, task.sentences)


def measure(
    task: MeasureTask, advance: Callable[[int], object], left_out: Callable[[LeftOutCounts], object]
) -> Iterator[tuple[Measures, HeadMeans, SentenceCosts, Resamples]]:
    """Measure the checkpoints of a task in order; every process yields the same.

    ``advance`` is called with the number of sentences that are done, in all processes, ``left_out``
    after each checkpoint with the counts of pairs that were left out.
    """
    device = task.placement.torch_device
    measurer = Measurer(task.run.tokenizers, task.run.counts, device, task.own)
    loaded: dict[int, Checkpoint] = {}
    newest = load_checkpoint(task.run, task.run.steps()[-1], task.placement)
    stages = _stage_measurer(task, newest.model)
    sentences = sentences_of(task, task.open_corpus(), LeftOutCounts())
    even = even_head(task.run.tokenizers, task.run.counts, sentences)
    for step in task.steps:
        loaded, others = _load_compared(task, step, loaded)
        checkpoint = loaded[step]
        model = checkpoint.model
        sums = MeasureSums(model.description, device, task.own)
        means = MeanSums(model.description, device)

        def add(
            batch: Sequence[EncodedPair],
            ids: PaddedIds,
            model: Seq2SeqModel = model,
            sums: MeasureSums = sums,
            means: MeanSums = means,
            others: Mapping[str, Seq2SeqModel] = others,
        ) -> None:
            links, places = task.links_of, [sentence.number for sentence in batch]
            aligned = None
            if links is not None:
                aligned = align_batch(batch, task.run.tokenizers, links, device)
            measurer.add(sums, model, others, ids, places, aligned)
            means.add(model, ids)

        passed = LeftOutCounts()
        corpus = _over_corpus(task, model, add, passed, advance)
        sums.all_reduce(task.processes)
        means.all_reduce(task.processes)
        left_out(passed)
        batches = list(enumerate(batches_by_length(task.examples.sentences)))
        mine = [batch for number, batch in batches if task.processes.has(number)]
        errors = sums.errors()
        best = gather(task.processes, [examples_in_batch(model, batch) for batch in mine])
        translations = gather(
            task.processes, [translate_batch(model, task.run.tokenizers, batch) for batch in mine]
        )
        of_translations = stages.measure([t.translation for t in translations])
        measures = Measures(
            run=task.run.name,
            step=step,
            sha256=checkpoint.sha256,
            corpus=corpus,
            values=sums.values() | weight_measures(model),
            cost_errors=errors["cost"],
            alignment=sums.alignment(),
            stages=sums.contributions() | {k: value for k, (value, _) in of_translations.items()},
            examples_corpus=task.examples.corpus,
            sentences=tuple(Sentence(*s.pair) for s in task.examples.sentences),
            examples=strongest_examples(model, best),
            translated=tuple(translations),
            own=dict(task.about_own),
            errors=errors,
            even=even,
            stage_errors=sums.contribution_errors()
            | {name: error for name, (_, error) in of_translations.items()},
            distance_to=newest.step,
        )
        costs = as_table(sums.costs(), task.run.name, step, checkpoint.sha256, corpus)
        resamples = Resamples(task.run.name, step, checkpoint.sha256, corpus, sums.resamples())
        yield measures, _head_means(task, checkpoint, corpus, means), costs, resamples


def _load_compared(
    task: MeasureTask, step: int, loaded: Mapping[int, Checkpoint]
) -> tuple[dict[int, Checkpoint], dict[str, Seq2SeqModel]]:
    """Load a checkpoint and those to which its maps are compared, by the name of the measure.

    ``loaded`` are those that need not be loaded anew.
    """
    there = task.run.steps()
    before = there[: there.index(step)][-1:]
    found = {
        one: loaded.get(one) or load_checkpoint(task.run, one, task.placement)
        for one in {step, there[0], there[-1], *before}
    }
    compared = {"distance": there[-1], "from_first": there[0]}
    if before:
        compared["velocity"] = before[0]
    return found, {name: found[one].model for name, one in compared.items()}


def measure_resamples(task: MeasureTask, advance: Callable[[int], object]) -> Iterator[Resamples]:
    """Measure only what ``Resamples`` has at the checkpoints of a task, as ``measure``."""
    device = task.placement.torch_device
    run = task.run
    measurer = Measurer(run.tokenizers, run.counts, device, wanted=RESAMPLED)
    loaded: dict[int, Checkpoint] = {}
    for step in task.steps:
        loaded, others = _load_compared(task, step, loaded)
        model = loaded[step].model
        sums = MeasureSums(model.description, device)

        def add(
            batch: Sequence[EncodedPair],
            ids: PaddedIds,
            model: Seq2SeqModel = model,
            sums: MeasureSums = sums,
            others: Mapping[str, Seq2SeqModel] = others,
        ) -> None:
            aligned, links = None, task.links_of
            if links is not None:
                aligned = align_batch(batch, run.tokenizers, links, device)
            measurer.add(sums, model, others, ids, [each.number for each in batch], aligned)

        corpus = _over_corpus(task, model, add, LeftOutCounts(), advance)
        sums.all_reduce(task.processes)
        yield Resamples(run.name, step, loaded[step].sha256, corpus, sums.resamples())


def measure_means(task: MeasureTask, advance: Callable[[int], object]) -> Iterator[HeadMeans]:
    """Measure only the mean outputs of heads at the checkpoints of a task, as ``measure``."""
    for step in task.steps:
        checkpoint = load_checkpoint(task.run, step, task.placement)
        model = checkpoint.model
        means = MeanSums(model.description, task.placement.torch_device)

        def add(
            _: Sequence[EncodedPair],
            ids: PaddedIds,
            model: Seq2SeqModel = model,
            means: MeanSums = means,
        ) -> None:
            means.add(model, ids)

        corpus = _over_corpus(task, model, add, LeftOutCounts(), advance)
        means.all_reduce(task.processes)
        yield _head_means(task, checkpoint, corpus, means)


def measure_scores(
    task: MeasureTask, advance: Callable[[int], object]
) -> Iterator[tuple[Checkpoint, CorpusSummary, MeasureSums]]:
    """Sum only what explains the scores of heads at the checkpoints of a task, as ``measure``."""
    device = task.placement.torch_device
    for step in task.steps:
        checkpoint = load_checkpoint(task.run, step, task.placement)
        model = checkpoint.model
        sums = MeasureSums(model.description, device)

        def add(
            batch: Sequence[EncodedPair],
            ids: PaddedIds,
            model: Seq2SeqModel = model,
            sums: MeasureSums = sums,
        ) -> None:
            add_scores(sums, model, ids, [sentence.number for sentence in batch])

        corpus = _over_corpus(task, model, add, LeftOutCounts(), advance)
        sums.all_reduce(task.processes)
        yield checkpoint, corpus, sums


def _head_means(
    task: MeasureTask, checkpoint: Checkpoint, corpus: CorpusSummary, means: MeanSums
) -> HeadMeans:
    return HeadMeans(task.run.name, checkpoint.step, checkpoint.sha256, corpus, means.means())


def _stage_measurer(task: MeasureTask, newest: Seq2SeqModel) -> StageMeasurer:
    sentences = islice(sentences_of(task, task.open_corpus(), LeftOutCounts()), _ALIGNED)
    head = find_aligning_head(newest, task.run.tokenizers, sentences, task.links_of)
    return StageMeasurer(
        task.run.tokenizers,
        newest,
        head,
        [sentence.pair for sentence in task.examples.sentences],
        (pair.target for pair in task.open_text().pairs),
    )


def _over_corpus(
    task: MeasureTask,
    model: Seq2SeqModel,
    add: Callable[[Sequence[EncodedPair], PaddedIds], None],
    left_out: LeftOutCounts,
    advance: Callable[[int], object],
) -> CorpusSummary:
    """Add this process's batches to sums and describe the whole corpus that was read."""
    stream = task.open_corpus()
    sentences = tokens = 0
    for number, batch in enumerate(batches_by_length(sentences_of(task, stream, left_out))):
        if task.processes.has(number):
            add(batch, PaddedIds.of_pairs(batch, model))
        sentences += len(batch)
        tokens += sum(len(sentence.target) - 1 for sentence in batch)
        advance(len(batch))
    return CorpusSummary(stream.name, stream.sha256, sentences, tokens)
