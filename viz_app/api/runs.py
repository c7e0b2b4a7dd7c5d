"""Runs as a person opens them from Python, and models in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from headwise.model.checkpoint import CHECKPOINTS
from headwise.model.interface import DEFAULT_LANGUAGES, Description, Languages, Tokenizers
from headwise.model.memory import wrap_model
from headwise.model.placement import Device, Dtype, Placement
from headwise.model.runs import Run, choose_languages, load_checkpoint, open_run
from headwise.viz_app.api.opened import OpenedCheckpoint


@dataclass(frozen=True, repr=False)
class OpenedRun(Sequence[OpenedCheckpoint]):
    """A run is a sequence of its checkpoints, which are loaded when they are asked for.

    ``run[-1]`` is the last, ``run.at(500)`` that of step 500, and ``for checkpoint in run`` loads
    one after another.
    """

    opened: Run
    placement: Placement = field(default_factory=Placement)

    def __repr__(self) -> str:
        steps = self.steps
        several = f"{len(steps)} checkpoints, steps {steps[0]:,} to {steps[-1]:,}"
        return f"<run {self.name}: {several if len(steps) > 1 else f'step {steps[0]:,}'}>"

    @property
    def name(self) -> str:
        """Return the name under which it is listed."""
        return self.opened.name

    @property
    def folder(self) -> Path:
        """Return the folder of its files."""
        return self.opened.folder

    @property
    def steps(self) -> list[int]:
        """Return the steps that have weights, in order."""
        return self.opened.steps()

    @property
    def remarks(self) -> Sequence[str]:
        """Return sentences on steps that folders' names do not say, and on what is not opened."""
        return self.opened.remarks

    @property
    def tokenizers(self) -> Tokenizers:
        """Return the vocabularies of source and target."""
        return self.opened.tokenizers

    @property
    def description(self) -> Description:
        """Return the properties of the model."""
        return self.opened.description

    def at(self, step: int) -> OpenedCheckpoint:
        """Load the checkpoint of a step.

        CheckpointError if there is none, or its file is damaged.
        """
        loaded = load_checkpoint(self.opened, step, self.placement)
        return OpenedCheckpoint(loaded.model, self.opened)

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, place: int) -> OpenedCheckpoint: ...
    @overload
    def __getitem__(self, place: slice) -> list[OpenedCheckpoint]: ...
    def __getitem__(self, place: int | slice) -> OpenedCheckpoint | list[OpenedCheckpoint]:
        """Load the checkpoint at a place in the order of steps, or those of a slice of places."""
        if isinstance(place, slice):
            return [self.at(step) for step in self.steps[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(
                f"expected one of the {len(self):,} checkpoints of {self.name}, from 0, got {place}"
            )
        return self.at(self.steps[place])

    def __iter__(self) -> Iterator[OpenedCheckpoint]:
        return map(self.at, self.steps)


def open(
    name: str | Path,
    *,
    root: Path | str = CHECKPOINTS,
    device: Device = "auto",
    dtype: Dtype = "float32",
    source_language: str | None = None,
    target_language: str | None = None,
    prefix: str | None = None,
) -> OpenedRun:
    """Open a run by its name, the path of a folder, or a name on the Hugging Face hub.

    CheckpointError if there is no such run, or its files cannot be used. ValueError if the model
    does not know the language or prefix.

    Args:
        name: which run.
        root: the folder of runs in which a name is looked up.
        device: where models compute; auto takes a GPU if there is one.
        dtype: the type of the weights.
        source_language, target_language, prefix: a choice, of a model that knows several.
    """
    languages = Languages(source_language, target_language, prefix)
    opened = choose_languages(open_run(str(name), root=Path(root)), languages)
    return OpenedRun(opened, Placement(device, dtype))


def wrap(
    model: Any,
    tokenizer: Any,
    *,
    name: str = "in memory",
    step: int = 0,
    languages: Languages = DEFAULT_LANGUAGES,
    target_tokenizer: Any = None,
) -> OpenedCheckpoint:
    """Take a model that is in memory, such as one's own in a training: a copy of it as it is now.

    The model itself is left as it is: its mode, gradients, hooks and attention. ``wrap_model`` in
    ``model/memory.py`` has the arguments and errors.
    """
    run = wrap_model(
        model,
        tokenizer,
        name=name,
        step=step,
        languages=languages,
        target_tokenizer=target_tokenizer,
    )
    return OpenedCheckpoint(run.checkpoint.model, run)
