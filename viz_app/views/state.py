"""The view: all that a person has chosen on all pages, and its text form, the address.

A page is drawn from the view and from nothing else, so that a link, a citation and the name of a
saved picture say what is seen. This file knows no widget; ``views/shared/view.py`` holds the view
of a session.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, FiniteFloat, StringConstraints, TypeAdapter

from model.interface import Head, Kind, Side, head_name, parse_head
from viz_app.analysis.attention import Aggregate
from viz_app.analysis.grid import RowsBy, Units
from viz_app.analysis.rollout import CellValue


def _to_head(value: object) -> object:
    """Return the head that a text names; anything else as it is."""
    return parse_head(value) if isinstance(value, str) else value


NamedHead = Annotated[Head, BeforeValidator(_to_head)]
Text = Annotated[str, StringConstraints(min_length=1)]
Axis = Literal["linear", "log"]


@dataclass(frozen=True)
class View:
    """A view has a field for each choice; None leaves a choice to the page.

    Layers, heads and steps of training are as people read them; ``at``, ``column``, ``query`` and
    ``key`` are places counted from 0. Tokens of a vocabulary are texts, or ids such as ``id:7``.
    """

    # All pages: what is looked at
    run: str | None = None
    step: int | None = None
    sentence: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    task: str | None = None
    decoding: Literal["greedy", "beam"] = "greedy"
    beam: int = 4
    hypothesis: int = 0
    target: str = ""
    """A forced target; empty if the model translates."""
    kind: Kind = "cross"
    layer: int | None = None
    head: int = 1
    units: Units = "tokens"
    pictures: Literal["svg", "png"] = "svg"
    printed: Literal["85", "170"] = "170"
    """Width of a saved picture on paper, in millimetres."""

    # Translate
    rows: RowsBy = "predicted"
    special: bool = True
    renormalised: bool = False
    compare: bool = False
    second: int | None = None
    """The training step of the checkpoint that is compared."""
    show: Aggregate = "head"
    cells: CellValue = "weight"
    style: Literal["map", "lines", "joint"] = "map"
    lines_of: tuple[NamedHead, ...] = ()
    at: int = 0
    """The step of decoding."""
    fork: str = ""
    """A token that is forced at this step; empty if none is."""
    column: int | None = None
    """A token of the source that is marked in the large map."""
    sampling: bool = False
    """Whether sampling is shown beside the likeliest tokens."""
    temperature: FiniteFloat = 1.0
    top_k: int = 0
    """How many tokens sampling keeps; 0 keeps all."""
    top_p: FiniteFloat = 1.0
    tree_from: int = 0
    off: tuple[NamedHead, ...] = ()
    """Heads that are switched off."""
    rank: bool = False
    below: Literal["steps", "beam", "off"] | None = None
    """The section below the maps."""

    # Inside a head
    query: int = 0
    key: int | None = None

    # Architecture
    unfold: Literal["stacks", "layers", "everything"] = "stacks"

    # Embeddings & positions
    section: Literal["input", "positions", "similarity", "projection"] = "input"
    side: Side = "source"
    similarity_of: str = "tokens"
    token: str | None = None
    """The token whose neighbours are listed."""
    among: Literal["this side", "either side"] = "this side"
    least: int = 10
    """How often a token must stand in the training data to be listed."""
    pairs_among: int | None = None
    dimensions: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None
    """Two positions that are compared."""
    projection_by: Literal["PCA", "UMAP"] = "PCA"
    colour: Literal["frequency", "side"] = "frequency"
    number: int | None = None
    """How many of the most frequent tokens are drawn."""
    searched: tuple[Text, ...] = ()

    # Training
    training: Literal["curves", "translations", "compare", "play", "heads", "embeddings"] = "curves"
    beside: tuple[Text, ...] = ()
    """Other runs whose curves are drawn."""
    steps_axis: Axis = "linear"
    loss_axis: Axis = "linear"
    smoothing: FiniteFloat = 0.0
    samples_by: Literal["one sentence", "one step"] = "one sentence"
    sample: str | None = None
    own_reference: str = ""
    other_run: str | None = None
    other_step: int | None = None
    shared: Literal["newest", "reference", "own"] = "newest"
    """The target that both checkpoints are given."""
    unpaired: bool = False
    """Whether a head of one run is compared with another head of the other."""
    other_layer: int | None = None
    other_head: int | None = None
    overview: Literal["B − A", "A", "B"] = "B − A"
    playing: Literal["head", "all"] = "head"
    measure: str = "cost"
    matrix_rows: Literal["layout", "last value"] = "layout"
    pair_tokens: tuple[Text, ...] | None = None
    moving_number: int | None = None
    moving_frame: int | None = None

    # Heads
    heads_kind: Literal["all", "encoder_self", "decoder_self", "cross"] = "all"
    heads_order: Literal["largest first", "smallest first"] = "largest first"
    heads_least: FiniteFloat | None = None
    failure: str | None = None

    # Learn
    lesson: str | None = None
    """The lesson that is on."""
    lesson_step: int = 1
    lesson_answer: tuple[int, ...] | None = None
    """What was answered at this step: a cell, a row, a token, a head or a choice, from 0."""
    lessons: tuple[Text, ...] = ()
    """The lessons that were begun: ``masks`` is done, ``masks:3`` was left at its third step."""
    factor: FiniteFloat = 1.0
    """By what a lesson multiplies the scores of a row."""


_TOKENS = ("at", "fork", "tree_from", "query", "key", "lesson_answer")
"""Choices that are places in one target, or in its source."""
_SOURCE = (*_TOKENS, "column")
_SENTENCE = (*_SOURCE, "hypothesis", "target", "token", "pair_tokens", "sample", "own_reference")
_RUN = (
    *_SENTENCE,
    *("step", "sentence", "source_language", "target_language", "task"),
    *("second", "off", "lines_of", "dimensions", "number", "searched", "pairs_among"),
    *("other_run", "other_step", "unpaired", "other_layer", "other_head"),
    *("moving_number", "moving_frame"),
)
_RESETS: dict[str, tuple[str, ...]] = {
    "run": _RUN,
    "sentence": _SENTENCE,
    "step": ("hypothesis", "fork", "lesson_answer"),
    "source_language": _SOURCE,
    "target_language": _SOURCE,
    "task": _SOURCE,
    "decoding": ("hypothesis", *_TOKENS),
    "beam": ("hypothesis", *_TOKENS),
    "hypothesis": _TOKENS,
    "target": _TOKENS,
    "at": ("fork", "lesson_answer"),
    "kind": ("key", "lesson_answer"),
    "layer": ("key", "lesson_answer"),
    "head": ("key", "lesson_answer"),
    "query": ("key", "lesson_answer"),
    "cells": ("lesson_answer",),
    "lesson": ("lesson_step", "lesson_answer", "factor"),
    "lesson_step": ("lesson_answer", "factor"),
    "side": ("token", "pair_tokens"),
    "other_run": ("other_step", "unpaired", "other_layer", "other_head"),
}
"""Choice → what it makes meaningless when it changes, and what goes back to its default then."""

OF_ONE_PAGE = {
    "translate": (
        *("rows", "special", "renormalised", "compare", "second", "show", "cells", "style"),
        *("lines_of", "at", "fork", "column", "sampling", "temperature", "top_k", "top_p"),
        *("tree_from", "off", "rank", "below"),
    ),
    "inside": ("query", "key"),
    "architecture": ("unfold",),
    "embeddings": (
        *("section", "similarity_of", "token", "among", "least", "pairs_among", "dimensions"),
        *("positions", "projection_by", "colour", "number", "searched"),
    ),
    "training": (
        *("training", "beside", "steps_axis", "loss_axis", "smoothing", "samples_by", "sample"),
        *("own_reference", "other_run", "other_step", "shared", "unpaired", "other_layer"),
        *("other_head", "overview", "playing", "matrix_rows", "pair_tokens", "moving_number"),
        "moving_frame",
    ),
    "heads": ("heads_kind", "heads_order", "heads_least", "failure"),
}
"""Page → the choices that no other page shows."""

_NAMES = {"sentence": "q", "source_language": "from", "target_language": "to"}
"""Fields whose name in the address is another."""
DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(View)}
"""Field → its default."""


_TYPES = get_type_hints(View, include_extras=True)
_READERS = {name: TypeAdapter[Any](kind) for name, kind in _TYPES.items()}
_SEVERAL = {
    name
    for name, kind in _TYPES.items()
    if any(get_origin(each) is tuple for each in (kind, *get_args(kind)))
}
"""Fields that have several values."""


def parameter_of(field: str) -> str:
    """Return the name of a field in the address."""
    return _NAMES.get(field, field)


def change(view: View, **changes: Any) -> View:
    """Return the view after some choices, without what these make meaningless.

    A new sentence, for example, drops a forced target, and a new run goes to its newest checkpoint.
    """
    changed = [name for name, value in changes.items() if getattr(view, name) != value]
    resets = {name: DEFAULTS[name] for choice in changed for name in _RESETS.get(choice, ())}
    if "kind" in changed and "encoder_self" in (view.kind, changes["kind"]):
        resets["query"] = DEFAULTS["query"]  # queries are other tokens: of the source, the target
    return dataclasses.replace(view, **(resets | changes))


def encode(view: View, page: str = "") -> dict[str, list[str]]:
    """Return the parameters of the address of a view: the choices that are not the default.

    For a link to a page, which is named then, choices that only other pages show are left out; none
    while a lesson is on, since it may ask on one page about what was chosen on another.
    """
    of_others = [names for other, names in OF_ONE_PAGE.items() if page and other != page]
    left_out = {name for names in of_others for name in names if view.lesson is None}
    return {
        parameter_of(name): texts(value)
        for name, default in DEFAULTS.items()
        if (value := getattr(view, name)) != default and name not in left_out
    }


def texts(value: object) -> list[str]:
    """Write a value, or each of several, as the address has it."""
    if isinstance(value, tuple) and not isinstance(value, Head):
        return [text for each in value for text in texts(each)] or [""]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [head_name(value) if isinstance(value, Head) else str(value)]


def decode(parameters: Mapping[str, Sequence[str]]) -> tuple[View, dict[str, list[str]]]:
    """Read the parameters of an address; those of others, such as Streamlit's, are left out.

    Returns:
        The view; and for each field that could not be read, which has its default, what it had.
    """
    choices: dict[str, Any] = {}
    unreadable = {}
    for name in DEFAULTS:
        given = list(parameters.get(parameter_of(name), ()))
        if not given:
            continue
        try:
            choices[name] = _read(name, given)
        except ValueError:
            unreadable[name] = given
    return View(**choices), unreadable


def _read(name: str, given: Sequence[str]) -> Any:
    """Read the texts that the address has for a field.

    Raises:
        ValueError: if they are not of its type, or several for a single choice.
    """
    if name in _SEVERAL:
        return _READERS[name].validate_python(() if list(given) == [""] else tuple(given))
    if len(set(given)) > 1:
        raise ValueError("expected one value")
    return _READERS[name].validate_python(given[0])
