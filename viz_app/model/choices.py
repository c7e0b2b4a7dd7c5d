"""What a person chooses on the page Model: the whole model on one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.viz_app.session.choices import Text, choice

Section = Literal[
    "diagram",
    "input",
    "positions",
    "similarity",
    "projection",
    "lens",
    "layers",
    "modules",
    "presets",
    "masks",
]
SECTION_TITLES: dict[str, str] = {
    "diagram": "Diagram",
    "input": "Embeddings",
    "positions": "Positions",
    "similarity": "Neighbours",
    "projection": "Projection",
    "lens": "Lens",
    "layers": "Layers",
    "modules": "Modules",
    "presets": "Presets",
    "masks": "Masks & checks",
}
_SIMILARITY = {"section": "similarity"}
_PAIRS = _SIMILARITY | {"all_pairs": "true"}
_POSITIONS = {"section": "positions"}
_PROJECTION = {"section": "projection"}
_LAYERS = {"section": "layers"}


@dataclass(frozen=True)
class ModelChoices:
    """The choices of the page; tokens of a vocabulary are texts, or ids such as ``id:7``."""

    section: Section = choice("diagram", opens=True)
    similarity_of: str = choice("tokens", where=_SIMILARITY)
    token: str | None = choice(None, of="sentence side", where=_SIMILARITY)
    """The token whose neighbours are listed."""
    among: Literal["this side", "either side"] = choice("this side", where=_SIMILARITY)
    all_pairs: bool = choice(False, where=_SIMILARITY)
    """Whether the most similar pairs of the vocabulary are listed."""
    least: int = choice(10, where=_PAIRS)
    """How often a token must stand in the training data to be listed."""
    pairs_among: int | None = choice(None, of="run", where=_PAIRS)
    dimensions: tuple[int, ...] | None = choice(None, of="run", where=_POSITIONS)
    positions: tuple[int, ...] | None = choice(None, where=_POSITIONS)
    """Two positions that are compared."""
    projection_by: Literal["PCA", "UMAP"] = choice("PCA", where=_PROJECTION)
    colour: Literal["frequency", "side"] = choice("frequency", where=_PROJECTION)
    number: int | None = choice(None, of="run", where=_PROJECTION)
    """How many of the most frequent tokens are drawn."""
    searched: tuple[Text, ...] = choice((), of="run", where=_PROJECTION)
    from_layers: bool | None = choice(None, of="sentence step", where=_LAYERS)
    """Whether the sentence is translated from each encoder layer: at first of a small model only,
    and until a person stops it."""
    layers_by_step: bool = choice(False, of="run", where=_LAYERS)
    """Whether sample sentences are, at each checkpoint."""
    unfold: Literal["stacks", "layers", "everything"] = choice(
        "stacks", where={"section": "modules"}
    )
