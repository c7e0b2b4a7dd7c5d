"""The section "curves" of the page Training: what the logs say, over the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace

import streamlit as st

from headwise.model.config import TrainingConfig
from headwise.viz_app.analysis.curves import (
    curve_of,
    downsample,
    find_data_change,
    find_overfitting_in,
    smooth,
)
from headwise.viz_app.analysis.labels import ONE_TRAINING_NOTE, interval_text
from headwise.viz_app.figures.curves import MOST_RUNS, is_of_milestones, training_curves
from headwise.viz_app.figures.training_panels import KNOWN, MOST_OWN, PANELS, drawn_panels
from headwise.viz_app.records.measures import DataChange, RunCurves
from headwise.viz_app.served import served_models
from headwise.viz_app.session.cache import cached, stamp_if_there
from headwise.viz_app.session.caches import LogRow, Run, log_file, log_of, run_named, steps_in
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import control, view
from headwise.viz_app.session.widgets import (
    choose_on_slider,
    choose_one,
    clicked_value,
    show_figure,
    show_link,
    use_step,
)

_SMOOTHING = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
_BATCHES = "training batches"


def other_runs(selection: Selection) -> list[str]:
    """Return the runs that are drawn beside the selected one, also before the widget is drawn."""
    others = served_models().keys() - {selection.run.name}
    return [name for name in view().training.beside if name in others][: MOST_RUNS - 1]


def show_curves(selection: Selection) -> None:
    """Draw the curves of this run and of others, and a way to its accuracy on pairs."""
    _show_logged(selection)
    show_link("Accuracy on pairs", "errors", key="curves-pairs", errors="pairs")


def _show_logged(selection: Selection) -> None:
    smoothing, log_steps, log_loss = _choose(selection)
    runs = []
    for name in (selection.run.name, *other_runs(selection)):
        with show_user_errors():
            runs.append(_curves_of(selection, name, smoothing))
    drawn = [run for run in runs if any(map(len, run.curves.values()))]
    if not drawn:
        log = log_file(selection.run.folder, "metrics.jsonl")
        st.info(
            "There is no line in the log yet; it will be drawn as soon as there is."
            if log.suffix == ".jsonl" or log.exists()
            else f"There are no curves: this model's folder has no {log.name}, the log of a "
            "training."
        )
        return
    figure = training_curves(
        drawn, step=selection.step, theme=selection.theme, log_steps=log_steps, log_loss=log_loss
    )
    show_figure(figure, key="curves", alt=_alt(drawn, selection), on_select=_go_to_clicked)
    said = _notes(selection, drawn)
    st.caption(" ".join(said), help=" ".join(_explained(drawn, log_steps=log_steps)) or None)


def _choose(selection: Selection) -> tuple[float, bool, bool]:
    """Ask for smoothing, and whether the axes of steps and of the loss are logarithmic."""
    own = selection.run.name
    beside, rest = st.columns([2, 3], gap="medium")
    with rest, st.container(horizontal=True, gap="medium"):
        steps = choose_one("Steps", ["linear", "log"], key="steps_axis")
        loss = choose_one("Loss", ["linear", "log"], key="loss_axis")
        smoothing = choose_on_slider(
            "Smoothing",
            _SMOOTHING,
            key="smoothing",
            help="Of what is logged between milestones: each value counts that many times as much "
            "as the next; behind it, pale, what was logged. Milestones are never smoothed.",
            width=180,
        )
    with beside:
        names = [name for name in served_models() if name != own]
        st.multiselect(
            f"Beside {escape_markdown(own)}",
            names,
            placeholder="other runs",
            max_selections=MOST_RUNS - 1,
            disabled=not names,
            **control("beside", f"Beside {own}", usable=names.__contains__, most=MOST_RUNS - 1),
        )
    return smoothing, steps == "log", loss == "log"


def _curves_of(selection: Selection, name: str, smoothing: float) -> RunCurves:
    folder = served_models()[name]
    log = log_file(folder, "metrics.jsonl")
    stamp = stamp_if_there(log)
    rows = log_of(folder, "metrics.jsonl")
    # How the Trainer smoothed labels is in no file that can be read: its runs need not be opened.
    is_ours = log.suffix == ".jsonl"
    run = run_named(name) if is_ours else None
    batches = _batches(run) if run is not None else _BATCHES
    plain_epochs = run.training.plain_epochs if run is not None and run.training is not None else 0
    # Our own log has more than curves; a Trainer's has what its author measures.
    names = KNOWN if is_ours else KNOWN.union(*rows) - {"step"}
    return cached(
        "curves",
        (str(folder), smoothing, batches, plain_epochs, stamp),
        lambda: _make_curves(rows, name, names, smoothing, batches, _change(rows, run)),
        facts=lambda _: {"run": name, "rows": len(rows)},
        says=f"Reading curves of {name}",
    )


def _batches(run: Run) -> str:
    """Name training batches, with what makes their loss another measure than validation loss."""
    model, training = run.config, run.training
    if model is None or training is None:
        return _BATCHES
    shares = {
        "label smoothing": training.label_smoothing,
        "dropout": model.dropout,
        "hidden dropout": model.hidden_dropout,
    }
    said = [f"{what} {share:g}" for what, share in shares.items() if share]
    said += _changes(training)
    return f"{_BATCHES}, with {_listed(said)}" if said else _BATCHES


def _changes(training: TrainingConfig) -> list[str]:
    """Name what a training does to its pairs after the epochs in which they stay as they are."""
    return [
        *[f"BPE-dropout {training.bpe_dropout:g}"] * bool(training.bpe_dropout),
        *["joined pairs"] * bool(training.join),
        *["replaced names"] * bool(training.replace),
        *["names put before sentences"] * bool(training.address),
    ]


def _listed(said: Sequence[str]) -> str:
    *others, last = said
    return f"{', '.join(others)}{' and ' if others else ''}{last}"


def _change(rows: Sequence[LogRow], run: Run | None) -> DataChange | None:
    """Find where the pairs of a training change, if it is ours and it is known what it read."""
    training = run.training if run is not None else None
    if run is None or training is None or not training.plain_epochs:
        return None
    changes, data, counts = _changes(training), run.data, run.counts
    if not changes or data is None or counts is None:
        return None
    predicted = sum(counts.target) - data.train_pairs  # all but <s>, which no step predicts
    tokens, loss = (curve_of(rows, name) for name in ("tokens", "train_loss"))
    found = find_data_change(tokens, loss, plain_tokens=training.plain_epochs * predicted)
    return replace(found, what=_listed(changes)) if found is not None else None


def _make_curves(
    rows: Sequence[LogRow],
    name: str,
    names: Set[str],
    smoothing: float,
    batches: str,
    change: DataChange | None,
) -> RunCurves:
    whole = {curve: curve_of(rows, curve) for curve in names}
    curves, raw = {}, {}
    for curve, values in whole.items():
        curves[curve] = downsample(values)
        if smoothing and curve != "learning_rate" and not is_of_milestones(curve):
            raw[curve] = curves[curve]
            curves[curve] = downsample(smooth(values, smoothing))
    ends = {
        curve: (curve_of(rows, f"{curve}_low"), curve_of(rows, f"{curve}_high"))
        for curve in ("bleu", "chrf")
    }
    intervals = {curve: both for curve, both in ends.items() if len(both[0])}
    return RunCurves(name, curves, raw, intervals, find_overfitting_in(whole), batches, change)


def _go_to_clicked() -> None:
    if (clicked := clicked_value("curves")) is not None:
        step, name = clicked.split(",", 1)
        folder = served_models().get(name)
        use_step(int(step), steps_in(folder) if folder is not None else [], run=name)


def _notes(selection: Selection, runs: list[RunCurves]) -> list[str]:
    """Say what a click does, what is found in the curves, and which not to compare."""
    notes = [
        f"The vertical line is at the checkpoint in use, of step {selection.step:,}; a click on a "
        "mark takes the checkpoint of that milestone, as the slider does."
    ]
    for run in runs:
        if run.overfitting is not None:
            onset = run.overfitting
            notes.append(
                f"{escape_markdown(run.name)}: valid loss is lowest at step {onset.step:,} "
                f"({onset.loss:.2f} nats), it is higher from there on while train loss falls: "
                "overfitting."
            )
        if run.change is not None:
            notes.append(f"{escape_markdown(run.name)}: {run.change}.")
    if len(runs) > 1:
        notes.append(
            "Losses are per token: runs with different vocabularies cannot be compared by them."
        )
        notes += _other_data([run.name for run in runs])
    for run in runs:
        scores, exact = run.curves["bleu"].values, run.curves["exact"].values
        if len(scores) and scores.max() == 0 and exact.any():
            notes.append(
                f"{escape_markdown(run.name)}: BLEU counts sequences of four words; where "
                "translations are shorter it is 0 and says nothing: read exact translations, the "
                "share of sources whose translation equals a reference."
            )
    shown = drawn_panels(runs)
    if missing := [panel.title for panel in PANELS if panel not in shown]:
        notes.append(f"Not logged: {', '.join(missing)}.")
    own = sorted({name for run in runs for name in run.curves} - KNOWN)
    if own[MOST_OWN:]:
        notes.append(
            f"Of {len(own):,} quantities with names of their own the first {MOST_OWN} are drawn."
        )
    return notes


def _explained(runs: list[RunCurves], *, log_steps: bool) -> list[str]:
    notes = []
    if any(len(run.curves["train_sample_loss"]) for run in runs):
        notes.append(
            "Train sample and valid are measured alike, on the weights of a milestone and without "
            "label smoothing or dropout: the first on a fixed sample of the training pairs. The "
            "loss of training batches is another measure."
        )
    elif any(run.batches != _BATCHES for run in runs):
        notes.append(
            "Valid is measured without label smoothing or dropout: the loss of training batches "
            "cannot be compared with it."
        )
    if any(run.intervals for run in runs):
        notes.append(
            "Bars of BLEU and chrF are 95% intervals by 1,000 resamples of the validation "
            f"sentences (Koehn 2004). {ONE_TRAINING_NOTE}"
        )
    if log_steps:
        notes.append(
            "A logarithmic axis has no place for step 0: it is drawn left of the dotted line."
        )
    return notes


def _other_data(names: Sequence[str]) -> list[str]:
    """Warn where scores of runs are of different validation data, or nobody knows of which."""
    data = {name: run_named(name).data for name in names}
    if len({None if of is None else of.valid_sha256 for of in data.values()} - {None}) == 1:
        unknown = [escape_markdown(name) for name, of in data.items() if of is None]
        if not unknown:
            return []
        where = f"it is not known of which data those of {', '.join(unknown)} are"
    else:
        of_runs = [
            f"{name} ({of.name}, {of.valid_file}{_references(name)})"
            if of is not None
            else f"{name} (unknown)"
            for name, of in data.items()
        ]
        where = f"they are of different data: {escape_markdown('; '.join(of_runs))}"
    return [
        f"Do not compare BLEU, chrF and exact translations of these runs: {where}. Sentences and "
        "languages differ, and with several references a sentence more of a translation is found "
        "in one of them than with one."
    ]


def _references(name: str) -> str:
    """Say how many references a sentence of a run's validation data has, if its log says so."""
    rows = log_of(served_models()[name], "metrics.jsonl")
    pairs, sources = (curve_of(rows, f"valid_{each}").values for each in ("pairs", "sources"))
    if not len(pairs) or not len(sources):
        return ""
    each = pairs[-1] / sources[-1]
    return f", {each:.2f} references a sentence" if each > 1 else ", one reference a sentence"


