"""Convert models between our format and others: python -m headwise.model.convert --help."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headwise.model.checkpoint import CHECKPOINTS, CheckpointError, open_trained_run
from headwise.model.from_torch import FromTorchArguments, convert_from_torch


@dataclass(frozen=True)
class ToTransformersArguments:
    """Save checkpoints of a run as a Marian or Pegasus that Hugging Face transformers loads.

    docs/convert.md says which models can be converted, and how to load them.
    Example: python -m headwise.model.convert to-transformers --run en-es en-es-pegasus
    """

    run: str
    """Name of the run."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder to write; it must be new or empty."""
    step: int | Literal["all"] | None = None
    """Step of the checkpoint, by default the last; all writes a folder checkpoint-STEP for each."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


Arguments = ToTransformersArguments | FromTorchArguments


def main(arguments: Arguments) -> None:
    if isinstance(arguments, FromTorchArguments):
        print(convert_from_torch(arguments))
        return
    from headwise.model.pretrained.to_transformers import save_for_transformers

    run = open_trained_run(arguments.run, root=arguments.checkpoints)
    print(save_for_transformers(run, arguments.out, arguments.step))


if __name__ == "__main__":
    try:
        main(
            tyro.extras.subcommand_cli_from_dict(
                {"to-transformers": ToTransformersArguments, "from-torch": FromTorchArguments},
                prog="python -m headwise.model.convert",
                description=__doc__,
            )
        )
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
