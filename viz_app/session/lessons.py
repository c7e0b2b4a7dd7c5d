"""Lessons: those that are served; and the one that is on: begin it, answer, leave it, go on later.

What is on is in the view, and so in the address. A lesson's panel is drawn by ``lesson_panel.py``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.lessons.questions import Way, way_on
from headwise.viz_app.lessons.reading import LessonError, read_lessons
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.served import first_run, lesson_folders, served_models
from headwise.viz_app.session.cache import cached, stamp_if_there
from headwise.viz_app.session.caches import Run, log_of, run_named, steps_in
from headwise.viz_app.session.pairs import pairs_of
from headwise.viz_app.session.parts import PARTS
from headwise.viz_app.session.state import CHOICES, View, chosen, decode, parameter_of
from headwise.viz_app.session.view import current_page, fill_in, view
from headwise.viz_app.session.widgets import PageName, open_page

PLACES = {
    "step": ("first", "last"),
    "layer": ("first", "last"),
    **dict.fromkeys(("at", "query"), ("first", "second", "middle", "last", "heaviest", "changed")),
    **dict.fromkeys(("column", "key"), ("first", "second", "middle", "last")),
}
"""Parameter of a step's view → the words that may stand for a place in the run or the sentence."""
KEPT = (
    *("run", "sentence", "source_language", "target_language", "task"),
    *("pictures", "paper", "printed", "lesson", "lesson_step", "lesson_answer", "lessons"),
)
"""Fields of the view that a step leaves as they are."""


def step_on() -> Step | None:
    """Return the step of the lesson that is on; None if none is."""
    name, number = view().lesson, view().lesson_step
    lesson = served_lessons().lessons.get(name) if name else None
    if lesson is None or not 1 <= number <= len(lesson.steps):
        return None
    return lesson.steps[number - 1]


def way_of(step: Step) -> Way | None:
    """Return what a click answers a step with; None if buttons answer it."""
    return way_on(step.page, step.ask) if step.answer != "choice" else None


def answered(way: Way, *place: int) -> dict[str, Any]:
    """Return the change of the view by a click that may answer a question; none if it does not.

    ``way`` is what was clicked, ``place`` where, as in ``viz_app/lessons/question.py``.
    """
    step = step_on()
    return {"lesson_answer": place} if step is not None and way_of(step) == way else {}


def missing(lesson: Lesson, run: Run) -> list[str]:
    """Return what a lesson needs and a run lacks."""
    model, rows = run.description, log_of(run.folder, "metrics.jsonl")
    has = {
        "additive positions": model.adds_positions,
        "scaled scores": model.scale_scores,
        "several checkpoints": len(run.steps()) > 1,
        "training curves": bool(len(curve_of(rows, "valid_loss"))),
        "measured pairs": _has_pairs(run),
        f"run {run.name}": True,
        f"languages {run.source_language}-{run.target_language}": True,
    }
    return [need for need in lesson.needs if not has.get(need)]


def _has_pairs(run: Run) -> bool:
    """Return whether the newest checkpoint of a run, with its heads, was measured on pairs."""
    try:
        measured = pairs_of(run).measured
    except CheckpointError:
        return False
    return measured is not None and measured.heads_step == run.steps()[-1]


def fitting_runs(lesson: Lesson) -> list[str]:
    """Return the names of the runs that have all that a lesson needs."""
    return [name for name in served_models() if not missing(lesson, run_named(name))]


def open_step(name: str, number: int, **choices: Any) -> None:
    """Open a step of a lesson from the callback of a click: its page, with its view.

    What the reader has typed stays, unless the lesson has a sentence of its own. A lesson about a
    particular run opens that run.
    """
    if view().lesson is None:
        st.session_state["before_lesson"] = current_page(), view()
    lesson = served_lessons().lessons[name]
    step = lesson.steps[number - 1]
    wanted, words = view_of(step)
    named = next((need[4:] for need in lesson.needs if need.startswith("run ")), None)
    models = served_models()
    runs = (choices.get("run"), wanted.run, named, view().run, list(models)[first_run(models)])
    run = next(name for name in runs if name in models)
    changes: dict[str, Any] = {name: chosen(wanted, name) for name in CHOICES if name not in KEPT}
    if words.get("step") == "first":
        changes["step"] = next(iter(steps_in(models[run])), None)
    if lesson.sentence:
        changes["sentence"] = lesson.sentence
    if words.get("layer") == "first":
        changes["layer"] = 1
    # Places in the sentence are found when it has been translated, before the page is drawn.
    st.session_state["places_to_find"] = {
        field: word for field, word in words.items() if field not in ("step", "layer")
    }
    st.session_state["other_target"] = step.against
    open_page(
        cast(PageName, step.page),
        **changes,
        run=run,
        lesson=name,
        lesson_step=number,
        lesson_answer=None,
        lessons=_marked(lesson, number, progress_of(lesson).answered),
    )


