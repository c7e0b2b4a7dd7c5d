"""Measure checkpoints on a corpus: python -m model.evaluate --help."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import tyro

from model.checkpoint import CHECKPOINTS, CheckpointError, load_weights, open_run
from model.corpora import load_corpus
from model.data import DataError
from model.decoding import GREEDY, Decoding
from model.evaluation import evaluate


@dataclass(frozen=True)
class Arguments:
    """Measure checkpoints: one line of JSON each, with loss, perplexity, BLEU and chrF.

    Lines of the data with the same source are references of one sentence, which is translated once.
    Loss is in nats per target piece, without label smoothing; BLEU and chrF are sacrebleu's, cased
    and detokenised; their signatures are printed with them. Decoding is greedy unless --beam or
    --temperature ask for something else. Models of whole words say everything in lower
    case, which costs them BLEU. Runs on the CPU.
    """

    run: str
    """Name of the run."""
    data: str
    """A .jsonl, .tsv, .csv or .parquet file, or a corpus by name: opus_books, multi30k or copy."""
    step: str = "last"
    """A checkpoint's step, "last", or "all"."""
    split: str = "test"
    """Split of a corpus by name."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""
    decoding: Annotated[Decoding, tyro.conf.arg(name="")] = GREEDY
    """Way of decoding."""
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
        columns=arguments.columns,
    )
    for step in steps:
        checkpoint = load_weights(run, step)
        figures = evaluate(checkpoint.model, run.tokenizers, corpus.pairs, arguments.decoding)
        row = {
            "run": run.info.name,
            "step": step,
            "sha256": checkpoint.sha256,
            "data": corpus.name,
            "decoding": vars(arguments.decoding),
            **vars(figures),
        }
        print(orjson.dumps(row).decode(), flush=True)


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except (CheckpointError, DataError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
