"""Draw the atlas of heads: what each does, sorted by a measure.

Beside it is the chosen head, with the examples where it is strongest and all its measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.head_ranking import (
    correlation_in_words,
    head_values,
    rank_heads,
    rank_ranges,
)
from headwise.viz_app.analysis.labels import KIND_NAMES, ROLES, count_of
from headwise.viz_app.components.row_table import Bar, Row, TextPart, row_table
from headwise.viz_app.heads.compared import (
    apart_note,
    change_note,
    changes_note,
    errors_of_differences,
)
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION
from headwise.viz_app.measuring.wording import WORDS_NOTE, with_error
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.example_rows import marked_row, open_row
from headwise.viz_app.session.head_choice import choose_head, chosen_head, head_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measured_heads import HeadsInWords, errors_note
from headwise.viz_app.session.measures import (
    baselines_note,
    choose_measure,
    corpus_options,
    measure_command,
    measure_description,
    targets_of,
    values_of,
)
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.widgets import choose_one

_COMPARED = {"cost": (MEAN_ABLATION, "gradient"), MEAN_ABLATION: ("cost",), "gradient": ("cost",)}
"""With which other measures of importance the order of heads by a measure is compared."""
_RANKS_NOTE = (
    " Heads whose values differ by less than twice the error of the difference share ranks."
)


def show_atlas(selection: Selection, measures: Measures) -> None:
    """Ask how heads are sorted and filtered, and draw them, and the chosen one beside them."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        name = choose_measure(selection.run, (measures,))
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
            width=130,
            **control("heads_least", "At least", optional=True),
        )
    listed, chosen = st.columns([6, 5], gap="medium")
    with listed:
        _show_list(selection, measures, name, kind, order, least)
    with chosen:
        with st.container(key="atlas-head"):
            choose_head(selection.run.description)
        _show_chosen(selection, measures)


def _show_list(
    selection: Selection,
    measures: Measures,
    name: str,
    kind: Kind | Literal["all"],
    order: str,
    least: float | None,
) -> None:
    """Draw the list of heads by a measure."""
    about = measure_description(name, selection.run, (measures,))
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
        if name == MEAN_ABLATION and least is None:
            options = corpus_options(selection.run, [measures.step])
            st.caption("It takes another pass over the corpus, in a terminal:")
            command = measure_command(selection.run, *options, "--only", "mean-ablation")
            st.code(command, language=None)
        return
    low, high = 0.0, 1.0
    if about.range != "share":
        low = min(0.0, *(value for _, value in found))
        high = max(0.0, *(value for _, value in found)) or -low or 1.0
    ranks, apart, beside_next = _ranks(selection, measures, name, found)
    words = HeadsInWords(selection.run, measures)
    rows = [
        Row(
            _name(head),
            (
                head_label(head).replace(" ", "\u00a0"),  # which a narrow column would break
                *([ranks[place]] if ranks else []),
                Bar(value, words.with_error(name, head, value), low, high),
                words.head(head)[0],
            ),
        )
        for place, (head, value) in enumerate(found)
    ]
    row_table(
        ["head", *["rank"] * bool(ranks), f"{about.name}, {about.unit}".rstrip(", "), "in words"],
        rows,
        label=f"{count_of(len(rows), 'head')} by {about.name}, {order}",
        theme=selection.theme,
        key="head_table",
        chosen=_name(chosen_head(selection.run.description, view())),
        on_click=_choose,
        action="Show its strongest examples",
    )
    if beside_next:
        st.caption(beside_next)
    notes = [
        f"{WORDS_NOTE} {words.by_chance([head for head, _ in found])}",
        errors_note(measures),
        _notes(selection.run, measures, name, [head for head, _ in found]),
        (_RANKS_NOTE + apart) * bool(ranks),
    ]
    with st.expander("Words, errors and ranks", key="how-measured", type="compact"):
        st.caption("\n".join(f"- {note.strip()}" for note in notes if note))


