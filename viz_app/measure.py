"""Measure the heads of a run over a corpus: python -m viz_app.measure --help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import tyro
from tqdm import tqdm

from model.checkpoint import CHECKPOINTS, CheckpointError, Run, open_run
from model.corpora import COPY, HUB_CORPORA, CorpusStream, stream_corpus
from model.data import DataError
from model.processes import LostProcessError, Processes, joined
from viz_app.alignments import alignments_path, read_alignments
from viz_app.measure_files import write_measures
from viz_app.measuring.batches import LeftOut
from viz_app.measuring.checkpoints import Examples, Task, measure, read_examples
from viz_app.measuring.words import LinksOf, from_file, identity

SENTENCES = Path(__file__).parent / "sentences"
"""Example sentences by languages, such as en-es.jsonl."""
_FIRST = 200
"""Sentences of the corpus that are examples where there is no file of them."""
_ROUGH = 256
"""Below so many sentences the figures are said to be rough."""


@dataclass(frozen=True)
class Arguments:
    """Measure what the heads of a run do over a corpus, and write it into the run's folder.

    Measured are the first sentences of the corpus with distinct sources; their translations there
    are forced on the model. For each checkpoint checkpoints/RUN/measures/ gets a file, in place of
    any that was there; the app shows it at once. Heads are also switched off one by one, which is
    most of the work.

    With several processes (torchrun --nproc-per-node N -m -- viz_app.measure --run …) each takes a
    part of the sentences; every node needs the run and the data.
    """

    run: str
    """Name of the run."""
    data: str | None = None
    """A .jsonl, .tsv, .csv or .parquet file, or a corpus by name: opus_books, multi30k or copy.
    Without it, the run's validation corpus, if that is known by name."""
    sentences: int = 512
    """How many sentences of the corpus."""
    steps: tuple[int, ...] = ()
    """Checkpoints to measure; without it, all."""
    examples: Path | None = None
    """Example sentences, an object with "source" and "reference" a line; without it, those that the
    program has for the run's languages, or else the first 200 of the corpus."""
    split: str = "validation"
    """Split of a corpus by name."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def _corpus(arguments: Arguments, run: Run) -> Callable[[], CorpusStream]:
    name = arguments.data
    if name is None:
        data = run.info.data
        name = data.valid_file
        if not _is_known_by_name(name):
            raise ValueError(
                f"expected --data with a corpus to measure on, such as the one that {run.info.name}"
                f" was validated with: {data.name}, file {name}"
            )
    return partial(
        stream_corpus,
        name,
        source=run.info.source_language,
        target=run.info.target_language,
        split=arguments.split,
        columns=arguments.columns,
    )


def _is_known_by_name(name: str) -> bool:
    return name.partition(":")[0] in (COPY, *HUB_CORPORA)


def _examples(arguments: Arguments, run: Run, corpus: Callable[[], CorpusStream]) -> Examples:
    languages = f"{run.info.source_language}-{run.info.target_language}"
    path = arguments.examples or SENTENCES / f"{languages}.jsonl"
    if arguments.examples is None and not path.exists():
        return read_examples(run, corpus(), _FIRST)
    return read_examples(run, stream_corpus(str(path), source="source", target="reference"))


def _alignments(run: Run, corpus: CorpusStream) -> tuple[LinksOf | None, str]:
    """Reference alignments of the corpus, and what to say of them."""
    if corpus.name.partition(":")[0] == COPY:
        return identity(run.tokenizers), "alignments: each symbol with itself"
    without = "alignment error rates are left out"
    alignments = read_alignments(run.folder)
    if alignments is None:
        return None, f"no {alignments_path(run.folder)}: {without}; benchmarks/align.py makes it"
    if alignments.sha256 != corpus.sha256:
        return None, (
            f"{alignments_path(run.folder)} is of another corpus, {alignments.corpus} with sha256 "
            f"{alignments.sha256[:12]}…, not {corpus.sha256[:12]}…: {without}"
        )
    return from_file(alignments), f"alignments: {alignments.aligner}"


def _steps(wanted: tuple[int, ...], there: list[int]) -> list[int]:
    if missing := sorted(set(wanted) - set(there)):
        raise ValueError(
            f"steps: there are no weights of {', '.join(f'{s:,}' for s in missing)}; there are "
            f"those of {', '.join(f'{s:,}' for s in there)}"
        )
    return sorted(set(wanted)) or there


def main(arguments: Arguments) -> None:
    """Measure as the arguments say."""
    if arguments.sentences < 1:
        raise ValueError(f"sentences: expected at least 1, got {arguments.sentences}")
    with joined() as processes:
        _measure(arguments, processes)


def _measure(arguments: Arguments, processes: Processes) -> None:
    run = open_run(arguments.run, root=arguments.checkpoints)
    steps = _steps(arguments.steps, run.steps())
    open_corpus = _corpus(arguments, run)
    examples = _examples(arguments, run, open_corpus)
    links_of, about_alignments = _alignments(run, open_corpus())
    device = (
        torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else "cpu"
    )
    task = Task(
        run=run,
        steps=steps,
        open_corpus=open_corpus,
        sentences=arguments.sentences,
        examples=examples,
        links_of=links_of,
        processes=processes,
        device=torch.device(device),
    )
    bar = tqdm(
        total=len(steps) * arguments.sentences, unit="sentence", disable=not processes.is_main
    )

    def say(line: str) -> None:
        if processes.is_main:
            tqdm.write(line, file=sys.stderr)

    said: set[str] = set()

    def left_out(counted: LeftOut) -> None:
        line = f"left out of the corpus: {counted}"
        if line not in said:
            said.add(line)
            say(line)

    say(about_alignments)
    say(
        f"examples: {len(examples.sentences):,} sentences of {examples.corpus.name}; left out: "
        f"{examples.left_out}"
    )
    with bar:
        for measures in measure(task, bar.update, left_out):
            count = measures.corpus.sentences
            if processes.is_main:
                write_measures(run.folder, measures)
                bar.update(arguments.sentences - count)  # the corpus may have had fewer
            rough = "; the figures are rough" if count < _ROUGH else ""
            say(f"step {measures.step:,}: {count:,} sentences measured{rough}")


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except (CheckpointError, DataError, LostProcessError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
