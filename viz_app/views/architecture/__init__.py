"""What a person chooses on the page Architecture: the whole model on one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ArchitectureChoices:
    """The choices of the page Architecture."""

    unfold: Literal["stacks", "layers", "everything"] = "stacks"
