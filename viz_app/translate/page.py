"""Draw the page Translate: the tokens, the translation, its heads, and each step of decoding."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.model.interface import KINDS, Kind
from headwise.model.turned import Turned
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.components.unseen import is_in_sight
from headwise.viz_app.figures.html import folded_text
from headwise.viz_app.records.trace import Trace, shorten_all
from headwise.viz_app.session.caches import Beam, trace_of, translation_of
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.lessons import answered, goes_on_at, open_step, served_lessons
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import (
    SCORE,
    Target,
    beside_sentence,
    choose_decoding,
    choose_target,
    describe_ending,
    source_buttons,
    target_buttons,
    total_log_probability,
    word_probabilities,
)
from headwise.viz_app.session.turns import let_browser_draw
from headwise.viz_app.session.view import change_view, control, fill_in, note_timer_rerun, view
from headwise.viz_app.session.widgets import choose_on_slider, choose_one
from headwise.viz_app.translate.ablation import show_ablation
from headwise.viz_app.translate.beam import show_beam_beside, show_tree
from headwise.viz_app.translate.given import beside_references
from headwise.viz_app.translate.heads import show_heads
from headwise.viz_app.translate.shown_map import chosen_grid_options
from headwise.viz_app.translate.sinks.section import show_sinks
from headwise.viz_app.translate.step import STEP_PANELS, show_step

_WORDS_NOTE = "Words are in the maps only: above are tokens, and below them their words."


def page(selection: Selection) -> None:
    with st.sidebar:
        size = choose_decoding(selection.run)
    with beside_sentence():
        translation = st.container(key="translation")
    target = choose_target(selection, size)
    with st.sidebar:
        second_step = _choose_second_step(selection)
        lesson = st.container()
    grid_options = chosen_grid_options()
    own = _show_translation(selection, target, translation)
    first, second, shared = own, None, ""
    if second_step is not None:
        shared, common = _shared_target(selection, target, second_step)
        first, second = (
            trace_of(selection.run, step, selection.text, common)
            for step in (selection.step, second_step)
        )
    grids = {kind: make_grid(first, kind, grid_options) for kind in KINDS}
    show_heads(selection, first, second, grids, shared=shared)
    with lesson:
        _offer_lesson()  # for which all lessons are read, once
    let_browser_draw()
    st.caption(
        _describe(selection, own, target), help=_WORDS_NOTE if view().units == "words" else None
    )
    _show_below(selection, own, first, target, grids)
    show_download_menu(selection, own, grid_options)


def _choose_second_step(selection: Selection) -> int | None:
    others = [step for step in selection.run.steps() if step != selection.step]
    if not others:
        return None
    label = "Compare with another checkpoint"
    if not st.toggle(label, **control("compare", label)):
        return None
    if len(others) == 1:
        return others[0]
    return choose_on_slider(
        "Second checkpoint",
        others,
        key="second",
        default=others[len(others) // 2],
        format_func="{:,}".format,
    )


def _shared_target(
    selection: Selection, target: Target, second_step: int
) -> tuple[str, tuple[int, ...]]:
    """Return a comparison's target and its name: the given one, or the newer translation."""
    if target.ids is not None:
        return target.description, target.ids
    newest = max(selection.step, second_step)
    ids = translation_of(selection.run, newest, selection.text)
    return f"the translation at checkpoint {newest:,}", ids


def _show_translation(selection: Selection, target: Target, place: DeltaGenerator) -> Trace:
    run = selection.run
    trace = trace_of(run, selection.step, selection.text, target.ids)
    with place:
        st.html(folded_text(trace.target_text or "(no text)"))
    show_tokens(selection, trace)
    if remarks := _remarks(selection, trace):
        st.caption(" ".join(remarks))
    return trace