def _alt(runs: list[RunCurves], selection: Selection) -> str:
    parts = []
    for run in runs:
        said = [
            f"{word} from {curve.values[0]:.2f} to {curve.values[-1]:.2f}"
            for name, word in (
                ("train_sample_loss", "loss of a sample of the training pairs"),
                ("valid_loss", "valid loss"),
                ("train_loss", f"loss of {run.batches},"),
            )
            if len(curve := run.curves[name])
        ]
        for name, word in (("bleu", "BLEU"), ("chrf", "chrF")):
            curve = run.curves[name]
            if len(curve):
                interval = ""
                if name in run.intervals:
                    low, high = (
                        dict(zip(end.steps, end.values, strict=True)).get(curve.steps[-1], math.nan)
                        for end in run.intervals[name]
                    )
                    if ends := interval_text(low, high, ".1f"):  # not of 0 or 100 everywhere
                        interval = f" (95% interval {ends})"
                said.append(f"{word} {curve.values[-1]:.1f}{interval}")
        if len(run.curves["exact"]):
            said.append(f"exact translations {run.curves['exact'].values[-1]:.0%}")
        for name in sorted(run.curves.keys() - KNOWN)[:MOST_OWN]:
            said.append(f"{name} {run.curves[name].values[-1]:.4g}")
        last = max(int(curve.steps[-1]) for curve in run.curves.values() if len(curve))
        told = f"{run.name}, to step {last:,}: {', '.join(said)}"
        if run.overfitting is not None:
            told += f"; overfitting from step {run.overfitting.step:,}"
        parts.append(told + (f"; {run.change}" if run.change is not None else ""))
    return (
        f"{', '.join(panel.title for panel in drawn_panels(runs))} over the steps of training; a "
        f"vertical line at step {selection.step:,}. {'. '.join(parts)}."
    )
