"""What a person chooses on the page Heads: what each head does over a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.heads.rows.query import WantedKeys
from headwise.viz_app.session.choices import NamedHead, choice

_ATLAS, _WRITES, _FEEDS, _SEARCH, _PLANE, _TOGETHER = (
    {"heads": section}
    for section in ("atlas", "writes", "feeds", "search", "queries and keys", "off together")
)
_FOUND = _SEARCH | {"found_on": "punctuation"}


@dataclass(frozen=True)
class HeadsChoices:
    """The choices of the page Heads."""

    heads: Literal["atlas", "writes", "feeds", "search", "queries and keys", "off together"] = (
        choice("atlas", opens=True)
    )
    """The section."""
    heads_kind: Literal["all", "encoder_self", "decoder_self", "cross"] = choice(
        "all", where=_ATLAS
    )
    heads_order: Literal["largest first", "smallest first"] = choice("largest first", where=_ATLAS)
    heads_least: FiniteFloat | None = choice(None, where=_ATLAS)
    heads_together: tuple[NamedHead, ...] = choice((), of="run", where=_TOGETHER)
    """Heads whose cost together is measured."""
    dictionary_of: Literal["frequent", "sentence", "typed"] = choice("frequent", where=_WRITES)
    """Of which tokens it is asked what a head writes."""
    dictionary_words: str = choice("", of="run", where=_WRITES | {"dictionary_of": "typed"})
    """What was typed."""
    alike_in: Literal["this checkpoint", "other checkpoints", "other runs"] | None = choice(
        None, where=_SEARCH
    )
    """Where heads are looked for that behave as the chosen one does; None until it is asked."""
    found_of: Literal["this head", "any head"] = choice("this head", where=_FOUND)
    """Whose rows are looked for."""
    found_least: FiniteFloat = choice(0.5, where=_FOUND)
    """What a row must have on what is looked for."""
    found_on: WantedKeys | None = choice(None, where=_SEARCH)
    """What rows are looked for; None until it is asked."""
    found_token: str = choice("", of="run", where=_SEARCH | {"found_on": "token"})
    found_distance: int = choice(-1, where=_SEARCH | {"found_on": "distance"})
    plane: Literal["this checkpoint", "through training"] = choice("this checkpoint", where=_PLANE)
    """Of which checkpoints the head's queries and keys are drawn."""
    plane_colour: Literal["side", "frequency", "position"] = choice("side", where=_PLANE)
    edge: str | None = choice(None, of="run", where=_FEEDS)
    """Two heads of which one feeds the other, and by what; None for the strongest."""
    edge_training: bool = choice(False, where=_FEEDS)
    """Whether that edge is drawn at every checkpoint."""
    dictionary_training: bool = choice(False, where=_WRITES)
    """Whether what the head writes is scored at every checkpoint."""
