"""Measure a run's heads over a corpus, or its accuracy on contrastive pairs.

python -m headwise.viz_app.measure --help has the options.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from tqdm import tqdm

from headwise.model.checkpoint import CHECKPOINTS, CheckpointError
from headwise.model.interface import DEFAULT_LANGUAGES, Languages
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, choose_languages, open_run, require_languages
from headwise.model.training.corpora import COPY, HUB_CORPORA, CorpusStream, stream_corpus
from headwise.model.training.data import DataError
from headwise.model.training.processes import ALONE, LostProcessError, Processes, join_processes
from headwise.viz_app.analysis.labels import count_of
from headwise.viz_app.core.batches import LeftOutCounts
from headwise.viz_app.measuring import checkpoints
from headwise.viz_app.measuring.alignments import alignments_path, read_alignments
from headwise.viz_app.measuring.corpus import open_corpus
from headwise.viz_app.measuring.files import read_measures, write_measures
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION, RESAMPLED, SCORE_MEASURES
from headwise.viz_app.measuring.heads import RowMeasure
from headwise.viz_app.measuring.neurons import measure_neurons
from headwise.viz_app.measuring.pair_files import SENTENCES, shipped_pairs, write_pairs
from headwise.viz_app.measuring.pairs import PairTask, measure_pairs, read_pairs
from headwise.viz_app.measuring.tensor_files import write_neurons
from headwise.viz_app.measuring.words import LinksLookup, identity_links, links_from_file
from headwise.viz_app.records.measures import Measures, OwnMeasure, StrongestSentences

Found = TypeVar("Found")
SHIPPED = "shipped"  # for the program's contrastive pairs of the run's languages
_FIRST = 200  # number of sentences of the corpus that are examples if there is no file of examples
_ROUGH = 256  # fewer sentences than these give rough figures, and a message says so


@dataclass(frozen=True)
class MeasureArguments:
    """Measure what the heads of a run do over a corpus, and write it into the run's folder.

    The first sentences of the corpus with distinct sources are measured, with their translations in
    the corpus forced on the model. Each checkpoint gets a file in checkpoints/RUN/measures/, which
    replaces an earlier one; the app shows it at once. Heads are also switched off one by one, which
    takes most of the time. Beside it are a file with the mean output of each head, which can stand
    in place of its output when heads are ranked (Translate, Switch heads off, rank them), one with
    what switching off each head costs each sentence, and one with what the other measures are on
    resamples of the sentences.

    With --pairs, each checkpoint is asked which of two given translations it finds likelier, and
    the last one also without each head; without --data, nothing else is measured then.

    With several processes (torchrun --nproc-per-node N -m -- headwise.viz_app.measure --run …) each
    measures a part of the sentences; every node needs the run and the data.
    """

    run: str
    """Name of the run, folder of a model or of a training, or name on the Hugging Face hub."""
    data: str | None = None
    """A .jsonl, .tsv, .csv or .parquet file, or a corpus by name: opus_books, multi30k or copy.
    Without it, the run's validation corpus, if that is known by name."""
    text: str | None = None
    """A corpus like that of --data, from whose target side a language model learns how likely the
    translations are; without it, that of --data. At most a million tokens are read."""
    sentences: int = 512
    """How many sentences of the corpus."""
    steps: tuple[int, ...] = ()
    """Checkpoints to measure; without it, all."""
    neurons: Literal["newest", "all"] = "newest"
    """Of which of these checkpoints it is stored in which sentences each neuron of a feed-forward
    is strongest: about 0.1 MB for each."""
    only: Literal["all", "means", "resamples", "neurons", "scores", "mean-ablation"] = "all"
    """What is measured over the corpus: all, or only the mean outputs of heads, or the resamples
    that differences of heads and checkpoints are judged by, or the sentences of neurons, or what
    explains the scores of heads, in a fraction of the time; what was measured before stays. What
    the mean in place of each head costs is none of all, and takes nearly as long."""
    pairs: str | None = None
    """Contrastive pairs: a .jsonl, .tsv, .csv or .parquet file with the columns source, right,
    wrong and phenomenon; or "shipped" for those that the program has for the run's languages."""
    examples: Path | None = None
    """Example sentences, an object with "source" and "reference" a line; without it, those that the
    program has for the run's languages, or else the first 200 of the corpus."""
    split: str = "validation"
    """Split of a corpus by name."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where the model computes, and how precisely."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def _data_name(arguments: MeasureArguments, run: Run) -> str:
    """Return the corpus to measure on: the one that was asked for, or the run's validation data."""
    if arguments.data is not None:
        return arguments.data
    if run.data is None:
        raise ValueError(
            f"expected --data with a corpus to measure on: {run.name} does not say what it was "
            "validated with"
        )
    data = run.data
    if data.held_back:
        return str(run.folder / data.valid_file)
    if data.valid_file.partition(":")[0] not in (COPY, *HUB_CORPORA):
        raise ValueError(
            f"expected --data with a corpus to measure on, such as the one that {run.name}"
            f" was validated with: {data.name}, file {data.valid_file}"
        )
    return data.valid_file


