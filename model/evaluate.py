"""Measure checkpoints on a corpus: python -m model.evaluate --help."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import tyro

from model.checkpoint import CHECKPOINTS, CheckpointError, load_weights, open_run
from model.corpora import DataError, load_corpus
from model.evaluation import evaluate


@dataclass(frozen=True)
class Arguments:
    """Measure checkpoints: one line of JSON each, with loss, perplexity, BLEU and chrF.

    Lines of the data with the same source are references of one sentence, which is translated once.
    Loss is in nats per target piece, without label smoothing; BLEU and chrF are sacrebleu's, cased
    and detokenised, decoding greedily; their signatures are printed with them.
    """

    run: str
    """Name of the run."""
    data: str
    """A .jsonl file, or a corpus of the Hugging Face hub: opus_books or multi30k."""
    step: str = "last"
    """A checkpoint's step, "last", or "all"."""
    split: str = "test"
    """Split of a corpus from the hub."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def _steps(wanted: str, there: list[int]) -> list[int]:
    if wanted == "all":
        return there
    if wanted == "last":
        return there[-1:]
    if not wanted.isdecimal():
        raise ValueError(f"step: expected a number, last or all, got {wanted!r}")
    return [int(wanted)]


def main(arguments: Arguments) -> None:
    """Evaluate as the arguments say."""
    run = open_run(arguments.run, root=arguments.checkpoints)
    steps = _steps(arguments.step, run.steps())
    corpus = load_corpus(
        arguments.data,
        source=run.info.source_language,
        target=run.info.target_language,
        split=arguments.split,
    )
    for step in steps:
        checkpoint = load_weights(run, step)
        figures = evaluate(checkpoint.model, run.tokenizers, corpus.pairs)
        row = {
            "run": run.info.name,
            "step": step,
            "sha256": checkpoint.sha256,
            "data": corpus.name,
            **vars(figures),
        }
        print(orjson.dumps(row).decode(), flush=True)


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except (CheckpointError, DataError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
