"""Sentences of a person's own, measured on a page; they and what is found stay in the session.

What stays is told apart by the run's folder and its tokenizers, which are others for other
languages. (A file of measures, where there is one, goes before it.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from headwise.viz_app.analysis.curves import duration
from headwise.viz_app.components.text_file import text_file
from headwise.viz_app.measuring.corpus import MOST_BYTES, MOST_SENTENCES, read_sentences
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.served import served_placement
from headwise.viz_app.session.cache import in_memory
from headwise.viz_app.session.caches import Run, checkpoint_of, weights_sha256
from headwise.viz_app.session.errors import USER_ERRORS, describe_error
from headwise.viz_app.session.log import log_refusal, log_timed
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import redraw_all, write_address

if TYPE_CHECKING:  # what measures takes a second to import, and few sessions do
    from headwise.viz_app.measuring.given import GivenMeasures, GivenSentences

_TEXT = "given_text"
"""Key of the field with the sentences."""
_HELP = (
    f"A sentence a line, at most {MOST_SENTENCES}. A line may go on with a tab and the "
    "translation, in all lines or in none: without them the translations of the newest checkpoint "
    "are the targets. What you paste, and what is measured on it, stays in this session and is "
    "written nowhere; it is gone when the page is closed or loaded anew."
)


@dataclass
class _Work:
    """Measuring that is under way, or put aside between two batches."""

    run: str
    given: GivenSentences
    batches: Iterator[int]
    of: int
    """How many sentences will have been done at the end, all passes together."""
    done: int = 0
    seconds: float = 0.0
    """How long it took up to now."""
    drawn: int = 0
    """How many results there were when the page was drawn last."""

    @property
    def said(self) -> str:
        """What is done, with about how long the rest takes once a checkpoint is measured."""
        said = "Measuring, sentences of all passes"
        if not self.given.found or not self.done:
            return said
        return f"{said}, {duration((self.of - self.done) * self.seconds / self.done)} left"

    @property
    def results(self) -> int:
        """How many checkpoints are measured, by their weights alone or in all."""
        return len(self.given.by_weights) + len(self.given.found)

    def go_on(self, note_done: NoteDone) -> bool:
        """Do the rest, as far as ``note_done`` lets it."""
        with in_memory(self.given.needs), log_timed("sentences measured") as logged:
            logged |= {"run": self.run, "sentences": len(self.given), "done": self.done}
            since = time.monotonic()
            for passed in self.batches:
                self.done += passed
                since, before = time.monotonic(), since
                self.seconds += since - before
                if self.given.found and self.given.seconds is None:
                    self.given.seconds = self.seconds
                note_done(min(self.done, self.of - 1), self.of)
        return True


def _key(run: Run) -> tuple[str, str]:
    return str(run.folder), run.tokenizers_sha256


def given_sentences(run: Run) -> GivenSentences | None:
    kept: dict[tuple[str, str], GivenSentences] = st.session_state.get("given", {})
    return kept.get(_key(run)) if kept else None


def given_measures(run: Run, step: int) -> GivenMeasures | None:
    """Return what this session has measured of a checkpoint, if its weights are still the same."""
    given = given_sentences(run)
    found = given.found.get(step) if given is not None else None
    same = found is not None and found.measures.sha256 == weights_sha256(run, step)
    return found if same else None


def measured_by_weights(run: Run, steps: Sequence[int]) -> dict[int, Measures]:
    """Return what this session has measured of the weights of some steps, if they are the same."""
    given = given_sentences(run)
    kept = {} if given is None else given.by_weights
    return {s: kept[s] for s in steps if s in kept and kept[s].sha256 == weights_sha256(run, s)}


@panel("measure_here")
def show_measuring(selection: Selection, steps: Sequence[int]) -> None:
    """Ask for sentences, and measure checkpoints on them: the selected one, or all of ``steps``."""
    state, run = st.session_state, selection.run
    work: _Work | None = state.get("measuring")
    if work is not None and work.given is given_sentences(run):
        try:
            ended = in_slices(work.said, work.go_on, key="measuring", stop=_stop, times=2)
        except USER_ERRORS as problem:
            ended = _refuse(problem)
        if ended:
            _stop()
        if ended or work.results > work.drawn:
            work.drawn = work.results
            write_address(drawn=False)
            st.rerun()
        return
    state.pop("measuring", None)  # of another run
    given = given_sentences(run)
    if given is None or not given.found:
        _ask_for_sentences(selection)
    else:
        said = f"{len(given):,} sentences of yours are measured at other checkpoints."
        if given.seconds is not None and len(steps) > 1:
            said += f" {len(steps):,} more take {duration(len(steps) * given.seconds)}."
        st.caption(said)
    offered = {f"Measure checkpoint {selection.step:,}": [selection.step]}
    offered = offered if selection.step in steps else {}
    if len(steps) > 1:
        offered[f"Measure all {len(steps):,} checkpoints"] = [*steps]
    with st.container(horizontal=True, gap="small"):
        for place, (label, wanted) in enumerate(offered.items()):
            st.button(
                label,
                key=f"measure_here_{place}",
                icon=":material/play_arrow:",
                type="secondary" if place else "primary",
                on_click=_begin,
                args=(run, wanted),
            )
        if given is not None and given.found:
            show_others(run)
    if refused := state.pop("given_refused", ""):
        st.error(refused)


def show_others(run: Run) -> None:
    st.button("Give other sentences", key="give_others", on_click=_drop, args=(run,))


def _ask_for_sentences(selection: Selection) -> None:
    # Streamlit forgets a field that is not drawn, as while its sentences are measured.
    st.session_state.setdefault(_TEXT, st.session_state.get("given_last", ""))
    st.text_area(
        "Your sentences, one a line",
        height=160,
        max_chars=MOST_BYTES,
        placeholder="Where is my book?\nWhere is my book?[tab]¿Dónde está mi libro?",
        help=_HELP,
        key=_TEXT,
    )
    text_file(
        "or drop a text file of them here (.txt, .tsv)",
        most=MOST_BYTES,
        theme=selection.theme,
        key="given_file",
        on_text=_put_into_field,
    )


def _put_into_field(text: str) -> None:
    st.session_state[_TEXT] = text
    redraw_all()  # Streamlit may draw another panel, if that asked at the same moment


def _begin(run: Run, steps: Sequence[int]) -> None:
    """Begin to measure checkpoints, on the sentences in the field or those that are kept."""
    from headwise.viz_app.measuring.given import GivenSentences

    state, given = st.session_state, given_sentences(run)
    state["given_last"] = state.get(_TEXT) or state.get("given_last", "")
    try:
        if given is None or not given.found:
            given = GivenSentences(
                run,
                read_sentences(state.get(_TEXT, "")),
                load=lambda run, step, _: checkpoint_of(run, step),
                placement=served_placement(),
            )
    except USER_ERRORS as problem:
        _refuse(problem)
        return
    state.setdefault("given", {})[_key(run)] = given
    state["measuring"] = _Work(run.name, given, given.measure(steps), given.passes(steps))


def _refuse(problem: Exception) -> bool:
    """Have the panel say, when it is drawn next, why nothing was measured."""
    log_refusal(problem)
    st.session_state["given_refused"] = describe_error(problem)
    return True


def _drop(run: Run) -> None:
    st.session_state["given"].pop(_key(run), None)
    redraw_all()


def _stop() -> None:
    st.session_state.pop("measuring", None)
    redraw_all()
