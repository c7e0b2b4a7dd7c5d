"""The lesson that is on: begin it, go through its steps, answer, leave it and go on later.

All of this is in the view, and so in the address. A lesson's panel is drawn by ``lesson_panel.py``.
"""

from __future__ import annotations

from typing import Any, cast

import streamlit as st

from viz_app.analysis.curves import curve_of
from viz_app.analysis.questions import KINDS, Way
from viz_app.lessons.records import Lesson, Step
from viz_app.served import first_run, served_models
from viz_app.views.caches import Run, log_of, run_named, steps_in
from viz_app.views.shared.lesson_files import KEPT, served_lessons, view_of
from viz_app.views.shared.opening import PageName, open_page
from viz_app.views.shared.view import change_view, view
from viz_app.views.state import CHOICES, View, chosen


def lesson_on() -> Lesson | None:
    """Return the lesson that is on; None if none is."""
    name = view().lesson
    return served_lessons().lessons.get(name) if name else None


def step_on() -> Step | None:
    """Return the step of the lesson that is on."""
    lesson, number = lesson_on(), view().lesson_step
    if lesson is None or not 1 <= number <= len(lesson.steps):
        return None
    return lesson.steps[number - 1]


def way_of(step: Step) -> Way | None:
    """Return what a click answers a step with; None if buttons answer it."""
    way = KINDS[step.ask].way if step.page == "translate" else None
    return way if step.answer != "choice" else None


def answered(way: Way, *place: int) -> dict[str, Any]:
    """Return the change of the view by a click that may answer a question; none if it does not.

    Args:
        way: what was clicked.
        place: where, as in ``viz_app/analysis/question.py``.
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

    What the reader has typed stays. A lesson about a particular run opens that run.
    """
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


def is_done(name: str, shown: View) -> bool:
    """Whether a lesson is done."""
    return name in shown.lessons


def left_at(name: str, shown: View) -> int | None:
    """Return the step at which a lesson was left; None if it was not begun, or is done."""
    for mark in shown.lessons:
        begun, colon, number = mark.partition(":")
        if begun == name and colon and number.isascii() and number.isdigit():
            last = len(served_lessons().lessons[name].steps)
            return min(max(int(number[:4]), 1), last)
    return None
