"""Draw the end of a lesson, and the ways from one of its pages to the others."""

from __future__ import annotations

from functools import partial
from html import escape

import streamlit as st

from headwise.viz_app.lessons.records import Lesson
from headwise.viz_app.session.lessons import has_end, leave_lesson, open_step, progress_of
from headwise.viz_app.session.markdown import escape_markdown, lesson_markdown
from headwise.viz_app.session.parts import tell_height
from headwise.viz_app.session.view import change_view


def show_place(lesson: Lesson, number: int, place: str) -> None:
    """Write the name of a lesson, and which of its pages is open."""
    st.html(f'<p role="status">{escape(lesson.title)}: {place}</p>')
    tell_height(f"{lesson.name} {number}")


def show_end(lesson: Lesson, number: int) -> None:
    """Draw what was learned, each sentence with a way to where it is seen, and what is left."""
    show_place(lesson, number, "what was learned")
    left = set(range(1, number)) - progress_of(lesson).answered
    if left:
        st.caption(f"Questions left: {len(left)} of {number - 1}. It is done with all answered.")
    for place, step in enumerate(lesson.steps, 1):
        if step.learned:
            st.markdown(lesson_markdown(step.learned))
        if step.learned or place in left:
            st.button(
                f"{'To the question' if place in left else 'See it'}: "
                f"{escape_markdown(step.title)}",
                key=f"lesson-see-{place}",
                type="tertiary",
                icon=":material/arrow_forward:",
                on_click=open_step,
                args=(lesson.name, place),
            )
    show_ways_on(lesson, number, answered_right=not left)


def show_ways_on(lesson: Lesson, number: int, *, answered_right: bool) -> None:
    """Draw the buttons to the other pages of a lesson, and out of it."""
    go_to, count = partial(open_step, lesson.name), len(lesson.steps)
    last = number == count + has_end(lesson)

    def go_on() -> None:
        if last:
            leave_lesson(finished=True)
        elif number == count:  # what the last page has shown stays in sight
            change_view(lesson_step=number + 1)
        else:
            go_to(number + 1)

    with st.container(horizontal=True, gap="small", key="lesson-ways"):
        st.button(
            "Back", key="lesson-back", disabled=number == 1, on_click=lambda: go_to(number - 1)
        )
        st.button(
            "Finish" if last else "Next",
            key="lesson-next",
            type="primary" if answered_right else "secondary",
            on_click=go_on,
        )
        if number <= count:
            st.button(
                "Show again", key="lesson-again", type="tertiary", on_click=lambda: go_to(number)
            )
        st.button(
            "Leave",
            key="lesson-leave",
            type="tertiary",
            on_click=lambda: leave_lesson(finished=False),
        )
