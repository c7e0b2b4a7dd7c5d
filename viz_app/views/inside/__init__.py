"""What a person chooses on the page Inside a head, where one query is followed through a layer."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.viz_app.views.choices import choice


@dataclass(frozen=True)
class InsideChoices:
    """The choices of the page Inside a head: places in the target or source, counted from 0."""

    query: int = choice(0, of="target", sets="head")
    key: int | None = choice(None, of="target head")