def _alignments(
    arguments: MeasureArguments, run: Run, corpus: CorpusStream
) -> tuple[LinksLookup | None, str]:
    """Return a lookup of reference alignments, if there are any, and a message about them."""
    if corpus.name.partition(":")[0] == COPY:
        return identity_links(run.tokenizers), "alignments: each symbol with itself"
    without = "alignment error rates are left out"
    alignments = read_alignments(run.folder)
    if alignments is None:
        message = f"no {alignments_path(run.folder)}: {without}"
        if run.config is None:  # aligned are the words of our own tokenizers
            return None, message
        command = ["python", "-m", "headwise.viz_app.measuring.align", "--run", run.name]
        command += ["--data", _data_name(arguments, run)]
        if arguments.split != MeasureArguments.split:
            command += ["--split", arguments.split]
        if arguments.columns is not None:
            command += ["--columns", *arguments.columns]
        if run.folder.parent.resolve() != CHECKPOINTS:
            command += ["--checkpoints", str(run.folder.parent)]
        return None, f"{message}; {shlex.join(command)} makes it"
    if alignments.sha256 != corpus.sha256:
        return None, (
            f"{alignments_path(run.folder)} is of another corpus, {alignments.corpus} with sha256 "
            f"{alignments.sha256[:12]}…, not {corpus.sha256[:12]}…: {without}"
        )
    return links_from_file(alignments), f"alignments: {alignments.aligner}"


def _steps(wanted: tuple[int, ...], there: list[int]) -> list[int]:
    if missing := sorted(set(wanted) - set(there)):
        raise ValueError(
            f"steps: there are no weights of {', '.join(f'{s:,}' for s in missing)}; there are "
            f"those of {', '.join(f'{s:,}' for s in there)}"
        )
    return sorted(set(wanted)) or there


def main(arguments: MeasureArguments) -> None:
    if arguments.sentences < 1:
        raise ValueError(f"sentences: expected at least 1, got {arguments.sentences}")
    device = arguments.placement.torch_device
    with join_processes(on_cpu=device.type == "cpu") as processes:
        run = open_run(arguments.run, root=arguments.checkpoints)
        for _ in measure_run(choose_languages(run, arguments.languages), arguments, processes):
            pass


def measure_run(
    run: Run,
    arguments: MeasureArguments,
    processes: Processes = ALONE,
    *,
    own: Mapping[str, RowMeasure] | None = None,
    about_own: Mapping[str, OwnMeasure] | None = None,
) -> Iterator[Measures]:
    """Measure the checkpoints of a run, write the file of each, and yield what it has.

    ``own`` has measures besides ours, ``about_own`` what each is; they are in the files too.
    """
    steps = _steps(arguments.steps, run.steps())
    pair_task = _pair_task(arguments, run, steps, processes) if arguments.pairs else None
    with_heads = arguments.data is not None or pair_task is None
    task = _task(arguments, run, steps, processes) if with_heads else None
    if pair_task is not None:
        _measure_pairs(pair_task)
    if task is None:
        return
    left_out = LeftOutCounts()
    sentences = sum(1 for _ in checkpoints.sentences_of(task, task.open_corpus(), left_out))
    _say(processes, f"left out of the corpus: {left_out}")
    if arguments.only == "all":
        every = replace(task, own=own or {}, about_own=about_own or {})
        passed = checkpoints.sentences_passed(steps, sentences, len(task.examples.sentences))
        for measures, _ in _measure_each(every, passed, checkpoints.measure, _write_all):
            yield measures
    passed, sums = len(steps) * sentences, checkpoints.sum_checkpoints
    last = replace(task, steps=steps if arguments.neurons == "all" else steps[-1:])
    outputs, resampled = (partial(sums, wanted=names) for names in ([checkpoints.MEANS], RESAMPLED))
    scores, ablated = (partial(_with_more, names=n) for n in (SCORE_MEASURES, [MEAN_ABLATION]))
    means = _measure_each(task, passed, outputs, _write_means)
    resamples = _measure_each(task, passed, resampled, _write_resamples)
    with_scores = _measure_each(task, passed, scores, _write_more)
    with_ablation = _measure_each(task, 2 * passed, ablated, _write_more)
    neurons = _measure_each(last, len(last.steps) * sentences, measure_neurons, _write_neurons)
    alone: dict[str, Iterator[object]] = {"means": means, "resamples": resamples}
    alone |= {"scores": with_scores, "mean-ablation": with_ablation}
    for _ in alone.get(arguments.only, neurons):
        pass


def _say(processes: Processes, line: str) -> None:
    if processes.is_main:
        tqdm.write(line, file=sys.stderr)


def _pair_task(
    arguments: MeasureArguments, run: Run, steps: list[int], processes: Processes
) -> PairTask:
    if arguments.pairs == SHIPPED:
        path = shipped_pairs(run.source_language, run.target_language)
        if path is None:
            raise ValueError(
                f"--pairs: the program has none for {run.source_language or 'an unknown language'}"
                f" to {run.target_language or 'an unknown language'}; name a file"
            )
    else:
        path = Path(arguments.pairs or "")
    return PairTask(run, steps, path.name, read_pairs(path), processes, arguments.placement)


