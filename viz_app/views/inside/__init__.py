"""What a person chooses on the page Inside a head, where one query is followed through a layer."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.viz_app.views.choices import choice


@dataclass(frozen=True)
class InsideChoices:
    """The choices of the page Inside a head: places in the target or source, counted from 0."""

    query: int | None = choice(None, of="at", sets="head")
    """At first the step of decoding that was chosen on another page."""
    key: int | None = choice(None, of="target head")
