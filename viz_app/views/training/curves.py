"""Room of the page Training: what the logs say, over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import streamlit as st

from model.checkpoint import list_runs, steps_of
from viz_app.analysis.curves import curve_of, smoothed, thinned, turn_of
from viz_app.curve_records import RunCurves
from viz_app.figures.curves import MILESTONE_CURVES, MOST_RUNS, training_curves
from viz_app.figures.training_panels import PANELS
from viz_app.views._session import Row, Selection, Stamp, log_of, stamp_if_there
from viz_app.views._widgets import choose_one, plain, problems_in_place, show_figure
from viz_app.views.address import check_asked

_SMOOTHING = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


def other_runs(selection: Selection) -> list[str]:
    """The runs that are drawn beside the one in use; to be asked before the widget is drawn too."""
    there = list_runs(selection.run.folder.parent)
    chosen: list[str] = st.session_state.get("beside", st.query_params.get_all("beside"))
    own = selection.run.folder.name
    return [name for name in chosen if name in there and name != own][: MOST_RUNS - 1]


def show_curves(selection: Selection) -> None:
    """Draw the curves of this run and of others."""
    smoothing, log_steps, log_loss = _choose(selection)
    runs = []
    for name in (selection.run.folder.name, *other_runs(selection)):
        with problems_in_place():
            runs.append(_curves_of(selection, name, smoothing))
    drawn = [run for run in runs if any(map(len, run.curves.values()))]
    if not drawn:
        st.info("There is no line in the log yet; it will be drawn as soon as there is.")
        return
    figure = training_curves(
        drawn,
        step=selection.step,
        theme=selection.theme,
        log_steps=log_steps,
        log_loss=log_loss,
    )
    go = partial(_go_to_clicked, selection.run.folder.parent)
    show_figure(figure, key="curves", alt=_alt(drawn, selection), on_select=go)
    st.caption(_note(selection, drawn, smoothing=smoothing, log_steps=log_steps))


def _choose(selection: Selection) -> tuple[float, bool, bool]:
    """How much is smoothed; whether steps, and whether the loss, are on logarithmic axes."""
    own = selection.run.folder.name
    beside, rest = st.columns([2, 3], gap="medium")
    with rest, st.container(horizontal=True, gap="medium"):
        steps = choose_one("Steps", ["linear", "log"], key="steps_axis", default="linear")
        loss = choose_one("Loss", ["linear", "log"], key="loss_axis", default="linear")
        smoothing: float = st.select_slider(
            "Smoothing",
            _SMOOTHING,
            key="smoothing",
            width=180,
            help="Of what is logged between milestones: each value counts that many times as much "
            "as the next; behind it, pale, what was logged. Milestones are never smoothed.",
        )
    with beside:
        names = [name for name in list_runs(selection.run.folder.parent) if name != own]
        if "beside" in st.session_state:
            st.session_state["beside"] = other_runs(selection)
        check_asked("beside", f"Beside {own}", names.__contains__, several=True)
        st.multiselect(
            f"Beside {plain(own)}",
            names,
            key="beside",
            placeholder="other runs",
            max_selections=MOST_RUNS - 1,
            bind="query-params",
            disabled=not names,
        )
    return smoothing, steps == "log", loss == "log"


def _curves_of(selection: Selection, name: str, smoothing: float) -> RunCurves:
    folder = selection.run.folder.parent / name
    stamp = stamp_if_there(folder / "metrics.jsonl")
    return _read(str(folder), name, smoothing, stamp, log_of(folder, "metrics.jsonl"))


@st.cache_resource(max_entries=24, show_spinner=False)
def _read(
    folder: str, name: str, smoothing: float, stamp: Stamp | None, _rows: Sequence[Row]
) -> RunCurves:
    whole = {curve: curve_of(_rows, curve) for panel in PANELS for curve in panel.names}
    curves, raw = {}, {}
    for curve, values in whole.items():
        curves[curve] = thinned(values)
        if smoothing and curve not in (*MILESTONE_CURVES, "learning_rate"):
            raw[curve] = curves[curve]
            curves[curve] = thinned(smoothed(values, smoothing))
    turn = turn_of(whole["valid_loss"], whole["train_loss"])
    return RunCurves(name, curves, raw, turn)


def _go_to_clicked(root: Path) -> None:
    """Take the checkpoint whose mark was clicked, of another run too."""
    points = st.session_state["curves"].selection.points
    if not points or "customdata" not in points[0]:
        return
    step, name = points[0]["customdata"].split(",", 1)
    if int(step) in steps_of(root / name):
        st.session_state.update(run=name, step=int(step))
    else:
        st.toast(f"There are no weights of step {int(step):,} any more.")


def _note(selection: Selection, runs: list[RunCurves], *, smoothing: float, log_steps: bool) -> str:
    notes = [
        f"The upright line is at the checkpoint in use, of step {selection.step:,}; a click on a "
        "mark takes the checkpoint of that milestone, as the slider does."
    ]
    for run in runs:
        if run.turn is not None:
            turn = run.turn
            notes.append(
                f"{plain(run.name)}: valid loss is lowest at step {turn.step:,} "
                f"({turn.loss:.2f} nats), from there on it rises while train loss falls: "
                "overfitting."
            )
    if len(runs) > 1:
        notes.append(
            "Losses are per piece: runs with different vocabularies cannot be compared by them."
        )
    if log_steps:
        notes.append(
            "A logarithmic axis has no place for step 0: it is drawn left of the dotted line."
        )
    return " ".join(notes)


def _alt(runs: list[RunCurves], selection: Selection) -> str:
    parts = []
    for run in runs:
        said = []
        for name, word in (("train_loss", "train loss"), ("valid_loss", "valid loss")):
            curve = run.curves[name]
            if len(curve):
                said.append(f"{word} from {curve.values[0]:.2f} to {curve.values[-1]:.2f}")
        for name, word in (("bleu", "BLEU"), ("chrf", "chrF")):
            curve = run.curves[name]
            if len(curve):
                said.append(f"{word} {curve.values[-1]:.1f}")
        last = max(int(curve.steps[-1]) for curve in run.curves.values() if len(curve))
        turn = f"; overfitting from step {run.turn.step:,}" if run.turn is not None else ""
        parts.append(f"{run.name}, to step {last:,}: {', '.join(said)}{turn}")
    return (
        f"Loss, BLEU, chrF, learning rate, norm of the gradient and speed over the steps of "
        f"training; a line at step {selection.step:,}. {'. '.join(parts)}."
    )
