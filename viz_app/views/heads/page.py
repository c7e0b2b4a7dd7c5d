"""Draw the page Heads: the heads of a checkpoint, examples of one, and sentences.

Heads have what their measures say, sorted by one of them; sentences are listed by a sign that their
translation may have failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.failures import (
    FAILURE_DESCRIPTIONS,
    compare_with_chrf,
    worst_first,
)
from headwise.viz_app.analysis.head_ranking import (
    correlation_in_words,
    head_values,
    rank_heads,
    rank_ranges,
)
from headwise.viz_app.analysis.labels import KIND_NAMES, count_of
from headwise.viz_app.components.row_table import Bar, MarkedText, Row, TextPart, row_table
from headwise.viz_app.heads.alike.section import show_alike
from headwise.viz_app.heads.composition.section import show_composition
from headwise.viz_app.heads.dictionary.section import show_writes
from headwise.viz_app.heads.plane.section import show_plane
from headwise.viz_app.heads.rows.section import show_find
from headwise.viz_app.heads.together.section import show_together
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import FAILURES, Measures
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.heads.compared import (
    apart_note,
    changes_note,
    errors_of_differences,
)
from headwise.viz_app.views.heads.examples import show_examples
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.head_choice import chosen_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measured_heads import (
    error_of,
    errors_note,
    head_in_words,
    value_in_words,
    words_note,
)
from headwise.viz_app.views.shared.measures import (
    baselines_note,
    choose_measure,
    measure_description,
    measures_of,
    show_measure_state,
    targets_of,
    values_of,
)
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, control, view
from headwise.viz_app.views.shared.vocabulary import special_tokens_of
from headwise.viz_app.views.shared.widgets import choose_one, open_page, show_heading

_PANELS = (
    "head_examples",
    "head_list",
    "head_alike",
    "head_found",
    "head_plane",
    "head_writes",
)
"""Panels that depend on the chosen head; the first has its widgets."""
_RANKS_NOTE = (
    " Heads whose values differ by less than twice the error of the difference share ranks."
)
_MOST = 50
"""Most sentences that are listed."""


def page(selection: Selection) -> None:
    """Draw the page."""
    measured = measures_of(selection.run, (selection.step,))
    show_measure_state(selection, measured)
    measures = measured.by_step.get(selection.step)
    if measures is not None:
        show_list(selection, measures)
        show_examples(selection, measures)
        show_alike(selection, measures)
        show_find(selection, measures)
        show_plane(selection, measures)
        show_writes(selection, measures)
    show_composition(selection)  # of weights alone
    if measures is not None:
        show_together(selection, measures)
        show_failures(selection, measures)
    show_download_menu(selection)


@panel("head_list")
def show_list(selection: Selection, measures: Measures) -> None:
    """Draw the list of heads, and ask how it is sorted and filtered."""
    show_heading(f"What the heads do at checkpoint {selection.step:,}")
    what, how = st.columns([2, 3], gap="large")
    with what:
        name = choose_measure(selection.run, (measures,))
    about = measure_description(name, selection.run, (measures,))
    with how, st.container(horizontal=True, gap="small"):
        kind: Kind | Literal["all"] = choose_one(
            "Attention",
            ("all", *KINDS),
            key="heads_kind",
            format_func=lambda kind: "all kinds" if kind == "all" else KIND_NAMES[kind],
        )
        order = choose_one("Order", ["largest first", "smallest first"], key="heads_order")
        least = st.number_input(
            "At least",
            value=None,
            step=0.05,
            format="%.3f",
            placeholder="any",
            help="Only heads whose value of the measure is at least this.",
            width=160,
            **control("heads_least", "At least", optional=True),
        )
    found = rank_heads(
        values_of(selection.run, measures, name),
        kinds=KINDS if kind == "all" else (kind,),
        descending=order == "largest first",
        least=least,
    )
    if not found:
        st.info(
            f"No head has a value of “{escape_markdown(about.name)}” here"
            + ("." if least is None else f" of {least:.3f} or more.")
        )
        return
    low, high = 0.0, 1.0
    if about.range != "share":
        low = min(0.0, *(value for _, value in found))
        high = max(0.0, *(value for _, value in found)) or -low or 1.0
    ranks, apart = _ranks(selection.run, measures, name, found)
    rows = [
        Row(
            _name(head),
            (
                head_label(head),
                *([ranks[place]] if ranks else []),
                Bar(value, _written(selection.run, measures, name, head, value), low, high),
                head_in_words(selection.run, measures, head)[0],
            ),
        )
        for place, (head, value) in enumerate(found)
    ]
    row_table(
        ["head", *["rank"] * bool(ranks), about.name, "in words"],
        rows,
        label=f"{count_of(len(rows), 'head')} by {about.name}, {order}",
        theme=selection.theme,
        key="head_table",
        chosen=_name(chosen_head(selection.run.description, view())),
        on_click=_choose,
        action="Show its strongest examples below",
    )
    st.caption(
        f"{count_of(len(rows), 'head')}: kind, layer.head. Click one for its strongest examples. "
        "Its words say what is most striking in its measures; all its measures stand below."
    )
    with st.expander("Words, errors and ranks", key="how-measured", type="compact"):
        st.caption(
            words_note(selection.run, measures, [head for head, _ in found])
            + errors_note(measures)
            + _notes(selection.run, measures, name, [head for head, _ in found])
            + (_RANKS_NOTE + apart) * bool(ranks)
        )


def _written(run: Run, measures: Measures, name: str, head: Head, value: float) -> str:
    if name == "emergence":  # a checkpoint alone does not say since when
        return value_in_words(run, measures, name, head, value).removeprefix("emerged ")
    form = measure_description(name, run, (measures,)).form
    if name == "cost" or name in measures.errors:
        return with_error(value, error_of(measures, name, head), form.replace(".2f", ".3f"))
    return f"{round(value, 3) + 0.0:{form}}"


def _ranks(
    run: Run, measures: Measures, name: str, found: Sequence[tuple[Head, float]]
) -> tuple[list[str], str]:
    """Return the ranks that each head may have by a measure, and how many heads differ.

    None where the errors of differences are not known.
    """
    heads, values = [head for head, _ in found], [value for _, value in found]
    if (known := errors_of_differences(run, measures, name, heads)) is None:
        return [], ""
    errors, of = known
    ranges = rank_ranges(values, errors)
    ranks = [f"{first}" if first == last else f"{first}–{last}" for first, last in ranges]
    return ranks, apart_note(values, errors, of) + changes_note(run, measures, name, heads)


def _notes(run: Run, measures: Measures, name: str, heads: Sequence[Head]) -> str:
    """Say what to keep in mind about a measure, with a space before."""
    note = baselines_note(name, run, measures)
    if name == "cost":
        note += " A cost has the standard error that ± says, by 200 resamples of the sentences."
    if name in ("cost", "gradient"):
        of_heads = [head_values(measures.values, head) for head in heads]
        costs, gradients = ([v[of] for v in of_heads] for of in ("cost", "gradient"))
        if both := correlation_in_words(costs, gradients, "heads"):
            note += (
                f" Over these {len(heads)} heads the rank correlation of the cost with the "
                f"importance by gradient is {both}."
            )
    return note


def _name(head: Head) -> str:
    return ",".join(map(str, head))


def _choose(name: str) -> None:
    kind, layer, head = name.split(",")
    change_view(*_PANELS, kind=kind, layer=int(layer) + 1, head=int(head) + 1)


@panel("failures")
def show_failures(selection: Selection, measures: Measures) -> None:
    """Ask for a kind of failure, and list its worst sentences."""
    heading = st.empty()
    name = choose_one(
        "By",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: FAILURE_DESCRIPTIONS[name].name,
    )
    about = FAILURE_DESCRIPTIONS[name]
    with heading:
        show_heading(f"Sentences that may be translated badly, by {about.name}")
    figures = [translated.figures[name] for translated in measures.translated]
    sources = [sentence.source for sentence in measures.sentences]
    found = worst_first(figures, sources)
    if found:
        _show_table(selection, measures, name, found[:_MOST])
    else:
        st.info(about.none)
    note = special_tokens_of(selection.run).name_in(about.note)
    scores = [translated.chrf for translated in measures.translated]
    more = f", {_MOST} of {len(found)}" if len(found) > _MOST else ""
    by = "Lower than in most sentences that are about as long first"
    listed = f" {by}{more}. Click one to open it on Translate." if found else ""
    st.caption(escape_markdown(f"{note}{listed} {about.blind}"))
    with st.expander("How well this order finds them", key="how-well", type="compact"):
        st.caption(compare_with_chrf(figures, scores, sources))


def _show_table(selection: Selection, measures: Measures, name: str, order: list[int]) -> None:
    """Draw the table of some sentences, by their indices, with a figure of each."""
    run, about = selection.run, FAILURE_DESCRIPTIONS[name]

    def text(content: str, language: str) -> MarkedText:
        return MarkedText((TextPart(content),), language)

    rows = []
    for place in order:
        sentence, translated = measures.sentences[place], measures.translated[place]
        cells = (
            f"{round(translated.figures[name], 2) + 0.0:.2f}",  # no -0.00
            text(sentence.source, run.source_language),
            text(translated.translation or "(no text)", run.target_language),
            text(sentence.reference, run.target_language),
        )
        rows.append(Row(str(place), cells))
    row_table(
        [
            about.column,
            "source",
            f"translation at checkpoint {selection.step:,}",
            targets_of(measures),
        ],
        rows,
        label=f"Sentences by {about.name}",
        theme=selection.theme,
        key="failure_table",
        on_click=lambda place: open_page(
            "translate",
            sentence=measures.sentences[int(place)].source,
            target="",
            decoding="greedy",
        ),
        action="Open on Translate",
    )
