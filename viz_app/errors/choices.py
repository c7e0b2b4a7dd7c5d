"""What a person chooses on the page Errors: what a run translates badly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.viz_app.session.choices import choice


@dataclass(frozen=True)
class ErrorsChoices:
    """The choices of the page Errors."""

    errors: Literal["failing sentences", "pairs"] = choice("failing sentences", opens=True)
    """The section."""
    failure: str | None = choice(None, where={"errors": "failing sentences"})
    """The sign by which sentences are listed."""
    phenomenon: str = choice("", of="run", where={"errors": "pairs"})
    """The phenomenon whose failing pairs are listed; empty for all."""
