"""The section "compare" of the page Training: two checkpoints of one run, or of two runs."""

from __future__ import annotations

from operator import itemgetter

import streamlit as st

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import Run, run_named, runs_beside, trace_of
from headwise.viz_app.session.head_choice import choose_units
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import note_files
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.widgets import choose_from_list, choose_on_slider, show_link
from headwise.viz_app.training.differences import ComparedCheckpoint, show_differences
from headwise.viz_app.training.shared_target import choose_shared_target, same_tokenizers


def show_compare(selection: Selection) -> None:
    """Draw the section."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        other = _choose_other(selection)
        if other is not None:
            other_run, other_step = other
            note_files(other_run.weights_path(other_step))
            comparable = same_tokenizers(other_run, selection.run)
            shared = choose_shared_target(selection)
            units = choose_units(show_label=False) if comparable else "words"
    if other is None:
        st.info("The run has one checkpoint only, and there is no other run of its languages.")
        return
    both = [(selection.run, selection.step), other]
    if other_run is selection.run:
        both.sort(key=itemgetter(1))  # A is the earlier one, so that B − A runs forward in time
    maps, sides = st.container(), []
    for letter, place, (run, step) in zip("AB", st.columns(2, gap="medium"), both, strict=True):
        name = f"{run.name}, " * (other_run is not selection.run) + f"step {step:,}"
        target = shared.ids
        if not same_tokenizers(run, selection.run):
            target = tuple(run.tokenizers.encode_target(shared.text))
        forced = trace_of(run, step, selection.text, target)
        sides.append(ComparedCheckpoint(run, forced, name))
        with place:
            translated = trace_of(run, step, selection.text)
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                st.markdown(f"**{letter}: {escape_markdown(name)}**, its own translation")
                _show_way_to(selection, run, step, letter)
            _show_translation(selection, translated, forced, letter)
    with maps:
        show_differences(selection, sides[0], sides[1], units)
        st.caption(
            f"All maps are of one target, {shared.description}, given to both: "
            f"{escape_markdown(shared.text)}"
        )
        if not comparable:
            st.caption(
                "The two runs have vocabularies of their own, in which a text has other tokens or "
                "none (\\<unk\\>): do not compare their log-probabilities."
            )


def _choose_other(selection: Selection) -> tuple[Run, int] | None:
    """Ask for the other run and its checkpoint; return None if there is nothing to choose."""
    own = selection.run
    others = runs_beside(own, lambda run: _same_languages(run, own))
    runs = [*[own.name] * (len(own.steps()) > 1), *(run.name for run in others)]
    if not runs:
        return None
    name = choose_from_list(
        "Compare with a checkpoint of",
        runs,
        key="other_run",
        default=runs[0],
        help="Any run that translates between the same languages in the same direction.",
    )
    run = own if name == own.name else run_named(name)
    note_files(run.folder / "run.json")
    steps = [step for step in run.steps() if run is not own or step != selection.step]
    if len(steps) == 1:
        st.caption(f"Its checkpoint of step {steps[0]:,}.")
        return run, steps[0]
    # At first the middle of training against its end, or its end against whatever is open.
    at_end = run is own and selection.step > steps[-1]
    first = steps[len(steps) // 2] if at_end else steps[-1]
    step = choose_on_slider(
        "Its checkpoint, by training step",
        steps,
        key="other_step",
        default=first,
        format_func="{:,}".format,
    )
    return run, step


def _same_languages(a: Run, b: Run) -> bool:
    """Return whether two runs are of the same languages, as far as these are known."""
    languages = (a.source_language, b.source_language), (a.target_language, b.target_language)
    return all(one == other or not one or not other for one, other in languages)


def _show_way_to(selection: Selection, run: Run, step: int, letter: str) -> None:
    """Draw a link to the page Translate with one of the two checkpoints."""
    choices: dict[str, object] = {"step": step}
    if run is not selection.run:
        choices |= {"run": run.name, "sentence": selection.text}
    show_link("Open on Translate", "translate", key=f"open-{letter}", **choices)


def _show_translation(selection: Selection, own: Trace, forced: Trace, letter: str) -> None:
    show_target(selection, own, key=f"own-{letter}")
    st.caption(
        f"Log-probability {total_log_probability(own):.3g} nats; the shared target has "
        f"{total_log_probability(forced):.3g} here."
    )
