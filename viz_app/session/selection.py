"""The run, checkpoint and sentence that a person has selected, for all pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.figures.theme import Theme, theme_named
from headwise.viz_app.session.caches import Run

MOST_STEPS = 60
"""Most checkpoints that are drawn beside each other: with more, columns are too narrow to read, and
take long to compute and to fetch."""


@dataclass(frozen=True)
class Selection:
    """A selection has the run, step and sentence that were chosen in the frame, and the theme."""

    run: Run
    step: int
    text: str
    theme: Theme

    def steps(self, most: int | None = None, *, among: Sequence[int] = ()) -> list[int]:
        """Return the checkpoints of the run, or of a long one at most so many, or ``MOST_STEPS``.

        These are the first, the last, the selected one, and others that are spread evenly over all
        of the run or those ``among`` which they are chosen.
        """
        every, most = self.run.steps(), most or MOST_STEPS
        if len(every) <= most:
            return every
        kept = {every[0], every[-1], self.step}
        return sorted(kept.union(spread(among, most - 3) if among else spread(every, most - 1)))

    def say_steps(self, steps: Sequence[int]) -> None:
        """Say which of the checkpoints are drawn, where these steps are not all."""
        if len(steps) < len(every := self.run.steps()):
            st.caption(
                f"Shown are {len(steps)} of {len(every):,} checkpoints: the first, the last, the "
                f"one in use, of step {self.step:,}, and others that are spread evenly."
            )


def theme_name() -> Literal["light", "dark"]:
    """Return the name of the theme that the browser shows."""
    return "dark" if st.context.theme.type == "dark" else "light"


def current_theme() -> Theme:
    """Return the theme that the browser shows."""
    return theme_named(theme_name())
