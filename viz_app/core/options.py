"""What command lines share: which checkpoint is opened, what is traced with it, how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from headwise.model.checkpoint import CHECKPOINTS, Checkpoint, CheckpointError
from headwise.model.interface import DEFAULT_LANGUAGES, Languages
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, open_checkpoint
from headwise.model.training.data import DataError
from headwise.model.turned import Turned, parse_pinned, parse_turned
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace

Arguments = TypeVar("Arguments")


def run_command(
    main: Callable[[Arguments], object], arguments: type[Arguments], module: str
) -> None:
    """Run a command with the shell's arguments; what a person can cause ends it with a line."""
    try:
        main(tyro.cli(arguments, prog=f"python -m headwise.viz_app.{module}"))
    except (CheckpointError, DataError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """A checkpoint of a run, and where it computes."""

    run: str
    """Name of the run, folder of a model or of a training, or name on the Hugging Face hub."""
    step: int | None = None
    """Checkpoint; without it, the last."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where the model computes, and how precisely."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""

    def open(self) -> tuple[Run, Checkpoint]:
        """Open the run and load the checkpoint.

        CheckpointError, ValueError if one of them cannot be used.
        """
        return open_checkpoint(
            self.run, self.step, self.checkpoints, self.placement, self.languages
        )


@dataclass(frozen=True, kw_only=True)
class SentenceOptions(CheckpointOptions):
    """A sentence, and how a checkpoint is to translate it."""

    text: str
    """The sentence to translate."""
    target: str | None = None
    """A translation to force; without it, the model's own."""
    turn: tuple[str, ...] = ()
    """Heads with their strengths, such as cross.2.4:1.5; a head alone, cross.2.4, is off."""
    pin: tuple[str, ...] = ()
    """Rows of attention weights that are set, such as cross.2.4:3:5, the third row of the head onto
    the fifth key; cross.2.4:3:mean onto all keys alike."""

    def trace(self, run: Run, checkpoint: Checkpoint) -> Trace:
        """Trace the sentence with the checkpoint that was opened.

        ValueError if a text is empty or too long, or what is turned is not there.
        """
        turned = Turned(tuple(map(parse_turned, self.turn)), tuple(map(parse_pinned, self.pin)))
        return run_trace(checkpoint.model, run.tokenizers, self.text, self.target, turned=turned)
