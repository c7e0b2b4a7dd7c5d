"""The view: all that a person has chosen on all pages, and its text form, the address.

A page is drawn from the view and from nothing else, so that a link, a citation and the name of a
saved picture say what is seen. This file knows no widget; ``view.py`` holds the view
of a session. What a page alone has is declared in the ``choices.py`` of its folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

from pydantic import FiniteFloat

from headwise.model.interface import Head, Kind, Side, head_name
from headwise.model.turned import Turned
from headwise.model.validation import LONGEST_TEXT, is_too_long
from headwise.viz_app.analysis.grid import Units
from headwise.viz_app.errors.choices import ErrorsChoices
from headwise.viz_app.heads.choices import HeadsChoices
from headwise.viz_app.inside.choices import InsideChoices
from headwise.viz_app.model.choices import ModelChoices
from headwise.viz_app.session.choices import (
    INNER_SCOPE,
    Axis,
    Declared,
    NamedStrengths,
    Text,
    choice,
    declared,
    dropped_by,
)
from headwise.viz_app.training.choices import TrainingChoices
from headwise.viz_app.translate.choices import TranslateChoices
from headwise.viz_app.why.choices import WhyChoices


@dataclass(frozen=True)
class View:
    """What several pages share, and a record of choices for each page; None leaves one to the page.

    Layers, heads and steps of training are as people read them, from 1 on.
    """

    run: str | None = choice(None, sets="run")
    step: int | None = choice(None, of="run")
    sentence: str | None = choice(None, of="run", sets="sentence")
    source_language: str | None = choice(None, of="run", sets="source")
    target_language: str | None = choice(None, of="run", sets="source")
    task: str | None = choice(None, of="run", sets="source")
    decoding: Literal["greedy", "beam"] = choice("greedy", sets="target")
    beam: int = choice(4, sets="target")
    hypothesis: int = choice(0, of="sentence step decoding beam", sets="target")
    target: str = choice("", of="sentence", sets="target")
    """A forced target; empty if the model translates."""
    at: int = choice(0, of="target", on="translate why training", where={"below": "steps"})
    """The step of decoding, counted from 0."""
    instead: str = choice("", of="at step", on="why training")
    """The word that its token is compared with: empty for the second likeliest, ``mean`` for the
    mean of all logits, a token of the list, or a typed one."""
    column: int | None = choice(None, of="source", on="translate why")
    """A token of the source that is marked, counted from 0."""
    kind: Kind = choice("cross", sets="head")
    layer: int | None = choice(None, sets="head")
    head: int = choice(1, sets="head")
    strengths: NamedStrengths = choice(
        (), of="run", on="translate why", where={"below": "off", "why": "turn heads"}
    )
    """Heads that are turned; those that are off have the strength 0."""
    units: Units = "tokens"
    side: Side = "source"
    steps_axis: Axis = choice("linear", on="training errors")
    measure: str = "cost"
    """The measure of heads that is drawn."""
    pictures: Literal["svg", "png"] = "svg"
    paper: Literal["light", "dark"] = "light"
    """For which paper a picture is saved."""
    printed: Literal["85", "170"] = "170"
    """Width of a saved picture on paper, in millimetres."""

    lesson: str | None = None
    """The lesson that is on."""
    lesson_step: int = choice(1, of="lesson")
    lesson_answer: tuple[int, ...] | None = choice(None, of="at step head cells lesson lesson_step")
    """What was answered at this step: a cell, a row, a token, a head or a choice, from 0."""
    lessons: tuple[Text, ...] = ()
    """The lessons that were begun, as ``progress_of`` in ``lessons.py`` reads them."""
    factor: FiniteFloat = choice(1.0, of="lesson lesson_step")
    """By what a lesson multiplies the scores of a row."""

    translate: TranslateChoices = field(default_factory=TranslateChoices)
    inside: InsideChoices = field(default_factory=InsideChoices)
    model: ModelChoices = field(default_factory=ModelChoices)
    training: TrainingChoices = field(default_factory=TrainingChoices)
    heads: HeadsChoices = field(default_factory=HeadsChoices)
    errors: ErrorsChoices = field(default_factory=ErrorsChoices)
    why: WhyChoices = field(default_factory=WhyChoices)

    @property
    def turned(self) -> Turned:
        """What is turned, where rows may be pinned too."""
        return Turned(self.strengths, self.why.pinned)


_PAGES = {
    name: kind
    for name, kind in get_type_hints(View).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}
CHOICES: dict[str, Declared] = declared(View) | {
    name: found for page, record in _PAGES.items() for name, found in declared(record, page).items()
}
"""Every choice by its name, which no two records share."""

_NAMES = {
    "sentence": "q",
    "source_language": "from",
    "target_language": "to",
    "strengths": "off",  # as when heads could only be off
}
"""Choices whose name in the address is another."""


def parameter_of(name: str) -> str:
    """Return the name of a choice in the address."""
    return _NAMES.get(name, name)


def chosen(view: View, name: str) -> Any:
    """Return what a view has for a choice, given its name."""
    page = CHOICES[name].page
    return getattr(getattr(view, page) if page else view, name)


def with_choices(view: View, **values: Any) -> View:
    """Return a view with some choices set, by their names, and all others as they are."""
    by_page: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        by_page.setdefault(CHOICES[name].page, {})[name] = value
    shared = by_page.pop("", {})
    records = {
        page: dataclasses.replace(getattr(view, page), **own) for page, own in by_page.items()
    }
    return dataclasses.replace(view, **shared, **records)


def change(view: View, **changes: Any) -> View:
    """Return the view after some choices, without what these make meaningless.

    A new sentence, for example, drops a forced target, and a new run goes to its newest checkpoint.
    """
    changed = [name for name, value in changes.items() if chosen(view, name) != value]
    dropped = set().union(*(dropped_by(name, CHOICES) for name in changed))
    if "kind" in changed and "encoder_self" in (view.kind, changes["kind"]):
        dropped.add("query")  # queries are other tokens: of the source, the target
    return with_choices(view, **({name: CHOICES[name].default for name in dropped} | changes))


def scope_rank(name: str) -> int:
    """Return how far out a choice is among what a person looks at: from 0, which drops least."""
    return (
        [*INNER_SCOPE][::-1].index(CHOICES[name].sets) + 1
        if CHOICES[name].sets in INNER_SCOPE
        else 0
    )


def encode(view: View, page: str = "") -> dict[str, list[str]]:
    """Return the parameters of the address of a view: the choices that are not the default.

    For a link to a page, which is named then, choices that only other pages show are left out; none
    while a lesson is on, since it may ask on one page about what was chosen on another.
    """
    written = [
        name
        for name, found in CHOICES.items()
        if chosen(view, name) != found.default
        and (not page or view.lesson is not None or not found.on or page in found.on)
    ]
    written += [name for name in _sections_of(written) if name not in written]
    return {parameter_of(name): texts(chosen(view, name)) for name in written}


def _sections_of(names: Iterable[str]) -> dict[str, str]:
    """Return the sections in which choices are found, that of the last one where there are several.

    Only those that an address opens without naming them.
    """
    return {
        section: value
        for name in names
        for section, value in CHOICES[name].where.items()
        if CHOICES[section].opens
    }


def texts(value: object) -> list[str]:
    """Write a value, or each of several, as the address has it."""
    if type(value) is tuple:  # and not a named one
        return [text for each in value for text in texts(each)] or [""]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [head_name(value) if isinstance(value, Head) else str(value)]


def decode(parameters: Mapping[str, Sequence[str]]) -> tuple[View, dict[str, list[str]]]:
    """Read the parameters of an address; those of others, such as Streamlit's, are left out.

    Returns:
        The view; and for each choice that could not be read, which has its default, what it had.
    """
    values: dict[str, Any] = {}
    unreadable = {}
    for name, found in CHOICES.items():
        given = list(parameters.get(parameter_of(name), ()))
        if not given:
            continue
        try:
            values[name] = _read(found, given)
        except ValueError:
            unreadable[name] = given
    opened = _sections_of(values)
    return with_choices(View(), **(opened | values)), unreadable


def _read(found: Declared, given: Sequence[str]) -> Any:
    """Read the texts that the address has for a choice.

    A ``ValueError``: they are not of its type, too long, or several for a single choice.
    """
    if is_too_long(*given):
        raise ValueError(f"expected at most {LONGEST_TEXT:,} characters")
    if found.several:
        return found.reader.validate_python(() if list(given) == [""] else tuple(given))
    if len(set(given)) > 1:
        raise ValueError("expected one value")
    return found.reader.validate_python(given[0])
