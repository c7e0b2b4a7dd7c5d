"""A feed-forward by neuron: which spoke for the word, what drove one, and where it is strongest."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import three_digits, token_labels
from headwise.viz_app.components.row_table import Row, TextPart, row_table
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.measuring.tensor_files import neurons_path, read_neurons
from headwise.viz_app.records.measures import StrongestSentences
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.cache import cached, stamp_of
from headwise.viz_app.session.caches import weights_sha256
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.example_rows import marked_text, whole_tokens
from headwise.viz_app.session.log import log_refusal
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import corpus_options, measure_command
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.vocabulary import target_labels
from headwise.viz_app.session.widgets import choose_one, clicked_value, open_page, show_figure
from headwise.viz_app.why.word.account import Account, Parts, run_drivers, run_neuron_words
from headwise.viz_app.why.word.bars import bar_arguments, largest_bars, neuron_bars

_MOST_DRIVERS = 10
_WORDS = 8
_OFF = 0.0005
"""Activation below which a neuron is as good as off: it rounds to 0."""
_INPUTS = {"expand": "the input", "gate": "the factor"}
"""What the linear layers of a feed-forward give a neuron; a gated one has two."""


def show_neurons(selection: Selection, trace: Trace, account: Account) -> None:
    """Ask for a feed-forward and draw its largest neurons; describe the chosen one."""
    picture, words = st.columns(2, gap="large")
    with picture:
        layer, neuron = _choose_neuron(selection, account.parts, "", least=account.limit)
    with words:
        if neuron is None:
            st.caption("Choose a neuron to see the words it raises and what drove it.")
            return
        run, at = selection.run, account.step
        *found, activation = ask_trace(
            run_neuron_words, run, trace, at, layer - 1, neuron - 1, _WORDS
        )
        st.markdown(activation_said(activation))
        for title, ids in zip(("raises", "lowers"), found, strict=True):
            written = ", ".join(map(escape_markdown, target_labels(run, ids)))
            st.markdown(
                f"Neuron {neuron:,} of layer {layer} {title} most, where its activation is above "
                f"0: {written}"
            )
        _show_drivers(selection, trace, at, layer, neuron)
    with picture:
        _show_strongest(selection, layer, neuron)


def activation_said(activation: float) -> str:
    """Say whether a neuron is active. GELU of what is far below 0 is not 0, but as good as that."""
    if not activation:
        return "It is off here: its activation is 0, and it brings nothing."
    if abs(activation) < _OFF:
        return f"It is as good as off here: its activation is {activation:+.1g}."
    below = ", below 0: it does the opposite of what follows" * (activation < 0)
    return f"Its activation here is {activation:+.3g}{below}."


def show_encoder_neurons(
    selection: Selection, trace: Trace, at: int, cell: Parts, source_token: int
) -> None:
    """Draw the neurons of a feed-forward of the encoder by what they brought to a cell."""
    picture, words = st.columns(2, gap="large")
    with picture:
        layer, neuron = _choose_neuron(selection, cell, "encoder_", least=0.0)
    with words:
        if neuron is not None:
            _show_drivers(selection, trace, at, layer, neuron, source_token)
        elif layer:
            st.caption("Choose a neuron to see what drove it.")


def _choose_neuron(
    selection: Selection, parts: Parts, prefix: str, *, least: float
) -> tuple[int, int | None]:
    """Ask for a feed-forward and draw its largest neurons; return layer and neuron, from 1.

    The scale ends at ``least`` or beyond. The fields of the view begin with ``prefix``. Of the
    encoder none are drawn, and the layer is 0, until one is asked for.
    """
    neuron: int | None = getattr(view().why, f"{prefix}neuron")
    asked = not prefix or neuron is not None
    layer = choose_one(
        "Neurons of the encoder's feed-forward" if prefix else "Feed-forward",
        range(0 if prefix else 1, len(parts.neurons) + 1),
        key=f"{prefix}feed_forward",
        default=int(first_largest(np.abs(parts.feed_forwards))) + 1 if asked else 0,
        format_func=lambda layer: str(layer or "none"),
    )
    if not layer:
        return layer, None
    values = parts.neurons[layer - 1]
    if neuron is not None and not 1 <= neuron <= len(values):
        neuron = None
    *shown, rest = neuron_bars(values, None if neuron is None else neuron - 1)
    names = [bar.name for bar in shown]
    arguments = bar_arguments([*shown, rest], least)
    ends = arguments["limit"]
    own = f" This scale is its own: it ends at {ends:.2g}." * (ends != least)

    def choose() -> None:
        place = clicked_value(f"{prefix}neurons")
        if place is not None and int(place) < len(names):
            chosen = {"feed_forward": layer, "neuron": int(names[int(place)])}
            change_view(**{prefix + name: value for name, value in chosen.items()})

    show_figure(
        bar_chart(
            **arguments,
            theme=selection.theme,
            marked=None if neuron is None else names.index(str(neuron)),
            clicks=[*("describe this neuron" for _ in names), "the others together"],
        ),
        key=f"{prefix}neurons",
        alt=f"The neurons of {'encoder ' * bool(prefix)}feed-forward {layer} that brought most, as "
        "signed bars",
        name=f"{prefix}neurons-{layer}",
        on_select=choose,
    )
    st.caption(
        f"Activation × what the neuron writes; all {len(values):,} sum to "
        f"{three_digits(values.sum(), '+')}. "
        f"A click describes a neuron.{own}"
    )
    return layer, neuron


def _show_drivers(
    selection: Selection,
    trace: Trace,
    at: int,
    layer: int,
    neuron: int,
    source_token: int | None = None,
) -> None:
    """Draw what the input of a neuron was the sum of, in the encoder at a source token."""
    found = ask_trace(run_drivers, selection.run, trace, at, layer - 1, neuron - 1, source_token)
    stack = "decoder" if source_token is None else "encoder"
    for name, parts in found.items():
        bars = largest_bars(parts.sums(), _MOST_DRIVERS, encoder=stack == "encoder")
        st.markdown(
            f"What drove {_INPUTS[name]} of neuron {neuron:,} here, "
            f"{three_digits(parts.total, '+')} in all, on a scale of its own:"
        )
        show_figure(
            bar_chart(**bar_arguments(bars), theme=selection.theme),
            key=f"{stack}_drivers_{name}",
            alt=f"What drove neuron {neuron} of layer {layer}, as signed bars",
            name=f"{stack}-drivers-{layer}-{neuron}-{name}",
        )


def _show_strongest(selection: Selection, layer: int, neuron: int) -> None:
    """Draw the sentences of a neuron of the decoder, both counted from 1."""
    run = selection.run
    measured = _measured(selection)
    if isinstance(measured, str):
        st.caption(f"{measured} In a terminal:")
        options = *corpus_options(run, [selection.step]), "--only", "neurons"
        st.code(measure_command(run, *options), language=None, wrap_lines=True)
        return
    rows: list[Row] = []
    opened: list[dict[str, object]] = []
    found = measured.stacks["decoder"]
    at = layer - 1, neuron - 1
    for number, position, activation in zip(
        found.sentence[at], found.position[at], found.activation[at].tolist(), strict=True
    ):
        sentence = measured.sentences[number]
        tokens = whole_tokens(run, "target", sentence.reference)
        if not activation or position + 1 >= len(tokens):  # or read otherwise than when measured
            continue
        consumed, predicted = token_labels(tokens)[position : position + 2]
        marked = marked_text(run, "target", tokens, {int(position) + 1: "query"})
        cells = f"{activation:+.3g}", f"{predicted} ← {consumed}", marked, sentence.source
        rows.append(Row(str(len(rows)), cells))
        forced = {"sentence": sentence.source, "target": sentence.reference, "at": int(position)}
        opened.append(forced | {"feed_forward": layer, "neuron": neuron})
    st.markdown("Where it is strongest:")
    if not rows:
        st.caption("It was not active in any sentence that was measured.")
        return
    row_table(
        ["activation", "predicted ← consumed", "target, the reference", "source"],
        rows,
        label=f"Sentences in which neuron {neuron:,} of layer {layer} is strongest",
        theme=selection.theme,
        key="strongest",
        on_click=lambda name: open_page("why", **opened[int(name)]),
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
    except CheckpointError as problem:
        log_refusal(problem)
        return describe_error(problem)
    if measured.sha256 == weights_sha256(run, step):
        return measured
    return "The weights have changed since its strongest sentences were measured."