def has_end(lesson: Lesson) -> bool:
    """Return whether a lesson has a page more than steps, with what was learned."""
    return any(step.learned for step in lesson.steps)


def leave_lesson(*, finished: bool) -> None:
    """Leave the lesson that is on, from the callback of a click: to *Learn* from its end.

    Else to where it was begun, as it was there; who came by a link stays on the lesson's page.
    """
    page, before = st.session_state.pop("before_lesson", (current_page(), view()))
    kept = ("pictures", "paper", "printed", "lessons")
    back = {name: chosen(before, name) for name in CHOICES if name not in kept}
    if finished:
        page, back = "learn", {}
    open_page(page, **back | {"lesson": None})


@dataclass(frozen=True)
class Progress:
    """How far a lesson was gone through."""

    left_at: int | None
    """The step that was open last; None if it was not begun."""
    answered: frozenset[int]
    """The steps whose question was answered rightly: all of them if the lesson is done."""


def progress_of(lesson: Lesson) -> Progress:
    """Read from the view how far a lesson was gone through: ``rows``, ``rows:3`` or ``rows:3:12``.

    The first is done; the others were left at their third step, one with two questions answered.
    """
    steps = range(1, len(lesson.steps) + 1)
    for mark in view().lessons:
        name, left, answered = [*mark.split(":"), "", ""][:3]
        if name != lesson.name:
            continue
        if not left:
            return Progress(None, frozenset(steps))
        at = int(left[:4]) if left.isascii() and left.isdigit() else 1
        return Progress(
            min(max(at, 1), len(steps)), frozenset(n for n in steps if str(n) in answered)
        )
    return Progress(None, frozenset())


def goes_on_at(lesson: Lesson) -> int | None:
    """Return the step at which a lesson that was begun goes on; None if it was not, or is done.

    One that was gone through goes on at the first question that was skipped.
    """
    progress, steps = progress_of(lesson), range(1, len(lesson.steps) + 1)
    if progress.left_at != len(steps):
        return progress.left_at
    return next(number for number in steps if number not in progress.answered)


def note_answered(lesson: Lesson, number: int) -> None:
    """Note that the question of a step was answered rightly; with the last one, that all are."""
    fill_in(lessons=_marked(lesson, number, progress_of(lesson).answered | {number}))


def _marked(lesson: Lesson, number: int, answered: Collection[int]) -> tuple[str, ...]:
    """Return the marks of all lessons, with a new one for a lesson that is open at a step."""
    mark = f"{lesson.name}:{number}" + f":{''.join(map(str, sorted(answered)))}" * bool(answered)
    if len(answered) == len(lesson.steps):
        mark = lesson.name
    others = (each for each in view().lessons if each.partition(":")[0] != lesson.name)
    return (*others, mark)


@dataclass(frozen=True)
class LessonFiles:
    """Lessons by name, in their order, and the errors of files that cannot be used."""

    lessons: dict[str, Lesson]
    errors: list[LessonError]


def served_lessons() -> LessonFiles:
    """Return the lessons of the app and of the folder that was given at the start."""
    folders = lesson_folders()
    files = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return cached(
        "lessons read",
        tuple((str(path), stamp_if_there(path)) for path in files),
        lambda: LessonFiles(*read_lessons(folders, check_step)),
        facts=lambda found: {"lessons": len(found.lessons), "broken": len(found.errors)},
    )


def view_of(step: Step) -> tuple[View, dict[str, str]]:
    """Return the view that a step asks for, and the words that stand for places in it.

    A parameter that is not one of the address, or cannot be read, is a ``ValueError``.
    """
    words = {name: word for name, word in step.view.items() if word in PLACES.get(name, ())}
    plain = {name: [value] for name, value in step.view.items() if name not in words}
    known = {parameter_of(name) for name in CHOICES} - set(KEPT) | {"run"}
    if unknown := plain.keys() - known:
        raise ValueError(
            f"view: a page of a lesson cannot set {', '.join(sorted(unknown))}; leave it out"
        )
    view, unreadable = decode(plain)
    for name, given in unreadable.items():
        allowed = f"; or one of {', '.join(PLACES[name])}" if name in PLACES else ""
        raise ValueError(
            f"view: {name} cannot be {given[0]!r}; copy it from the address of the page{allowed}"
        )
    return view, words


def check_step(step: Step) -> None:
    """Raise a ``ValueError`` if a step names a page, a view or a part that is not known."""
    if step.page not in PARTS:
        raise ValueError(f"page: there is no {step.page!r}; there is: {', '.join(PARTS)}")
    view_of(step)
    for part in step.bright:
        if part not in PARTS[step.page]:
            there = ", ".join(PARTS[step.page]) or "nothing that can be named"
            raise ValueError(f"bright: {step.page} has no part {part!r}; it has: {there}")
