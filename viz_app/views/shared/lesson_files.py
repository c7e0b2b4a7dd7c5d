"""The lessons that the app serves, read from their files and checked against the pages."""

from __future__ import annotations

from dataclasses import dataclass

from viz_app.lessons.reading import LessonError, read_lessons
from viz_app.lessons.records import Lesson, Step
from viz_app.served import lesson_folders
from viz_app.views.shared.cache import cached
from viz_app.views.shared.parts import PARTS
from viz_app.views.shared.stamps import stamp_if_there
from viz_app.views.state import CHOICES, View, decode, parameter_of

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
"""Fields of the view that a step leaves as they are."""


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

    Raises:
        ValueError: if a parameter is not one of the address, or cannot be read.
    """
    words = {name: word for name, word in step.view.items() if word in PLACES.get(name, ())}
    plain = {name: [value] for name, value in step.view.items() if name not in words}
    known = {parameter_of(name) for name in CHOICES} - set(KEPT) | {"run"}
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
    """Check the page, view and parts that a step names.

    Raises:
        ValueError: if one is not known.
    """
    if step.page not in PARTS:
        raise ValueError(f"page: there is no {step.page!r}; there is: {', '.join(PARTS)}")
    view_of(step)
    for part in step.bright:
        if part not in PARTS[step.page]:
            there = ", ".join(PARTS[step.page]) or "nothing that can be named"
            raise ValueError(f"bright: {step.page} has no part {part!r}; it has: {there}")