def _remarks(selection: Selection, trace: Trace) -> list[str]:
    """Return what is out of the ordinary with a sentence or its translation."""
    run, remarks = selection.run, []
    if run.data is not None and len(trace.source) > run.data.longest_source:
        remarks.append(
            f"{len(trace.source)} tokens: longer than anything seen in training "
            f"({run.data.longest_source})."
        )
    if unknown := run.tokenizers.source.unknown(selection.text):
        words = escape_markdown(" · ".join(shorten_all(unknown)))
        remarks.append(f"Not in the vocabulary, so the model reads \\<unk\\>: {words}.")
    if ending := describe_ending(run, trace):
        remarks.append(ending)
    return remarks


def _describe(selection: Selection, trace: Trace, target: Target) -> str:
    total = total_log_probability(trace)
    said = (
        f"Log-probability of {target.description}: {total:.2f} nats, "
        f"{total / len(trace.predicted):.2f} a token."
    )
    if target.beam is not None:
        score = target.beam.hypotheses[target.hypothesis].score
        said += f" Its score in the beam, {score:.2f}, is the {SCORE}."
    elif target.ids is not None and (beside := beside_references(selection, trace)):
        said += f" {beside}"
    return said


def _offer_lesson() -> None:
    """Offer the lesson that was begun and left, or the first one to those who have begun none."""
    shown, lessons = view(), served_lessons().lessons
    if shown.lesson is not None or not lessons:
        return
    places = {name: goes_on_at(lesson) for name, lesson in lessons.items()}
    left = {name: at for name, at in places.items() if at is not None}
    if shown.lessons and not left:
        return
    name, at = next(iter((left or {next(iter(lessons)): 1}).items()))
    what = f"Go on at page {at}" if left else "First lesson"
    st.button(
        f"{what}: {escape_markdown(lessons[name].title)}",
        key="first-lesson",
        type="tertiary",
        icon=":material/school:",
        on_click=open_step,
        args=(name, at),
    )


@panel("below")
def _show_below(
    selection: Selection, shown: Trace, first: Trace, target: Target, grids: Mapping[Kind, Grid]
) -> None:
    """Draw the chosen one of the sections below the maps; the others are not computed.

    Nor is it, before a person has scrolled to it or chosen something in it.
    """
    section = _choose_section(target.beam)
    own = view().translate
    chosen = own.below or view().at or own.fork or view().strengths or own.rank
    if not chosen and not is_in_sight("below_maps", on_seen=note_timer_rerun):
        return
    if section == "steps":
        if target.ids is None and not own.compare and not own.fork:
            show_beam_beside(selection, first)
        show_step(selection, first, grids)
    elif section == "off":
        show_ablation(selection, shown)
    elif section == "sinks":
        show_sinks(selection, shown)
    elif target.beam is not None:
        show_tree(selection, target.beam, target.hypothesis)


def _choose_section(beam: Beam | None) -> str:
    """Ask for a section: at first that of which the link has choices."""
    own = view().translate
    turned = Turned(view().strengths)
    counts = {"off": len(turned.are_off), "turned": len(turned.strengths) - len(turned.are_off)}
    said = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    names = {
        "steps": "Generation",
        "beam": "Beam",
        "off": "Switch heads off, rank them" + f" ({said})" * bool(said),
        "sinks": "Attention sinks",
    }
    section = choose_one(
        "Below the maps",
        [name for name in names if name != "beam" or beam is not None],
        key="below",
        default="off" if turned or own.rank else "steps",
        format_func=names.__getitem__,
        show_label=False,
    )
    if section != "steps":
        fill_in(below=section)
    return section


@panel("tokens")
def show_tokens(selection: Selection, trace: Trace) -> None:
    """Draw the tokens of a trace; a click marks a column of the map, or chooses a step."""

    def mark_column(place: int, column: int | None) -> None:
        change_view("tokens", "heads", column=column, **answered("source", place))

    def choose_step(place: int) -> None:
        answer = answered("target", place) | answered("row", place)
        change_view(*STEP_PANELS, at=place, below="steps", **answer)

    with st.container(horizontal=True, gap="small", key="tokens-row"):
        source_buttons(
            selection, trace, does="each marks its column in the map", on_mark=mark_column
        )
        target_buttons(
            selection,
            trace,
            does="each chooses its position",
            on_click=choose_step,
            chosen=view().at,
            words=word_probabilities(trace),
            side="target",
        )
