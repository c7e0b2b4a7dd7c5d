"""The page Architecture: the whole model on one sentence, module by module.

Its choices are declared here; ``page.py`` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ArchitectureChoices:
    """The choices of the page Architecture."""

    unfold: Literal["stacks", "layers", "everything"] = "stacks"
