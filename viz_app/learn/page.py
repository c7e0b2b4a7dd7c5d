"""Draw the page Learn: groups of lessons, a card for each, with what is done of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count

import streamlit as st

from headwise.viz_app.figures.drawings import Motif, lesson_picture
from headwise.viz_app.lessons.records import Group, Lesson
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.lessons import goes_on_at, open_step, progress_of, served_lessons
from headwise.viz_app.session.markdown import escape_markdown, lesson_markdown
from headwise.viz_app.session.selection import Selection

_WORDS_A_MINUTE = 150
"""How fast the text of a lesson is read."""
_MINUTES_A_QUESTION = 0.5
_GROUPS: dict[Group | None, tuple[str, Motif | None]] = {
    "basics": ("Basics", "map"),
    "decoding": ("Decoding", "tokens"),
    "training": ("Training", "curve"),
    "causes": ("Causes", "bars"),
    None: ("More", None),
}
"""Group → its heading and drawing, in the order of the page."""


def page(selection: Selection) -> None:
    files = served_lessons()
    lessons = files.lessons.values()
    done = sum(len(progress_of(each).answered) == len(each.steps) for each in lessons)
    st.markdown(
        "Each lesson takes you through the other pages, on the sentence above or one of your own. "
        "It asks questions, whose answers are in what you see; it is done when all are answered."
    )
    st.caption(
        f"{done} of {len(files.lessons)} done. The address of the page keeps where you are: save "
        "it as a bookmark and go on later."
    )
    for error in files.errors:
        st.warning(f"A lesson is left out. {describe_error(error)}")
    number = count(1)
    of_group: dict[Group | None, list[Lesson]] = {group: [] for group in _GROUPS}
    for lesson in files.lessons.values():
        of_group[lesson.group].append(lesson)
    groups = [group for group, lessons in of_group.items() if lessons]
    for group, place in zip(groups, st.columns(len(groups) or 1, gap="small"), strict=False):
        title, motif = _GROUPS[group]
        with place.container(gap="small"):
            with st.container(horizontal=True, vertical_alignment="bottom"):
                if motif is not None:
                    st.html(lesson_picture(motif, selection.theme), width="content")
                st.markdown(f"## {title}")
            for lesson in of_group[group]:
                with st.container(key=f"lesson-{lesson.name}", border=True, gap="xsmall"):
                    _show(next(number), lesson)


def minutes(texts: Iterable[str]) -> int:
    """Return about how many minutes a lesson takes, given the text and question of each step."""
    words = [len(text.split()) for text in texts]
    return math.ceil(sum(words) / _WORDS_A_MINUTE + _MINUTES_A_QUESTION * len(words))


def _show(number: int, lesson: Lesson) -> None:
    left, answered = goes_on_at(lesson), len(progress_of(lesson).answered)
    state = "✓ done" if answered == len(lesson.steps) else ""
    if left is not None:
        state = f"{answered} of {len(lesson.steps)} answered, go on at page {left}"
    st.button(
        f"{number}. {escape_markdown(lesson.title)}",
        key=f"start-{lesson.name}",
        width="stretch",
        on_click=open_step,
        args=(lesson.name, left or 1),
    )
    time = minutes(f"{step.text} {step.question}" for step in lesson.steps)
    st.caption(f"{f'**{state}** · ' * bool(state)}{len(lesson.steps)} pages, about {time} minutes")
    with st.container(key=f"teaches-{lesson.name}"):
        st.caption(lesson_markdown(lesson.teaches))
