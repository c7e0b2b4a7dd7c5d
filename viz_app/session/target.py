"""Choose the target to trace: the model's own, greedy or from a beam, or a person's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.viz_app.analysis.labels import from_where_they_part, token_labels
from headwise.viz_app.components.token_buttons import token_buttons
from headwise.viz_app.figures.html import folded_text, token_row
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import Beam, Run, beam_of, checkpoint_of, run_named, trace_of
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, checked, control, view
from headwise.viz_app.session.widgets import choose_from_list, choose_on_slider, choose_one

BEAM_SIZES = (2, 3, 4, 5, 8)
"""Widths of a beam search that are offered."""
_WIDEST = 64
"""The largest width that is offered since a model's settings ask for it."""
SCORE = "log-probability divided by ((5 + n) / 6)^0.6 for n tokens"
"""What the score of a hypothesis is."""


@dataclass(frozen=True)
class Target:
    """A target is traced by a page and says where it comes from."""

    ids: tuple[int, ...] | None
    """From ``<s>`` on; None leaves it to the model, which decodes greedily."""
    description: str
    """What the target is called in a sentence."""
    beam: Beam | None
    """The beam search that the target comes from, if any; ``hypothesis`` is its place there."""
    hypothesis: int


def choose_trace(selection: Selection) -> Trace:
    """Ask, in the sidebar and on the page, for decoding and target; return the target's trace."""
    with st.sidebar:
        size = choose_decoding(selection.run)
    target = choose_target(selection, size)
    return trace_of(selection.run, selection.step, selection.text, target.ids)


def shown_trace(selection: Selection) -> Trace:
    """Return the trace that pages show: of a forced target, a hypothesis or a translation."""
    run, step, text, shown = selection.run, selection.step, selection.text, view()
    if shown.target.strip():
        return trace_of(run, step, text, tuple(run.tokenizers.encode_target(shown.target.strip())))
    if shown.decoding == "beam":
        size = checked("beam", "Width of the beam", usable=beam_sizes(run).__contains__)
        hypotheses = beam_of(run, step, text, size).hypotheses
        chosen = hypotheses[min(max(shown.hypothesis, 0), len(hypotheses) - 1)]
        return trace_of(run, step, text, tuple(chosen.target))
    return trace_of(run, step, text)


def choose_target(selection: Selection, size: int) -> Target:
    """Offer a translation of a person's own or, if the beam is wider than 1, its hypotheses.

    The one stands beside the sentence, the others in the sidebar.
    """
    with beside_sentence():
        own = _ask_for_own(selection)
    if own is not None:
        return Target(own, "your translation", None, 0)
    if size == 1:
        return Target(None, "the translation", None, 0)
    with st.sidebar:
        beam, chosen = _choose_hypothesis(selection, size)
    return Target(tuple(beam.hypotheses[chosen].target), "the chosen hypothesis", beam, chosen)


def beside_sentence() -> DeltaGenerator:
    """Return the place right of the sentence and its examples."""
    place: DeltaGenerator = st.session_state["beside_sentence"]
    return place


def beam_sizes(run: Run) -> tuple[int, ...]:
    """Return the widths of a beam search that are offered, with that of the model's settings."""
    return tuple(sorted({*BEAM_SIZES, _asked_size(run)} - {1}))


def _asked_size(run: Run) -> int:
    """Return the width of the beam that a model's settings ask for; 1 where they ask for none."""
    asked = run.ignored_settings.get("num_beams")
    return asked if type(asked) is int and 1 < asked <= _WIDEST else 1


def choose_decoding(run: Run) -> int:
    """Ask for the width of the beam, 1 is greedy; name what the model's settings ask for."""
    how = choose_one(
        "Decoding",
        ["greedy", "beam"],
        key="decoding",
        help="Greedy takes the likeliest token at every position. A beam keeps several hypotheses "
        f"and takes the best at the end, by its score: {SCORE} (Wu et al. 2016; section 6.1 of the "
        "paper).",
    )
    sizes = beam_sizes(run)
    size = 1 if how == "greedy" else choose_on_slider("Width of the beam", sizes, key="beam")
    _show_settings(run, size)
    return size


def _show_settings(run: Run, size: int) -> None:
    """Name the settings that decoding with this width does not follow, and offer their beam."""
    asked = _asked_size(run)
    settings = {
        name: value
        for name, value in run.ignored_settings.items()
        if name != "num_beams" or value != size
    }
    if settings:
        named = ", ".join(f"{name} = {value}" for name, value in settings.items())
        st.caption(
            "The model's generation settings ask for more than decoding does here: "
            f"{escape_markdown(named)}."
        )
    if asked not in (1, size):
        st.button(
            f"Take the beam of {asked} that they ask for",
            key="asked-beam",
            on_click=lambda: change_view(decoding="beam", beam=asked),
        )


def _choose_hypothesis(selection: Selection, size: int) -> tuple[Beam, int]:
    """Search, and ask which hypothesis is traced; at first the best."""
    beam = beam_of(selection.run, selection.step, selection.text, size)
    decode = selection.run.tokenizers.target.decode
    texts = [decode(h.target) or "(no text)" for h in beam.hypotheses]
    names = {
        place: f"{place + 1}: {h.score:.2f}  ·  {from_where_they_part(texts[0], texts[place])}"
        for place, h in enumerate(beam.hypotheses)
    }
    chosen = choose_from_list(
        "Hypothesis of the beam: score · text",
        list(names),
        key="hypothesis",
        name="Hypothesis",
        format_func=names.__getitem__,
        help=f"The score is the {SCORE}, so that long hypotheses are not at a disadvantage. After "
        "the first, a hypothesis is written from where it parts from the first.",
    )
    return beam, chosen


