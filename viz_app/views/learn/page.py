"""Draw the page Learn: the lessons in their order, and which of them are done."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.lessons.records import Lesson
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.lessons import open_step, progress_of, served_lessons
from headwise.viz_app.views.shared.markdown import escape_markdown, lesson_markdown
from headwise.viz_app.views.shared.selection import Selection


def page(selection: Selection) -> None:
    """Draw the page."""
    files = served_lessons()
    done = sum(
        len(progress_of(lesson).answered) == len(lesson.steps) for lesson in files.lessons.values()
    )
    st.markdown(
        "Each lesson takes you through the other pages, on the sentence above or one of your own. "
        "It asks a question at every step, whose answer is in what you see."
    )
    st.caption(
        f"{done} of {len(files.lessons)} done. The address of the page keeps where you are: save "
        "it as a bookmark and go on later."
    )
    for error in files.errors:
        st.warning(f"A lesson is left out. {describe_error(error)}")
    for number, lesson in enumerate(files.lessons.values(), 1):
        _show(number, lesson)


def _show(number: int, lesson: Lesson) -> None:
    progress, steps = progress_of(lesson), range(1, len(lesson.steps) + 1)
    left, state = progress.left_at, "done · " if len(progress.answered) == len(steps) else ""
    if left is not None:
        if left == len(steps):  # gone through: on to what was skipped
            left = next(number for number in steps if number not in progress.answered)
        state = f"{len(progress.answered)} of {len(steps)} answered, go on at step {left} · "
    with st.container(key=f"lesson-{lesson.name}"):
        button, words = st.columns([2, 3], gap="small", vertical_alignment="center")
        button.button(
            f"{number}. {escape_markdown(lesson.title)}",
            key=f"start-{lesson.name}",
            width="stretch",
            on_click=open_step,
            args=(lesson.name, left or 1),
        )
        words.caption(f"{state}{lesson_markdown(lesson.teaches)} {len(lesson.steps)} steps.")
