"""What a person chooses on the page Inside a head, where one query is followed through a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.viz_app.session.choices import choice

_SCORES, _PARTS = {"inside": "scores"}, {"inside": "score parts"}


@dataclass(frozen=True)
class InsideChoices:
    """The choices of the page Inside a head: places in the target or source, counted from 0."""

    inside: Literal[
        "projections", "scores", "values", "heads", "residual", "feed forward", "score parts"
    ] = choice("projections", opens=True)
    """The step that is open."""
    query: int | None = choice(None, of="at", sets="head")
    """At first the step of decoding that was chosen on another page."""
    key: int | None = choice(None, of="target head", where=_SCORES)
    against: Literal["nothing", "mean key"] = choice("nothing", where=_PARTS)
    """What is taken off the score that is taken apart."""
    query_layer: int = choice(0, of="run head", where=_PARTS)
    """The layer that is unfolded into its heads on the side of the query, from 1; 0 for none."""
    key_layer: int = choice(0, of="run head", where=_PARTS)
    """The same on the side of the key."""
