"""The sentences of the measured corpus in which a neuron is strongest, each to be opened."""

from __future__ import annotations

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.components.row_table import Row, TextPart, row_table
from headwise.viz_app.measuring.neuron_files import neurons_path, read_neurons
from headwise.viz_app.records.measures import Sentence, StrongestSentences
from headwise.viz_app.views.caches import weights_sha256
from headwise.viz_app.views.shared.cache import cached, stamp_of
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.log import log_refusal
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.marked_text import marked_text, whole_tokens
from headwise.viz_app.views.shared.measures import corpus_options, measure_command
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import open_page


def show_strongest(selection: Selection, layer: int, neuron: int) -> None:
    """Draw the sentences of a neuron of the decoder, both counted from 1."""
    run = selection.run
    measured = _measured(selection)
    if isinstance(measured, str):
        st.caption(f"{measured} In a terminal:")
        options = *corpus_options(run, [selection.step]), "--only", "neurons"
        st.code(measure_command(run, *options), language=None, wrap_lines=True)
        return
    rows: list[Row] = []
    opened: list[tuple[Sentence, int]] = []
    sides = (
        side[layer - 1, neuron - 1].tolist() for side in vars(measured.stacks["decoder"]).values()
    )
    for number, position, activation in zip(*sides, strict=True):
        sentence = measured.sentences[number]
        tokens = whole_tokens(run, "target", sentence.reference)
        if not activation or position + 1 >= len(tokens):  # or read otherwise than when measured
            continue
        consumed, predicted = token_labels(tokens)[position : position + 2]
        cells = (
            f"{activation:+.3g}",
            f"{predicted} ← {consumed}",
            marked_text(run, "target", tokens, {position + 1: "query"}),
            sentence.source,
        )
        rows.append(Row(str(len(rows)), cells))
        opened.append((sentence, position))
    st.markdown("Where it is strongest:")
    if not rows:
        st.caption("It was not active in any sentence that was measured.")
        return

    def open_sentence(name: str) -> None:
        sentence, position = opened[int(name)]
        open_page(
            "why",
            sentence=sentence.source,
            target=sentence.reference,
            at=position,
            feed_forward=layer,
            neuron=neuron,
        )

    row_table(
        ["activation", "predicted ← consumed", "target, the reference", "source"],
        rows,
        label=f"Sentences in which neuron {neuron:,} of layer {layer} is strongest",
        theme=selection.theme,
        key="strongest",
        on_click=open_sentence,
        action="Ask here why this token was predicted, this target forced",
        legend=[TextPart("the word that is predicted there", "query")],
    )
    corpus = measured.corpus
    st.caption(
        f"The largest activations in {corpus.sentences:,} sentences "
        f"({escape_markdown(corpus.name)}), at most one a sentence. What a neuron responds to in "
        "these few need not be all that it responds to. Click one to open it."
    )


def _measured(selection: Selection) -> StrongestSentences | str:
    """Return what was measured of the checkpoint, or what is said where that cannot be used."""
    run, step = selection.run, selection.step
    path = neurons_path(run.folder, step)
    if not path.exists():
        return "In which sentences it is strongest was not measured for this checkpoint."
    try:
        measured = cached(
            "neurons read",
            (str(run.folder), step, stamp_of(path)),
            lambda: read_neurons(run.folder, step),
            facts=lambda _: {"run": run.name, "step": step},
        )
        if measured.sha256 == weights_sha256(run, step):
            return measured
        return "The weights have changed since its strongest sentences were measured."
    except CheckpointError as problem:
        log_refusal(problem)
        return describe_error(problem)
