"""Draw the atlas of heads: what each does, sorted by a measure, and beside it the chosen one."""

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
from headwise.viz_app.analysis.labels import KIND_NAMES, count_of
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.heads.compared import apart_note, changes_note, errors_of_differences
from headwise.viz_app.views.heads.examples import show_examples
from headwise.viz_app.views.shared.head_choice import chosen_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measured_heads import (
    errors_note,
    head_in_words,
    value_with_error,
    words_note,
)
from headwise.viz_app.views.shared.measures import (
    baselines_note,
    choose_measure,
    corpus_options,
    measure_command,
    measure_description,
    values_of,
)
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, control, view
from headwise.viz_app.views.shared.widgets import choose_one

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
    listed, head = st.columns([6, 5], gap="medium")
    with listed:
        _show_list(selection, measures, name, kind, order, least)
    with head:
        show_examples(selection, measures)


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
    ranks, apart = _ranks(selection.run, measures, name, found)
    rows = [
        Row(
            _name(head),
            (
                head_label(head),
                *([ranks[place]] if ranks else []),
                Bar(value, value_with_error(selection.run, measures, name, head, value), low, high),
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
        action="Show its strongest examples",
    )
    with st.expander("Words, errors and ranks", key="how-measured", type="compact"):
        st.caption(
            words_note(selection.run, measures, [head for head, _ in found])
            + errors_note(measures)
            + _notes(selection.run, measures, name, [head for head, _ in found])
            + (_RANKS_NOTE + apart) * bool(ranks)
        )


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
