"""What a person chooses on the page Translate, of a translation and what every head did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.analysis.attention import Aggregate
from headwise.viz_app.analysis.grid import RowsBy
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.session.choices import NamedHead, choice

_RANKED = {"below": "off", "rank": "true"}
_SAMPLING = {"below": "steps", "sampling": "true"}


@dataclass(frozen=True)
class TranslateChoices:
    """The choices of the page Translate."""

    rows: RowsBy = "predicted"
    special: bool = True
    renormalised: bool = choice(False, where={"special": "false"})
    punctuation: bool = choice(True, where={"special": "false"})
    """Whether columns of punctuation marks are shown where those of special tokens are not."""
    cells: CellValue = "weight"
    show: Aggregate = "head"
    style: Literal["map", "lines", "joint"] = "map"
    lines_of: tuple[NamedHead, ...] = choice((), of="run", where={"style": "lines"})
    smallest_line: FiniteFloat = choice(0.1, where={"style": "lines"})
    """The smallest weight that is drawn as a line."""
    first_row: int | None = choice(None, of="target units", where={"style": "map"})
    """The first row of the large map, from 0, if it has more than are shown at once."""
    first_column: int | None = choice(None, of="source units kind", where={"style": "map"})
    compare: bool = False
    second: int | None = choice(None, of="run", where={"compare": "true"})
    """The training step of the checkpoint that is compared."""
    fork: str = choice("", of="at step", where={"below": "steps"})
    """A token that is forced at this step; empty if none is."""
    sampling: bool = choice(False, where={"below": "steps"})
    """Whether sampling is shown beside the likeliest tokens."""
    temperature: FiniteFloat = choice(1.0, where=_SAMPLING)
    top_k: int = choice(0, where=_SAMPLING)
    """How many tokens sampling keeps; 0 keeps all."""
    top_p: FiniteFloat = choice(1.0, where=_SAMPLING)
    tree_from: int = choice(0, of="target", where={"below": "beam", "decoding": "beam"})
    rank: bool = choice(False, where={"below": "off"})
    ranked_by: str = choice("cost", where=_RANKED)
    """What the heads are ranked by: their cost, or a measure of where they look."""
    ablation: Literal["zero", "mean"] = choice("zero", where=_RANKED | {"ranked_by": "cost"})
    """What stands in place of the output of a head that is ranked."""
    below: Literal["steps", "beam", "off", "sinks"] | None = None
    """The section below the maps."""
