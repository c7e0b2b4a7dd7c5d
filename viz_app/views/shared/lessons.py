"""Lessons: those that are served; and the one that is on: begin it, answer, leave it, go on later.

What is on is in the view, and so in the address. A lesson's panel is drawn by ``lesson_panel.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.analysis.questions import KINDS, Way
from headwise.viz_app.lessons.reading import LessonError, read_lessons
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.served import first_run, lesson_folders, served_models
from headwise.viz_app.views.caches import Run, log_of, run_named, steps_in
from headwise.viz_app.views.shared.cache import cached, stamp_if_there
from headwise.viz_app.views.shared.parts import PARTS
from headwise.viz_app.views.shared.view import change_view, view
from headwise.viz_app.views.shared.widgets import PageName, open_page
from headwise.viz_app.views.state import CHOICES, View, chosen, decode, parameter_of

PLACES = {
    "step": ("first", "last"),
    "layer": ("first", "last"),
    **dict.fromkeys(("at", "query"), ("first", "second", "middle", "last", "heaviest", "changed")),
    **dict.fromkeys(("column", "key"), ("first", "second", "middle", "last")),
}
"""Parameter of a step's view → the words that may stand for a place in the run or the sentence."""
KEPT = (
    *("run", "sentence", "source_language", "target_language", "task", "pictures", "printed"),
    *("lesson", "lesson_step", "lesson_answer", "lessons"),
)
"""Fields of the view that a step leaves as they are, unless it names a run or a sentence."""


def step_on() -> Step | None:
    """Return the step of the lesson that is on; None if none is."""
    lesson, number = served_lessons().lessons.get(view().lesson or ""), view().lesson_step
    if lesson is None or not 1 <= number <= len(lesson.steps):
        return None
    return lesson.steps[number - 1]


def way_of(step: Step) -> Way | None:
    """Return what a click answers a step with; None if buttons answer it."""
    way = KINDS[step.ask].way if step.page == "translate" else None
    return way if step.answer != "choice" else None


def answered(way: Way, *place: int) -> dict[str, Any]:
    """Return the change of the view by a click that may answer a question; none if it does not.

    ``way`` is what was clicked, ``place`` where, as in ``viz_app/analysis/question.py``.
    """
    step = step_on()
    return {"lesson_answer": place} if step is not None and way_of(step) == way else {}


def missing(lesson: Lesson, run: Run) -> list[str]:
    """Return what a lesson needs and a run lacks."""
    model, rows = run.description, log_of(run.folder, "metrics.jsonl")
    has = {
        "additive positions": model.positions != "relative",
        "scaled scores": model.scale_scores,
        "several checkpoints": len(run.steps()) > 1,
        "training curves": bool(len(curve_of(rows, "valid_loss"))),
        f"run {run.name}": True,
    }
    return [need for need in lesson.needs if not has.get(need)]


def fitting_runs(lesson: Lesson) -> list[str]:
    """Return the names of the runs that have all that a lesson needs."""
    return [name for name in served_models() if not missing(lesson, run_named(name))]


def open_step(name: str, number: int, **choices: Any) -> None:
    """Open a step of a lesson from the callback of a click: its page, with its view.

    What the reader has typed stays, unless the step is about a sentence. A lesson about a
    particular run opens that run.
    """
    lesson = served_lessons().lessons[name]
    step = lesson.steps[number - 1]
    wanted, words = view_of(step)
    named = next((need[4:] for need in lesson.needs if need.startswith("run ")), None)
    models = served_models()
    runs = (choices.get("run"), wanted.run, named, view().run, list(models)[first_run(models)])
    run = next(name for name in runs if name in models)
    changes: dict[str, Any] = {name: chosen(wanted, name) for name in CHOICES if name not in KEPT}
    if wanted.sentence is not None:
        changes["sentence"] = wanted.sentence
    if words.get("step") == "first":
        changes["step"] = next(iter(steps_in(models[run])), None)
    if words.get("layer") == "first":
        changes["layer"] = 1
    # Places in the sentence are found when it has been translated, before the page is drawn.
    st.session_state["places_to_find"] = {
        field: word for field, word in words.items() if field not in ("step", "layer")
    }
    open_page(
        cast(PageName, step.page),
        **changes,
        run=run,
        lesson=name,
        lesson_step=number,
        lesson_answer=None,
        lessons=_with(name, f"{name}:{number}"),
    )


def leave_lesson(*, done: bool) -> None:
    """Leave the lesson that is on, from the callback of a click; note it as done if it is."""
    shown = view()
    if shown.lesson is not None and done:
        change_view(lessons=_with(shown.lesson, shown.lesson))
    change_view(lesson=None)
    if done:
        open_page("learn")
    st.rerun()


def _with(name: str, mark: str) -> tuple[str, ...]:
    """Return the marks of lessons with a new one for a lesson; what is done stays done."""
    marks = view().lessons
    if name in marks:
        return marks
    return (*(each for each in marks if each.partition(":")[0] != name), mark)


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
        entries=2,
        facts=lambda found: {"lessons": len(found.lessons), "broken": len(found.errors)},
    )


def view_of(step: Step) -> tuple[View, dict[str, str]]:
    """Return the view that a step asks for, and the words that stand for places in it.

    A parameter that is not one of the address, or cannot be read, is a ``ValueError``.
    """
    words = {name: word for name, word in step.view.items() if word in PLACES.get(name, ())}
    plain = {name: [value] for name, value in step.view.items() if name not in words}
    known = {parameter_of(name) for name in CHOICES} - set(KEPT) | {"run", parameter_of("sentence")}
    if unknown := plain.keys() - known:
        raise ValueError(f"view: a step cannot set {', '.join(sorted(unknown))}; leave it out")
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
