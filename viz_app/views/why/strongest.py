"""The sentences of the measured corpus in which a neuron is strongest, each to be opened."""

from __future__ import annotations

from pathlib import Path

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
    measured = _measured(selection)
    if measured is None:
        return
    places = measured.stacks["decoder"]
    if not (layer <= places.sentence.shape[0] and neuron <= places.sentence.shape[1]):
        _ask_to_measure(selection, "The sentences that were measured are of another model.")
        return
    at = (layer - 1, neuron - 1)
    run = selection.run
    rows: list[Row] = []
    targets: dict[str, tuple[Sentence, int]] = {}
    for number, position, activation in zip(
        *(side[at].tolist() for side in (places.sentence, places.position, places.activation)),
        strict=True,
    ):
        sentence = measured.sentences[number]
        tokens = whole_tokens(run, "target", sentence.reference)
        if not activation or position + 1 >= len(tokens):  # or read otherwise than when measured
            continue
        consumed, predicted = token_labels(tokens)[position : position + 2]
        rows.append(
            Row(
                str(len(rows)),
                (
                    f"{activation:+.3g}",
                    f"{predicted} ← {consumed}",
                    marked_text(run, "target", tokens, {position + 1: "query"}),
                    sentence.source,
                ),
            )
        )
        targets[rows[-1].name] = sentence, position
    st.markdown("Where it is strongest:")
    if not rows:
        st.caption("It was not active in any sentence that was measured.")
        return

    def open_sentence(name: str) -> None:
        sentence, position = targets[name]
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


def _measured(selection: Selection) -> StrongestSentences | None:
    """Return what was measured of the checkpoint; where it is missing or unusable, say so."""
    run, step = selection.run, selection.step
    path = neurons_path(run.folder, step)
    if not path.exists():
        _ask_to_measure(
            selection, "In which sentences it is strongest was not measured for this checkpoint."
        )
        return None
    try:
        measured = _read(run.folder, step, path)
        if measured.sha256 == weights_sha256(run, step):
            return measured
        said = "The weights have changed since its strongest sentences were measured."
    except CheckpointError as problem:
        log_refusal(problem)
        said = describe_error(problem)
    _ask_to_measure(selection, said)
    return None


def _read(folder: Path, step: int, path: Path) -> StrongestSentences:
    return cached(
        "neurons read",
        (str(folder), step, stamp_of(path)),
        lambda: read_neurons(folder, step),
        entries=4,
        facts=lambda _: {"run": folder.name, "step": step},
    )


def _ask_to_measure(selection: Selection, said: str) -> None:
    st.caption(f"{said} In a terminal:")
    command = measure_command(
        selection.run, *corpus_options(selection.run, [selection.step]), "--only", "neurons"
    )
    st.code(command, language=None, wrap_lines=True)