def _ask_for_own(selection: Selection) -> tuple[int, ...] | None:
    """Offer to force a translation, and return its ids; None leaves it to the model."""
    forced = bool(view().target.strip())
    with st.popover(
        "Forced" if forced else "Force",
        key="own-target",
        icon=":material/edit:",
        type="primary" if forced else "secondary",
        help="Have the model read a translation of your own",
    ):
        label = "Your own translation, to see how likely the model finds it"
        text = st.text_input(
            label,
            placeholder="empty: the model translates",
            **control("target", label, in_menu=True),
        )
        if forced:
            st.button(
                "Let the model translate", key="unforce", on_click=lambda: change_view(target="")
            )
    if not text.strip():
        return None
    return tuple(selection.run.tokenizers.encode_target(text.strip()))


def source_buttons(
    selection: Selection, trace: Trace, *, does: str, on_mark: Callable[[int, int | None], None]
) -> None:
    """Draw the tokens of the source; a click marks one as the view's column, or none.

    ``does`` says so to screen readers; ``on_mark`` is told the clicked place, and what is marked.
    """
    labels = token_labels(trace.source)
    marked = checked(
        "column", "Marked token", usable=range(len(labels)).__contains__, written=labels.__getitem__
    )
    token_buttons(
        labels,
        name=f"Tokens of the source: {does}",
        theme=selection.theme,
        key="source_tokens",
        on_click=lambda place: on_mark(place, None if place == marked else place),
        chosen=marked,
        language=selection.run.source_language,
        side="source",
    )


def target_buttons(
    selection: Selection,
    trace: Trace,
    *,
    does: str,
    on_click: Callable[[int], None],
    key: str = "target_tokens",
    **shown: Any,
) -> None:
    """Draw the tokens of the target, shaded by their probability; ``shown`` is what else is drawn.

    ``does`` says to screen readers what a click does.
    """
    probabilities, titles = target_probabilities(trace)
    token_buttons(
        token_labels(trace.predicted),
        name=f"Tokens of the target: {does}",
        theme=selection.theme,
        key=key,
        on_click=on_click,
        probabilities=probabilities,
        titles=titles,
        language=selection.run.target_language,
        **shown,
    )


def show_target(selection: Selection, trace: Trace, *, key: str, marked: int | None = None) -> None:
    """Draw the tokens and the text of a trace's target, with one token ``marked`` if given."""
    probabilities, titles = target_probabilities(trace)
    st.html(
        token_row(
            token_labels(trace.predicted),
            theme=selection.theme,
            probabilities=probabilities,
            titles=titles,
            selected=marked,
            language=selection.run.target_language,
        )
    )
    show_target_text(trace.target_text, key=key)
    if ending := describe_ending(selection.run, trace):
        st.caption(ending)


def target_probabilities(trace: Trace) -> tuple[list[float], list[str]]:
    """Return the probability of each token of a trace's target, and its probability in words."""
    probabilities = np.exp(trace.predictions.log_probability).tolist()
    titles = [
        f"probability {p:.3f}, rank {rank:,}"
        for p, rank in zip(probabilities, trace.predictions.rank.tolist(), strict=True)
    ]
    return probabilities, titles


def word_probabilities(trace: Trace) -> list[tuple[int, int, float]]:
    """Return the words of a trace's target that have several tokens, with their probabilities.

    Each is the first token, the one after the last, and the product of their probabilities: that
    of the word in this form, after what stands before it. (Other tokens could make the same word.)
    """
    each = trace.predictions.log_probability
    return [
        (word.start, word.stop, float(np.exp(each[word.start : word.stop].sum())))
        for word in trace.predicted.words
        if word.stop - word.start > 1
    ]


def describe_ending(run: Run, trace: Trace) -> str:
    """Say of a target without text, or that was cut off, how it ended; of others, nothing.

    The trace may be of another run than the one that is selected.
    """
    ids, run = trace.predicted.ids, run if run.name == trace.run else run_named(trace.run)
    if ids[-1] in checkpoint_of(run, trace.step).model.special_ids.ends:
        return "" if trace.target_text else "The model ended the sentence at once."
    cut_off = f"cut off at {len(ids):,} tokens."
    if len(set(ids)) > 1:
        return f"It did not end the sentence; {cut_off}"
    untrained = trace.step == 0 and run.data is not None  # models of others may have no steps
    model = "The untrained model" if untrained else "The model"
    return (
        f"{model} said nothing but {escape_markdown(token_labels(trace.predicted)[0])}; {cut_off}"
    )


def show_target_text(text: str, *, key: str) -> None:
    """Draw the text of a target in a container, or say that it is empty.

    The style of the page may fold a long one, with a sign, until it is clicked.
    """
    with st.container(key=key):
        st.html(folded_text(text or "(no text)"))


def total_log_probability(trace: Trace) -> float:
    """Return the log-probability of the whole target, ``</s>`` included, in nats."""
    return float(trace.predictions.log_probability.sum())
