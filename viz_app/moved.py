"""Where pages, sections and choices of before are now: addresses and lessons go on opening them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Parameters = Mapping[str, Sequence[str]]
"""Name → its values, as in an address. Of a lesson's step, ``bright`` names its bright parts."""


class _Move(NamedTuple):
    """A page that named something → the page that shows it now, and what is to be set there."""

    page: str
    asked: str  # parameter, or parameter=value; empty for whatever else was asked
    now: str
    sets: Mapping[str, str] = {}
    unless: Sequence[str] = ()  # parameters since: who names one knows where things are


_MASKS, _LENS, _PAIRS = {"section": "masks"}, {"section": "lens"}, {"errors": "pairs"}
_ALL_PAIRS = {"all_pairs": "true"}
_ONE_HEAD = {"training": "watch", "playing": "head"}
_MOVES = (
    _Move("architecture", "unfold", "model", {"section": "modules"}),
    _Move("architecture", "layers_by_step", "model", {"section": "layers"}),
    _Move("architecture", "lesson=masks", "model", _MASKS),
    _Move("architecture", "lesson=stream", "model", _LENS),
    _Move("architecture", "bright=mask", "model", _MASKS),
    _Move("architecture", "bright=padding", "model", _MASKS),
    _Move("architecture", "bright=lens", "model", _LENS),
    _Move("architecture", "", "model", {"section": "diagram"}),
    _Move("embeddings", "section", "model"),
    _Move("embeddings", "", "model", {"section": "input"}),
    _Move("heads", "failure", "errors", unless=["heads", "errors"]),
    _Move("heads", "bright=dictionary", "heads", {"heads": "writes"}, unless=["heads"]),
    _Move("model", "least", "model", _ALL_PAIRS, unless=["all_pairs"]),
    _Move("model", "pairs_among", "model", _ALL_PAIRS, unless=["all_pairs"]),
    _Move("why", "bright=cross map", "why", {"answer": "tokens"}, unless=["answer"]),
    _Move("why", "bright=target map", "why", {"answer": "tokens"}, unless=["answer"]),
    _Move("why", "bright=encoder", "why", {"answer": "encoder"}, unless=["answer"]),
    _Move("why", "bright=neurons", "why", {"answer": "neurons"}, unless=["answer"]),
    _Move("why", "through=true", "why", {"answer": "training"}, unless=["answer"]),
    _Move("training", "phenomenon", "errors", unless=["training", "errors"]),
    _Move("training", "bright=pairs", "errors", _PAIRS),
    _Move("training", "bright=failing pairs", "errors", _PAIRS),
    _Move("training", "bright=heads on pairs", "errors", _PAIRS),
    _Move("training", "training=play", "training", _ONE_HEAD, ["playing"]),
    _Move("training", "training=play", "training", {"training": "watch"}),
    _Move("training", "", "training", {"training": "curves"}, unless=["training"]),
)
"""The first that fits counts."""


GONE = ("architecture", "embeddings")  # pages that are no more


def moved(page: str, given: Parameters) -> tuple[str, Parameters]:
    """Return the page that shows what was asked of a page, and the parameters with which it does.

    The same ones if nothing has moved.
    """
    for move in _MOVES:
        name, _, value = move.asked.partition("=")
        asked = value in given.get(name, ()) if value else not name or name in given
        if move.page == page and asked and given.keys().isdisjoint(move.unless):
            return move.now, {**given, **{name: [to] for name, to in move.sets.items()}}
    return page, given
