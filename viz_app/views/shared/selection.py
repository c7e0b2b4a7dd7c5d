"""The run, checkpoint and sentence that a person has selected, for all pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.figures.theme import Theme, theme_named
from headwise.viz_app.views.caches import Run


@dataclass(frozen=True)
class Selection:
    """A selection has the run, step and sentence that were chosen in the frame, and the theme."""

    run: Run
    step: int
    text: str
    theme: Theme

    def steps(self, most: int = 40) -> list[int]:
        """Return ``most`` checkpoints of the run, spread evenly, and the selected one; or all."""
        return sorted({self.step, *spread(self.run.steps(), most)})


def theme_name() -> Literal["light", "dark"]:
    """Return the name of the theme that the browser shows."""
    return "dark" if st.context.theme.type == "dark" else "light"


def current_theme() -> Theme:
    """Return the theme that the browser shows."""
    return theme_named(theme_name())
