"""Translate lines of text: python -m model.translate --help."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import tyro

from model.beam import beam_search
from model.checkpoint import CHECKPOINTS, Checkpoint, CheckpointError, Run, open_checkpoint
from model.decoding import GREEDY, Decoding, in_batches, translate

_LINES_AT_A_TIME = 512


@dataclass(frozen=True)
class Arguments:
    """Translate a file, or standard input, with a checkpoint: one line in, one line out.

    Empty lines stay empty. Example: echo "Good morning!" | python -m model.translate --run en-es
    Greedy decoding, unless --beam or --temperature ask for something else. Runs on the CPU.
    """

    run: str
    """Name of the run."""
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = "-"
    """Text in UTF-8, a sentence a line; - is standard input."""
    step: int | None = None
    """Checkpoint; without it, the last."""
    decoding: Annotated[Decoding, tyro.conf.arg(name="")] = GREEDY
    """Way of decoding."""
    n_best: int = 0
    """Write so many translations of the beam, a line each: number of the line, score and text,
    with tabs between them."""
    batch_size: int = 64
    """Sentences decoded together."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def _one_best(
    checkpoint: Checkpoint, run: Run, texts: list[str], how: Arguments, start: int
) -> list[str]:
    translations = translate(
        checkpoint.model,
        run.tokenizers,
        texts,
        batch_size=how.batch_size,
        decoding=how.decoding,
        start=start,
    )
    return [_on_one_line(translation) for translation in translations]


def _n_best(
    checkpoint: Checkpoint, run: Run, texts: list[str], how: Arguments
) -> list[list[tuple[float, str]]]:
    """Scores and translations of each text, best first."""
    sources = [run.tokenizers.encode_source(text) for text in texts]
    beams = in_batches(
        sources,
        how.batch_size,
        lambda batch: beam_search(
            checkpoint.model,
            [sources[place] for place in batch],
            size=how.decoding.beam,
            alpha=how.decoding.length_penalty,
        ),
    )
    decode = run.tokenizers.target.decode
    return [
        [(h.score, _on_one_line(decode(h.target))) for h in beam.hypotheses[: how.n_best]]
        for beam in beams
    ]


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def translate_lines(
    lines: Iterable[str], run: Run, checkpoint: Checkpoint, how: Arguments
) -> Iterator[str]:
    """One translation a line, empty for an empty line; or ``n_best`` of each that is not.

    Raises:
        ValueError: naming the line that is too long for the model.
    """
    rest = enumerate((line.strip() for line in lines), start=1)
    allowed = checkpoint.model.config.max_length
    while chunk := list(islice(rest, _LINES_AT_A_TIME)):
        full = {number: line for number, line in chunk if line}
        for number, line in full.items():
            pieces = len(run.tokenizers.encode_source(line))
            if pieces > allowed:
                raise ValueError(
                    f"line {number}: expected at most {allowed:,} pieces, got {pieces:,}; split it"
                )
        texts = list(full.values())
        if how.n_best:
            for number, best in zip(full, _n_best(checkpoint, run, texts, how), strict=True):
                yield from (f"{number}\t{score:.4f}\t{text}" for score, text in best)
        else:
            found = _one_best(checkpoint, run, texts, how, start=chunk[0][0] - 1)
            by_number = dict(zip(full, found, strict=True))
            yield from (by_number.get(number, "") for number, _ in chunk)


def main(arguments: Arguments) -> None:
    """Translate as the arguments say."""
    if arguments.batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {arguments.batch_size}")
    if not 0 <= arguments.n_best <= arguments.decoding.beam:
        raise ValueError(
            f"n_best: expected 0 to {arguments.decoding.beam}, the width of the beam, got "
            f"{arguments.n_best}; give a larger beam"
        )
    if arguments.n_best and arguments.decoding.temperature is not None:
        raise ValueError("n_best belongs to a beam; leave --temperature out")
    run, checkpoint = open_checkpoint(arguments.run, arguments.step, arguments.checkpoints)
    handle = 0 if arguments.file == "-" else arguments.file
    with open(handle, encoding="utf-8-sig", closefd=handle != 0) as lines:
        for line in translate_lines(lines, run, checkpoint, arguments):
            print(line, flush=True)


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except UnicodeDecodeError as error:
        sys.exit(f"error: the text is not UTF-8 ({error})")
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
