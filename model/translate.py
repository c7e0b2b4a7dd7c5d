"""Translate lines of text: python -m model.translate --help."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import tyro

from model.checkpoint import CHECKPOINTS, Checkpoint, CheckpointError, Run, open_checkpoint
from model.decoding import translate

_LINES_AT_A_TIME = 512


@dataclass(frozen=True)
class Arguments:
    """Translate a file, or standard input, with a checkpoint: one line in, one line out.

    Empty lines stay empty. Example: echo "Good morning!" | python -m model.translate --run en-es
    """

    run: str
    """Name of the run."""
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = "-"
    """Text in UTF-8, a sentence a line; - is standard input."""
    step: int | None = None
    """Checkpoint; without it, the last."""
    batch_size: int = 64
    """Sentences decoded together."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def translate_lines(
    lines: Iterable[str], run: Run, checkpoint: Checkpoint, *, batch_size: int
) -> Iterator[str]:
    """One translation a line, empty for an empty line.

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
        translations = translate(
            checkpoint.model, run.tokenizers, list(full.values()), batch_size=batch_size
        )
        by_number = dict(zip(full, translations, strict=True))
        for number, _ in chunk:
            yield " ".join(by_number.get(number, "").splitlines())


def main(arguments: Arguments) -> None:
    """Translate as the arguments say."""
    if arguments.batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {arguments.batch_size}")
    run, checkpoint = open_checkpoint(arguments.run, arguments.step, arguments.checkpoints)
    handle = 0 if arguments.file == "-" else arguments.file
    with open(handle, encoding="utf-8", closefd=handle != 0) as lines:
        for line in translate_lines(lines, run, checkpoint, batch_size=arguments.batch_size):
            print(line, flush=True)


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except UnicodeDecodeError as error:
        sys.exit(f"error: the text is not UTF-8 ({error})")
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
