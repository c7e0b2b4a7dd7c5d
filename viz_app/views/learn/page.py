"""Draw the page Learn: the lessons in their order, and which of them are done."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.lessons.records import Lesson
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.lessons import open_step, served_lessons
from headwise.viz_app.views.shared.markdown import escape_markdown, lesson_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import view


def page(selection: Selection) -> None:
    """Draw the page."""
    files = served_lessons()
    done = len(files.lessons.keys() & set(view().lessons))
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
    left = _left_at(lesson)
    state = "done · " if lesson.name in view().lessons else ""
    if left is not None:
        state = f"go on at step {left} · "
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


def _left_at(lesson: Lesson) -> int | None:
    """Return the step at which a lesson was left; None if it was not begun, or is done."""
    for mark in view().lessons:
        begun, colon, number = mark.partition(":")
        if begun == lesson.name and colon and number.isascii() and number.isdigit():
            return min(max(int(number[:4]), 1), len(lesson.steps))
    return None
