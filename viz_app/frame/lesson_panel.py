"""Draw the panel of the lesson that is on: what to look at, a question, and where to go on."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from html import escape

import streamlit as st

from headwise.model.interface import Description, Head
from headwise.model.ties import descending
from headwise.model.turned import Turned
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.analysis.labels import count_of, numbered
from headwise.viz_app.core.circuits import score_parts
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.lessons.question import (
    Asked,
    Compared,
    Question,
    first_difference,
    heaviest_row,
    most_changed_row,
    place_of,
)
from headwise.viz_app.lessons.questions import Way, ask, read_parameters
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.lessons.vector_questions import scaled_row
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.caches import Run, head_costs_of, log_of, trace_of
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.head_choice import chosen_head, head_label
from headwise.viz_app.session.lessons import (
    answered,
    fitting_runs,
    has_end,
    leave_lesson,
    missing,
    note_answered,
    open_step,
    progress_of,
    served_lessons,
    way_of,
)
from headwise.viz_app.session.markdown import escape_markdown, lesson_markdown
from headwise.viz_app.session.pairs import pairs_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.parts import bring_into_view, dim_others, style_lesson, tell_height
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.state import View
from headwise.viz_app.session.target import shown_trace
from headwise.viz_app.session.view import change_view, checked, current_page, fill_in, view
from headwise.viz_app.session.vocabulary import token_name
from headwise.viz_app.session.widgets import PAGE_TITLES, choose_on_slider, show_figure
from headwise.viz_app.session.written import written_here
from headwise.viz_app.why.sentences.section.pair import patched_pair_of
from headwise.viz_app.why.word.section.asked import asked_account, compared_words

_HINTS: dict[Way, str] = {
    "cell": "Answer in the page: click a cell of the large map, or press Enter on it.",
    "row": "Answer in the page: click a row of the large map, or press the space bar in it.",
    "source": "Answer in the page: click a token of the source.",
    "target": "Answer in the page: click a token of the translation, above the maps.",
    "head": "Answer in the page: click a head in a picture of all heads.",
}
_CURVES = ("valid_loss", "train_sample_loss", "bleu", "chrf")
_MOST_BARS = 4


def show_lesson(selection: Selection) -> None:
    """Draw the panel in the frame of a page, if a lesson is on.

    Its places in the sentence are found here, before the page is drawn.
    """
    if checked("lesson", "Lesson", usable=lambda name: name in served_lessons().lessons) is None:
        return
    lesson = served_lessons().lessons[view().lesson or ""]
    pages = range(1, len(lesson.steps) + 1 + has_end(lesson))
    number = checked("lesson_step", "Page of the lesson", default=1, usable=pages.__contains__)
    fill_in(lesson_step=number)
    style_lesson(selection.theme)
    with st.container(key="lesson", border=True):
        _show_panel(selection, lesson)


@panel("lesson-panel")
def _show_panel(selection: Selection, lesson: Lesson) -> None:
    number = view().lesson_step
    if number > len(lesson.steps):
        _show_end(lesson, number)
        return
    step = lesson.steps[number - 1]
    _show_place(lesson, number, f"page {number} of {len(lesson.steps)}")
    st.markdown(f"## {escape_markdown(step.title)}")
    if lacks := missing(lesson, selection.run):
        _offer_runs(lesson, selection.run, lacks, number)
        _show_ways_on(lesson, number, answered_right=False)
        return
    page, right = current_page(), False
    if page == step.page:
        dim_others(page, step.bright)
        bring_into_view(page, step.bright, f"{lesson.name} {number}")
    else:
        st.caption(f"This is about the page {PAGE_TITLES[step.page]}.")
    with show_user_errors():
        trace = shown_trace(selection)
        _find_places(selection.run, trace)
        found = in_slices(
            "Finding the answer",
            lambda note_done: _ask(selection, page, step, trace, note_done),
            key="lesson-progress",
            stop=lambda: leave_lesson(finished=False),
        )
        if found is not None:
            asked, question = found
            st.markdown(lesson_markdown(step.text, question.names))
            if step.lever == "factor":
                _show_factor(selection, asked)
            with st.container(key="lesson-question", gap="small"):
                st.markdown(lesson_markdown(step.question, question.names))
                right = _show_answers(step, question)
            if right:
                note_answered(lesson, number)
    _show_ways_on(lesson, number, answered_right=right)


def _ask(
    selection: Selection, page: str, step: Step, trace: Trace, note_done: NoteDone
) -> tuple[Asked, Question]:
    """Ask the question of a step of what the page shows."""
    run = selection.run
    rows = log_of(run.folder, "metrics.jsonl")
    asked = replace(
        shown_on(page, view(), run.description, trace),
        curves={name: curve_of(rows, name) for name in _CURVES},
        costs=lambda: head_costs_of(run, selection.step, selection.text, trace.target_ids),
        pairs=lambda: pairs_of(run).measured,
        turned=lambda: trace_of(
            run, selection.step, selection.text, trace.target_ids, turned=Turned(view().strengths)
        ),
        account=lambda: _compared(selection, trace),
        patched_pair=lambda: patched_pair_of(selection, trace, note_done),
        score_parts=lambda head, row: ask_trace(score_parts, run, trace, head, row),
        written=partial(written_here, run, trace),
    )
    return asked, ask(step.ask, read_parameters(step.ask, step.parameters), asked)


def shown_on(page: str, shown: View, model: Description, trace: Trace) -> Asked:
    """Return what a question is asked of: a trace, and what the view has chosen on a page."""
    kind, inside = shown.kind, page == "inside"
    row = 0 if kind == "encoder_self" else shown.at
    if inside and shown.inside.query is not None:
        row = shown.inside.query
    rows, columns = trace.attention[kind].shape[-2:]
    column = shown.inside.key if inside else shown.column
    return Asked(
        trace,
        model,
        chosen_head(model, shown),
        row=min(row, rows - 1),
        column=column if column is not None and column < columns else None,
        cells="weight" if inside else shown.translate.cells,
        show="head" if inside else shown.translate.show,
    )


def _compared(selection: Selection, trace: Trace) -> Compared:
    """Return why the chosen token was written, and not the other word that is chosen."""
    account = asked_account(selection, trace)
    return Compared(account, *compared_words(selection.run, account))


def _find_places(run: Run, trace: Trace) -> None:
    """Put into the view the places in the sentence that a step has named by a word."""
    words: dict[str, str] = st.session_state.pop("places_to_find", {})
    chosen = chosen_head(run.description, view())
    weights = trace.attention[chosen.kind][chosen.layer, chosen.head]
    counts = {"at": len(trace.consumed), "query": len(weights)}
    for field, word in words.items():
        if word == "heaviest":
            place = heaviest_row(weights, trace, chosen.kind)
        elif word == "changed":
            place = most_changed_row(trace, chosen)
        else:
            place = place_of(word, counts.get(field, weights.shape[1]))
        fill_in(**{field: place})
    if other := st.session_state.pop("other_target", ""):
        ids = run.tokenizers.encode_target(other)
        at, instead = first_difference(trace.target_ids, ids)
        fill_in(at=at, instead=token_name(instead))


def _offer_runs(lesson: Lesson, run: Run, lacks: list[str], number: int) -> None:
    """Say what a lesson needs that the run lacks, and offer runs that have it."""
    st.markdown(
        escape_markdown(f"This lesson needs {', '.join(lacks)}: {run.name} is or has none of it.")
    )
    fitting = fitting_runs(lesson)
    for name in fitting[:3]:
        st.button(
            f"Open {escape_markdown(name)}",
            key=f"lesson-run-{name}",
            on_click=open_step,
            args=(lesson.name, number),
            kwargs={"run": name},
        )
    if not fitting:
        st.caption("No run of this app has it: leave the lesson, or start the app with such a run.")


def _show_factor(selection: Selection, asked: Asked) -> None:
    """Ask for a factor of the scores of the chosen row, and draw the weights that it makes."""
    width = asked.trace.queries[asked.head.kind].shape[-1]
    factors = sorted({0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, round(math.sqrt(width), 2)})
    factor = choose_on_slider("Scores times", factors, key="factor", format_func="{:g}".format)
    keys = asked.keys_of(asked.row_of("chosen"))
    labels = numbered(asked.grid.columns)
    weights = scaled_row(asked, factor=factor)
    most = sorted(descending(scaled_row(asked))[:_MOST_BARS].tolist())
    names = [labels[keys[i]] for i in most]
    values = [float(weights[i]) for i in most]
    if len(weights) > len(most):
        names.append(count_of(len(weights) - len(most), "other"))
        values.append(1 - sum(values))
    show_figure(
        bar_chart(
            names, values, theme=selection.theme, written=[f"{value:.2f}" for value in values]
        ),
        key="factor_weights",
        alt=f"Weights of the row with its scores times {factor:g}: "
        + ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values, strict=True)),
    )


def _show_answers(step: Step, question: Question) -> bool:
    """Draw ways to answer, and what there is to say to the answer; return whether it is right."""
    way, given = way_of(step), view().lesson_answer
    if way is not None:
        st.caption(_HINTS[way])
        if way == "head" and (layer := view().layer) is not None:  # for those who use no mouse
            head = Head(view().kind, layer - 1, view().head - 1)
            st.button(
                f"Answer with the chosen head: {head_label(head)}",
                key="lesson-head",
                on_click=lambda: change_view(**answered("head", head.layer, head.head)),
            )
    else:
        with st.container(horizontal=True, gap="small", key="lesson-choices"):
            for i, choice in enumerate(question.choices):
                st.button(
                    escape_markdown(choice.label),
                    key=f"lesson-choice-{i}",
                    type="primary" if choice.place == given else "secondary",
                    on_click=change_view,
                    kwargs={"lesson_answer": choice.place},
                )
    if given is None:
        return False
    right = question.is_right(given)
    reason = escape_markdown(question.reason(given))
    if right:
        st.success(f"**Right.** {reason}", icon=":material/check:")
    else:
        st.warning(f"**Not so.** {reason}", icon=":material/undo:")
    return right


def _show_place(lesson: Lesson, number: int, place: str) -> None:
    """Write the name of a lesson, and which of its pages is open."""
    st.html(f'<p role="status">{escape(lesson.title)}: {place}</p>')
    tell_height(f"{lesson.name} {number}")


def _show_end(lesson: Lesson, number: int) -> None:
    """Draw what was learned, each sentence with a way to where it is seen, and what is left."""
    _show_place(lesson, number, "what was learned")
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
    _show_ways_on(lesson, number, answered_right=not left)


def _show_ways_on(lesson: Lesson, number: int, *, answered_right: bool) -> None:
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