def _measure_pairs(task: PairTask) -> None:
    processes = task.processes
    with tqdm(total=task.passes, unit="target", disable=not processes.is_main) as bar:
        for measured in measure_pairs(task, bar.update):
            if processes.is_main:
                write_pairs(task.run.folder, measured, task.run.steps())
            [scores] = measured.checkpoints.values()
            share = float(scores.outcomes.mean())
            line = f"step {scores.step:,}: right in {share:.1%} of {len(task.pairs):,} pairs"
            _say(processes, line)


def _task(
    arguments: MeasureArguments, run: Run, steps: list[int], processes: Processes
) -> checkpoints.MeasureTask:
    require_languages(run, arguments.columns)
    opened = partial(open_corpus, run, split=arguments.split, columns=arguments.columns)
    opens = partial(opened, _data_name(arguments, run))
    path = arguments.examples or SENTENCES / f"{run.source_language}-{run.target_language}.jsonl"
    if arguments.examples is not None or path.exists():
        stream = stream_corpus(str(path), source="source", target="reference")
        examples = checkpoints.read_examples(run, stream)
    else:
        examples = checkpoints.read_examples(run, opens(), _FIRST)
    links_of = None
    if arguments.only in ("all", "resamples"):
        links_of, about_alignments = _alignments(arguments, run, opens())
        _say(processes, about_alignments)
        _say(
            processes,
            f"examples: {len(examples.sentences):,} sentences of {examples.corpus.name}; left out: "
            f"{examples.left_out}",
        )
    return checkpoints.MeasureTask(
        run=run,
        steps=steps,
        open_corpus=opens,
        open_text=partial(opened, arguments.text) if arguments.text else None,
        sentences=arguments.sentences,
        examples=examples,
        links_of=links_of,
        processes=processes,
        placement=arguments.placement,
    )


def _measure_each(
    task: checkpoints.MeasureTask,
    passed: int,
    measured: Callable[[checkpoints.MeasureTask], Iterator[Found | int]],
    write: Callable[[Path, Found], str],
) -> Iterator[Found]:
    """Measure the checkpoints of a task one after another, and write each into the run's folder.

    ``passed`` is how many sentences ``measured`` says are done at its end. ``write`` returns what
    is said of what was found; only one of several processes calls it.
    """
    is_main = task.processes.is_main
    with tqdm(total=passed, unit="sentence", disable=not is_main) as bar:
        for found in measured(task):
            if isinstance(found, int):
                bar.update(found)
                continue
            if is_main:
                _say(task.processes, write(task.run.folder, found))
            yield found


def _write_all(folder: Path, found: tuple[Measures, checkpoints.CheckpointSums]) -> str:
    measures, sums = found
    write_measures(folder, measures)
    _write_means(folder, sums)
    _write_resamples(folder, sums)
    sums.costs().write(folder)
    count = measures.corpus.sentences
    rough = "; the figures are rough" if count < _ROUGH else ""
    return f"step {measures.step:,}: {count_of(count, 'sentence')} measured{rough}"


def _write_means(folder: Path, found: checkpoints.CheckpointSums) -> str:
    found.means().write(folder)
    return f"step {found.step:,}: means of heads, {found.corpus.sentences:,} sentences"


def _write_resamples(folder: Path, found: checkpoints.CheckpointSums) -> str:
    found.resamples().write(folder)
    return f"step {found.step:,}: resamples of {found.corpus.sentences:,} sentences"


def _with_more(task: checkpoints.MeasureTask, names: Sequence[str]) -> Iterator[Measures | int]:
    """Put some measures into the files that there are.

    ValueError if a checkpoint was measured on other sentences.
    """
    for found in checkpoints.sum_checkpoints(task, wanted=names):
        if isinstance(found, int):
            yield found
            continue
        there, corpus = read_measures(task.run.folder, found.step), found.corpus
        if (there.sha256, there.corpus) != (found.checkpoint.sha256, corpus):
            raise ValueError(
                f"--only: step {found.step:,} was measured on "
                f"{there.corpus.sentences:,} sentences of {there.corpus.name}, and its weights "
                f"then; expected the same now, got {corpus.sentences:,} sentences of "
                f"{corpus.name}: measure all again"
            )
        values, errors = found.heads.values(), found.heads.errors()
        yield replace(
            there,
            values={**there.values, **{name: values[name] for name in names}},
            errors={**there.errors, **{name: errors[name] for name in names}},
        )


def _write_more(folder: Path, found: Measures) -> str:
    write_measures(folder, found)
    return f"step {found.step:,}: added to what was measured, {found.corpus.sentences:,} sentences"


def _write_neurons(folder: Path, found: StrongestSentences) -> str:
    write_neurons(folder, found)
    return f"step {found.step:,}: strongest of {found.corpus.sentences:,} sentences, by neuron"


if __name__ == "__main__":
    try:
        main(tyro.cli(MeasureArguments, prog="python -m headwise.viz_app.measure"))
    except (CheckpointError, DataError, LostProcessError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
