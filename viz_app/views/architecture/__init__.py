"""What a person chooses on the page Architecture: the whole model on one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.viz_app.views.choices import choice


@dataclass(frozen=True)
class ArchitectureChoices:
    """The choices of the page Architecture."""

    unfold: Literal["stacks", "layers", "everything"] = "stacks"
    layers_by_step: bool = choice(False, of="run")
    """Whether the table of translations from encoder layers is drawn for all checkpoints."""
