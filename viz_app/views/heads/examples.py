"""One head: all its measures, and the places in the example sentences where it is strongest."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.head_words import in_words, values_of
from viz_app.analysis.marked_words import ROLES, marked_places, marked_words
from viz_app.components.picks import Row, Span, Spans, picks
from viz_app.measure_records import Measures
from viz_app.records import Head, Tokens
from viz_app.trace import to_tokens
from viz_app.views._session import Selection
from viz_app.views._widgets import panel, plain, redraw_all
from viz_app.views.choice import choose_head, head_label
from viz_app.views.opening import open_on_translate


@panel("head_examples")
def show_examples(selection: Selection, measures: Measures) -> None:
    """Let a head be chosen, and draw what is known of it."""
    config = selection.run.info.model
    st.markdown("##### One head and its strongest examples")
    head = choose_head(config.n_layers, config.n_heads, on_change=redraw_all)
    measured, examples = st.columns([2, 5], gap="large")
    with measured:
        values = values_of(measures.values, head)
        lines = [in_words(name, head[0], value) for name, value in values.items() if value == value]
        st.markdown(f"**{head_label(head)}**")
        st.caption("\n".join(f"- {plain(line)}" for line in lines))
        st.button(
            "Open it on Translate",
            key="open_head",
            icon=":material/open_in_new:",
            on_click=lambda: open_on_translate(head, step=selection.step),
        )
    with examples:
        _show_examples(selection, measures, head)


def _show_examples(selection: Selection, measures: Measures, head: Head) -> None:
    kind, info = head[0], selection.run.info
    found = measures.examples.get(head, ())
    if not found:
        st.caption("No example of this head was kept.")
        return
    rows = []
    for place, example in enumerate(found):
        sentence = measures.sentences[example.sentence]
        marks = marked_places(kind, example)
        texts = (_tokens(selection, "source", sentence.source), info.source_language)
        others = (_tokens(selection, "target", sentence.reference), info.target_language)
        spans = [
            Spans(_spans(tokens, mark), language)
            for (tokens, language), mark in zip((texts, others), marks, strict=True)
        ]
        rows.append(Row(str(place), (f"{example.weight:.3f}", *spans)))

    def open_example(name: str) -> None:
        sentence = measures.sentences[found[int(name)].sentence]
        open_on_translate(
            head, step=selection.step, sentence=sentence.source, target=sentence.reference
        )

    roles = [Span(text, mark) for text, mark in zip(ROLES[kind], ("query", "key"), strict=True)]
    picks(
        ["weight", "source", "target, the reference"],
        rows,
        label=f"Strongest examples of {head_label(head)}",
        theme=selection.theme,
        key="example_picks",
        on_pick=open_example,
        action="Open on Translate, this target forced",
        legend=roles,
    )
    corpus = measures.examples_corpus
    st.caption(
        f"The largest weights of this head in {corpus.sentences:,} sentences "
        f"({plain(corpus.name)}), at most one a sentence. A weight is of two pieces; the words "
        "that they belong to are marked. Click one to open it on Translate, with the reference as "
        "the target."
    )


def _tokens(selection: Selection, side: str, text: str) -> Tokens:
    tokenizers = selection.run.tokenizers
    if side == "source":
        return to_tokens(tokenizers.source, tokenizers.encode_source(text.strip()))
    return to_tokens(tokenizers.target, tokenizers.encode_target(text.strip()))


def _spans(tokens: Tokens, marks: dict[int, str]) -> tuple[Span, ...]:
    """Marked words, and the text between them in one piece each."""
    spans: list[Span] = []
    between = ""
    for word in marked_words(tokens, marks):
        between += word.before
        if not word.mark:
            between += word.text
            continue
        spans += [Span(between)] * bool(between) + [Span(word.text, word.mark)]
        between = ""
    return (*spans, *([Span(between)] * bool(between)))
