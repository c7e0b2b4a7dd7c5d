"""Translate lines of text: python -m headwise.model.translate --help."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import tyro

from headwise.model.checkpoint import CHECKPOINTS, Checkpoint, CheckpointError
from headwise.model.decoding.translation import (
    GREEDY,
    Decoding,
    decode_in_batches,
    search,
    translate,
)
from headwise.model.interface import DEFAULT_LANGUAGES, Languages
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, open_checkpoint
from headwise.model.validation import LONGEST_TEXT, is_too_long

_LINES_AT_A_TIME = 512


@dataclass(frozen=True)
class TranslateArguments:
    """Translate a file, or standard input, with a checkpoint: one line in, one line out.

    Empty lines stay empty. Example: echo "Good morning!" | python -m headwise.model.translate
    --run en-es. Decoding is greedy without --beam or --temperature.
    """

    run: str
    """Name of the run, folder of a model or of a training, or name on the Hugging Face hub."""
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = "-"
    """Text in UTF-8, a sentence a line; - is standard input."""
    step: int | None = None
    """Step of the checkpoint; by default the last."""
    decoding: Annotated[Decoding, tyro.conf.arg(name="")] = GREEDY
    """Way of decoding."""
    n_best: int = 0
    """Write the n best translations of each line, one a line: line number, score and text,
    separated by tabs; needs a beam of at least n."""
    batch_size: int = 64
    """Number of sentences that are decoded together."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where the model computes, and how precisely."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def _n_best(
    checkpoint: Checkpoint, run: Run, texts: list[str], how: TranslateArguments
) -> list[list[tuple[float, str]]]:
    """Return scores and translations of each text, best first."""
    sources = [run.tokenizers.encode_source(text) for text in texts]
    beams = decode_in_batches(
        sources,
        how.batch_size,
        lambda batch: search(
            checkpoint.model,
            [sources[place] for place in batch],
            how.decoding,
            run.tokenizers.prefix,
        ),
    )
    decode = run.tokenizers.target.decode
    return [
        [(h.score, _on_one_line(decode(h.target))) for h in beam.hypotheses[: how.n_best]]
        for beam in beams
    ]


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())  # whatever a reader takes for the end of a line


def translate_lines(
    lines: Iterable[str], run: Run, checkpoint: Checkpoint, how: TranslateArguments
) -> Iterator[str]:
    """Yield a translation for each line, empty for an empty one; or the ``n_best`` of each."""
    rest = enumerate((line.strip() for line in lines), start=1)
    allowed = checkpoint.model.description.max_length
    while chunk := list(islice(rest, _LINES_AT_A_TIME)):
        full = {number: line for number, line in chunk if line}
        for number, line in full.items():
            if is_too_long(line):
                raise ValueError(
                    f"line {number}: expected at most {LONGEST_TEXT:,} characters, got "
                    f"{len(line):,}; split it"
                )
            tokens = len(run.tokenizers.encode_source(line))
            if tokens > allowed:
                raise ValueError(
                    f"line {number}: expected at most {allowed:,} tokens, got {tokens:,}; split it"
                )
        texts = list(full.values())
        if how.n_best:
            for number, best in zip(full, _n_best(checkpoint, run, texts, how), strict=True):
                yield from (f"{number}\t{score:.4f}\t{text}" for score, text in best)
        else:
            found = translate(
                checkpoint.model,
                run.tokenizers,
                texts,
                batch_size=how.batch_size,
                decoding=how.decoding,
                start=chunk[0][0] - 1,
            )
            by_number = dict(zip(full, map(_on_one_line, found), strict=True))
            yield from (by_number.get(number, "") for number, _ in chunk)


def main(arguments: TranslateArguments) -> None:
    if arguments.batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {arguments.batch_size}")
    if not 0 <= arguments.n_best <= arguments.decoding.beam:
        raise ValueError(
            f"n_best: expected 0 to {arguments.decoding.beam}, the width of the beam, got "
            f"{arguments.n_best}; give a larger beam"
        )
    if arguments.n_best and arguments.decoding.temperature is not None:
        raise ValueError("n_best belongs to a beam; leave --temperature out")
    run, checkpoint = open_checkpoint(
        arguments.run,
        arguments.step,
        arguments.checkpoints,
        arguments.placement,
        arguments.languages,
    )
    handle = 0 if arguments.file == "-" else arguments.file
    # Only a line feed ends a line, as in a corpus.
    with open(handle, encoding="utf-8-sig", newline="\n", closefd=handle != 0) as lines:
        for line in translate_lines(lines, run, checkpoint, arguments):
            print(line, flush=True)


if __name__ == "__main__":
    try:
        main(tyro.cli(TranslateArguments, prog="python -m headwise.model.translate"))
    except UnicodeDecodeError as error:
        sys.exit(f"error: the text is not UTF-8 ({error})")
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