def _ranks(
    selection: Selection, measures: Measures, name: str, found: Sequence[tuple[Head, float]]
) -> tuple[list[str], str, str]:
    """Return the ranks that each head may have by a measure, and how many heads differ.

    Last, by how much the chosen head differs from the next one. All are empty where the errors of
    differences are not known.
    """
    run, heads, values = selection.run, [head for head, _ in found], [value for _, value in found]
    if (known := errors_of_differences(run, measures, name, heads)) is None:
        return [], "", ""
    errors, of = known
    ranges = rank_ranges(values, errors)
    ranks = [f"{first}" if first == last else f"{first}–{last}" for first, last in ranges]
    beside_next, one = "", chosen_head(run.description, view())
    if one in heads[:-1]:
        at = heads.index(one)
        next_one = heads[at + 1]
        difference = with_error(values[at] - values[at + 1], errors[at, at + 1], "+.3f")
        beside_next = f"{head_label(one)} less the next, {head_label(next_one)}: {difference}"
    notes = apart_note(values, errors, of) + changes_note(run, measures, name, heads)
    return ranks, notes, beside_next


def _notes(run: Run, measures: Measures, name: str, heads: Sequence[Head]) -> str:
    """Say what to keep in mind about a measure, with a space before."""
    note = baselines_note(name, run, measures)
    if name in ("cost", MEAN_ABLATION):
        note += " A cost has the standard error that ± says, by 200 resamples of the sentences."
    of_heads = [head_values(measures.values, head) for head in heads]
    for other in _COMPARED.get(name, ()):
        about = measure_description(other, run, (measures,))
        here, there = ([values[of] for values in of_heads] for of in (name, other))
        if both := correlation_in_words(here, there, "heads"):
            note += (
                f" Over these {len(heads)} heads the rank correlation with “{about.name}” is "
                f"{both}."
            )
    return note


def _name(head: Head) -> str:
    return ",".join(map(str, head))


def _choose(name: str) -> None:
    kind, layer, head = name.split(",")
    change_view(kind=kind, layer=int(layer) + 1, head=int(head) + 1)


def _show_chosen(selection: Selection, measures: Measures) -> None:
    """Draw the examples of the head, and its measures."""
    run = selection.run
    head = chosen_head(run.description, view())
    _show_examples(selection, measures, head)
    words = HeadsInWords(run, measures)
    lines = [
        words.value(name, head, value)
        for name, value in head_values(measures.values, head).items()
        if value == value and (name != "distance" or measures.distance_to != measures.step)
    ]
    for name in dict.fromkeys(("cost", view().measure)):
        about = measure_description(name, run, (measures,))
        what = "cost" if name == "cost" else about.name
        lines += filter(None, [change_note(run, measures, name, head, what)])
    with st.expander("All its measures", key="all-measures", type="compact"):
        st.caption("\n".join(f"- {escape_markdown(line)}" for line in lines))


def _show_examples(selection: Selection, measures: Measures, head: Head) -> None:
    kind, run = head[0], selection.run
    found = measures.examples.get(head, ())
    if not found:
        st.caption("No example of this head was kept.")
        return
    rows = []
    for place, example in enumerate(found):
        spans = marked_row(run, measures, example.sentence, kind, example.query, [example.key])
        rows.append(Row(str(place), (f"{example.weight:.3f}", *spans)))

    def open_example(name: str) -> None:
        example = found[int(name)]
        open_row(measures, head, example.sentence, example.query)

    roles = [TextPart(text, mark) for text, mark in zip(ROLES[kind], ("query", "key"), strict=True)]
    row_table(
        ["weight", "source", f"target: {targets_of(measures)}"],
        rows,
        label=f"Strongest examples of {head_label(head)}",
        theme=selection.theme,
        key="example_table",
        on_click=open_example,
        action="Open on Translate, this target forced",
        legend=roles,
    )
    corpus = measures.examples_corpus
    st.caption(
        f"Its largest weights in {corpus.sentences:,} sentences ({escape_markdown(corpus.name)}), "
        "at most one a sentence: its extremes, not what it does in most rows. Click one to open it "
        "on Translate, with this target forced."
    )
