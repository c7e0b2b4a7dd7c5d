"""What a person chooses on the page Why: what each part brought to a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.views.choices import choice


@dataclass(frozen=True)
class WhyChoices:
    """The choices of the page Why; layers and neurons are counted from 1."""

    why: Literal["this word", "two sentences", "turn heads"] = "this word"
    """The section."""
    account: Literal["bars", "waterfall"] = "bars"
    smallest: FiniteFloat = choice(0.1, where={"account": "bars"})
    """Least magnitude of a part that has a bar of its own."""
    whole: bool = False
    """Whether the whole effects are computed and drawn beside the direct ones."""
    through: bool = False
    """Whether the account is drawn at every checkpoint."""
    feed_forward: int | None = choice(None, of="run")
    """The feed-forward whose neurons are drawn, by its layer."""
    neuron: int | None = choice(None, of="at step feed_forward")
    """The neuron that is described."""
