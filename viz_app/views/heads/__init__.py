"""What a person chooses on the page Heads: what each head does over a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.heads.rows.query import WantedKeys
from headwise.viz_app.views.choices import NamedHead, choice


@dataclass(frozen=True)
class HeadsChoices:
    """The choices of the page Heads."""

    heads_kind: Literal["all", "encoder_self", "decoder_self", "cross"] = "all"
    heads_order: Literal["largest first", "smallest first"] = "largest first"
    heads_least: FiniteFloat | None = None
    heads_together: tuple[NamedHead, ...] = choice((), of="run")
    """Heads whose cost together is measured."""
    failure: str | None = None
    dictionary_of: Literal["frequent", "sentence", "typed"] = "frequent"
    """Of which tokens it is asked what a head writes."""
    dictionary_words: str = choice("", of="run", where={"dictionary_of": "typed"})
    """What was typed."""
    alike_in: Literal["nothing", "this checkpoint", "other checkpoints", "other runs"] = "nothing"
    """Where heads are looked for that behave as the chosen one does."""
    found_of: Literal["this head", "any head"] = "this head"
    """Whose rows are looked for."""
    found_least: FiniteFloat = 0.5
    """What a row must have on what is looked for."""
    found_on: WantedKeys | Literal["nothing"] = "nothing"
    found_token: str = choice("", of="run", where={"found_on": "token"})
    found_distance: int = choice(-1, where={"found_on": "distance"})
    plane: Literal["off", "this checkpoint", "through training"] = "off"
    """Whether the head's queries and keys are drawn, and of which checkpoints."""
    plane_colour: Literal["side", "frequency", "position"] = choice(
        "side", where={"plane": "this checkpoint"}
    )
    edge: str | None = choice(None, of="run")
    """Two heads of which one feeds the other, and by what; None for the strongest."""
    edge_training: bool = False
    """Whether that edge is drawn at every checkpoint."""
    dictionary_training: bool = False
    """Whether what the head writes is scored at every checkpoint."""
