"""What a person chooses on the page Embeddings & positions: what enters the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.viz_app.views.choices import Text, choice

_SIMILARITY = {"section": "similarity"}
_POSITIONS = {"section": "positions"}
_PROJECTION = {"section": "projection"}


@dataclass(frozen=True)
class EmbeddingsChoices:
    """The choices of the page; tokens of a vocabulary are texts, or ids such as ``id:7``."""

    section: Literal["input", "positions", "similarity", "projection"] = "input"
    similarity_of: str = choice("tokens", where=_SIMILARITY)
    token: str | None = choice(None, of="sentence side", where=_SIMILARITY)
    """The token whose neighbours are listed."""
    among: Literal["this side", "either side"] = choice("this side", where=_SIMILARITY)
    least: int = choice(10, where=_SIMILARITY)
    """How often a token must stand in the training data to be listed."""
    pairs_among: int | None = choice(None, of="run", where=_SIMILARITY)
    dimensions: tuple[int, ...] | None = choice(None, of="run", where=_POSITIONS)
    positions: tuple[int, ...] | None = choice(None, where=_POSITIONS)
    """Two positions that are compared."""
    projection_by: Literal["PCA", "UMAP"] = choice("PCA", where=_PROJECTION)
    colour: Literal["frequency", "side"] = choice("frequency", where=_PROJECTION)
    number: int | None = choice(None, of="run", where=_PROJECTION)
    """How many of the most frequent tokens are drawn."""
    searched: tuple[Text, ...] = choice((), of="run", where=_PROJECTION)
