"""The target that is traced: the model's own, greedy or from a beam, or a person's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_labels
from viz_app.figures.tokens import token_row
from viz_app.records import Trace
from viz_app.views._session import Beam, Selection, beam_of
from viz_app.views._widgets import begin_with, choose_one
from viz_app.views.address import check_asked

_SIZES = (2, 3, 4, 5, 8)


@dataclass(frozen=True)
class Target:
    """The target of a page's trace."""

    ids: tuple[int, ...] | None
    """From ``<s>`` on; None leaves it to the model, which decodes greedily."""
    whose: str
    """For people."""
    beam: Beam | None
    """The search that it comes from, and which of its hypotheses it is."""
    hypothesis: int

    @property
    def given(self) -> bool:
        """Whether a person typed it or chose it among hypotheses."""
        return self.ids is not None


def choose_target(selection: Selection, size: int) -> Target:
    """Ask for a translation of a person's own and, of a beam of this size, for a hypothesis."""
    own = _ask_for_own(selection)
    if own is not None:
        return Target(own, "your translation", None, 0)
    if size == 1:
        return Target(None, "the translation", None, 0)
    beam, chosen = _choose_hypothesis(selection, size)
    return Target(tuple(beam.hypotheses[chosen].target), "the chosen hypothesis", beam, chosen)


def choose_decoding() -> int:
    """The width of the beam; 1 is greedy."""
    how = choose_one(
        "Decoding",
        ["greedy", "beam"],
        key="decoding",
        default="greedy",
        help="Greedy takes the likeliest piece at every step. A beam keeps several hypotheses and "
        "takes the best at the end, its log-probability divided by ((5 + n) / 6)^0.6 for n pieces "
        "(Wu et al. 2016; section 6.1 of the paper).",
    )
    if how == "greedy":
        return 1
    check_asked("beam", "Width of the beam", [str(size) for size in _SIZES].__contains__)
    return st.select_slider("Width of the beam", _SIZES, value=4, key="beam", bind="query-params")


def _choose_hypothesis(selection: Selection, size: int) -> tuple[Beam, int]:
    """The search, and which of its hypotheses is traced; the best at first."""
    beam = beam_of(selection.run, selection.step, selection.text, size)
    decode = selection.run.tokenizers.target.decode
    names = {
        place: f"{decode(h.target) or '(no text)'}  ·  {h.score:.2f}"
        for place, h in enumerate(beam.hypotheses)
    }
    search = (selection.run.info.name, selection.step, selection.text, size)
    begin_with("hypothesis", 0, of=search)
    chosen = st.selectbox(
        "Hypotheses of the beam, with their scores",
        list(names),
        format_func=names.__getitem__,
        key="hypothesis",
    )
    return beam, chosen


def _ask_for_own(selection: Selection) -> tuple[int, ...] | None:
    """The ids of a person's own translation; None leaves it to the model."""
    label = "Your own translation, to see how likely the model finds it"
    check_asked("target", label)
    text = st.text_input(
        label,
        key="target",
        placeholder="empty: the model translates",
        bind="query-params",
    )
    if not text.strip():
        return None
    return tuple(selection.run.tokenizers.encode_target(text.strip()))


def show_target(selection: Selection, trace: Trace, *, key: str, marked: int | None = None) -> None:
    """Draw the target of a trace, a piece of it perhaps framed; the text stands under ``key``."""
    probability = np.exp(trace.predictions.log_probability)
    titles = [
        f"probability {p:.3f}, rank {rank}"
        for p, rank in zip(probability, trace.predictions.rank, strict=True)
    ]
    st.html(
        token_row(
            piece_labels(trace.predicted),
            theme=selection.theme,
            probabilities=probability.tolist(),
            titles=titles,
            selected=marked,
            language=selection.run.info.target_language,
        )
    )
    with st.container(key=key):
        st.text(trace.target_text or "(no text: the model ended the sentence at once)")


def total_log_probability(trace: Trace) -> float:
    """Of the whole target, ``</s>`` included, in nats."""
    return float(trace.predictions.log_probability.sum())
