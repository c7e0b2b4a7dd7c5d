"""What a person chooses on the page Training: runs along the steps of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.session.choices import Axis, Text, choice

Section = Literal["watch", "curves", "heads", "stages", "translations", "compare", "embeddings"]
_CURVES = {"training": "curves"}
_TRANSLATIONS = {"training": "translations"}
_COMPARE = {"training": "compare"}
_OTHER_HEAD = {"training": "compare", "unpaired": "true"}
_EMBEDDINGS = {"training": "embeddings"}
_VOCABULARY = _EMBEDDINGS | {"followed": "vocabulary"}


@dataclass(frozen=True)
class TrainingChoices:
    """The choices of the page Training."""

    training: Section | None = None
    """The section; None for the first that the run has."""
    beside: tuple[Text, ...] = choice((), where=_CURVES)
    """Other runs whose curves are drawn."""
    loss_axis: Axis = choice("linear", where=_CURVES)
    smoothing: FiniteFloat = choice(0.0, where=_CURVES)
    own_reference: str = choice("", of="sentence", where=_TRANSLATIONS)
    sample: str | None = choice(None, of="sentence", where=_TRANSLATIONS)
    """The sentence that is drawn at all checkpoints; None for the person's own."""
    samples_by: Literal["one sentence", "one step"] = choice("one sentence", where=_TRANSLATIONS)
    other_run: str | None = choice(None, of="run", where=_COMPARE)
    other_step: int | None = choice(None, of="run other_run", where=_COMPARE)
    shared: Literal["newest", "reference", "own"] = choice("newest", where=_COMPARE)
    """The target that both checkpoints are given."""
    unpaired: bool = choice(False, of="run other_run", where=_COMPARE)
    """Whether a head of one run is compared with another head of the other."""
    other_layer: int | None = choice(None, of="run other_run", where=_OTHER_HEAD)
    other_head: int | None = choice(None, of="run other_run", where=_OTHER_HEAD)
    overview: Literal["B − A", "A", "B"] | None = choice(None, where=_COMPARE)
    """Whose maps are drawn; None for the difference, where there is one."""
    playing: Literal["head", "all"] = choice("all", where={"training": "watch"})
    matrix_over: Literal["corpus", "sentence"] = choice("corpus", where={"training": "heads"})
    """What heads are measured on."""
    matrix_rows: Literal["layout", "last value"] = choice("layout", where={"training": "heads"})
    pair_tokens: tuple[Text, ...] | None = choice(None, of="sentence side", where=_EMBEDDINGS)
    followed: Literal["pairs", "vocabulary"] = choice("pairs", where=_EMBEDDINGS, opens=True)
    moving_number: int | None = choice(None, of="run", where=_VOCABULARY)
    moving_frame: int | None = choice(None, of="run", where=_VOCABULARY)
