"""What a lesson's question is asked of, computed from the files of a run and not by a page."""

from __future__ import annotations

import dataclasses
from functools import cache, partial

import numpy as np
import torch

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.forced import forced_stream, target_log_probabilities
from headwise.model.interface import Head, Kind
from headwise.model.runs import log_file, read_log_file
from headwise.model.transformer import Transformer
from headwise.model.turned import Turned
from headwise.model.turning import ablate
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.core.circuits import score_parts
from headwise.viz_app.core.written import HeadDictionary, head_dictionary, values_here
from headwise.viz_app.frame.lesson_panel import shown_on
from headwise.viz_app.lessons.question import Asked, Compared, first_difference, most_changed_row
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.records.measures import Curve
from headwise.viz_app.records.pairs import MeasuredPairs
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.lessons import view_of
from headwise.viz_app.session.state import View
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.correspondence import stretch_labels
from headwise.viz_app.why.sentences.patches import run_patching
from headwise.viz_app.why.sentences.patching import PatchedPair
from headwise.viz_app.why.word.account import run_account

_CURVES = ("valid_loss", "train_sample_loss", "bleu", "chrf")


@cache
def run_of(name: str) -> TrainedRun:
    return open_trained_run(name)


@cache
def pairs_of(name: str) -> MeasuredPairs | None:
    return read_measured_pairs(run_of(name).folder)


def fits(lesson: Lesson, name: str) -> bool:
    run = run_of(name)
    has = {
        *("additive positions", "scaled scores", "several checkpoints", "training curves"),
        *(("measured pairs",) if pairs_of(name) else ()),
        f"run {name}",
        f"languages {run.source_language}-{run.target_language}",
    }
    return {*lesson.needs} <= has


@cache
def model_of(name: str, step: int) -> Transformer:
    return load_weights(run_of(name), step).model


@cache
def curves_of(name: str) -> dict[str, Curve]:
    rows = list(read_log_file(log_file(run_of(name).folder, "metrics.jsonl")))
    return {each: curve_of(rows, each) for each in _CURVES}


@cache
def traced(name: str, step: int, text: str, target: str | None) -> Trace:
    run = run_of(name)
    return run_trace(model_of(name, step), run.tokenizers, text, target)


@cache
def costs_of(name: str, step: int, text: str, kind: Kind) -> Floats:
    """What each head of a kind costs the translation, each switched off in a pass of its own."""
    trace = traced(name, step, text, None)
    model = model_of(name, step)
    source, target = (torch.tensor([ids]) for ids in (trace.source.ids, trace.target_ids))

    @torch.inference_mode()
    def log_probability() -> float:
        stream = forced_stream(model, source, target[:, :-1])
        return float(target_log_probabilities(model, stream, target)[0])

    whole, costs = log_probability(), np.zeros(model.description.shapes[kind])
    for layer, head in np.ndindex(*costs.shape):
        with ablate(model, [Head(kind, layer, head)]):
            costs[layer, head] = whole - log_probability()
    return costs.astype(np.float32)


def asked_of(step: Step, lesson: Lesson, name: str, text: str) -> Asked:
    """What the page would ask of: the view of the step, its places found in the sentence."""
    run = run_of(name)
    view, words = view_of(step)
    at_step = run.steps()[0 if words.get("step") == "first" else -1]
    trace = traced(name, at_step, text, view.target or None)
    layer = 1 if words.get("layer") == "first" else view.layer
    view = dataclasses.replace(view, step=at_step, layer=layer)

    def asked(view: View) -> Asked:
        return dataclasses.replace(
            shown_on(step.page, view, run.description, trace),
            curves=curves_of(name),
            costs=lambda: {view.kind: costs_of(name, at_step, text, view.kind)},
            pairs=lambda: pairs_of(name),
            turned=lambda: run_trace(
                model_of(name, at_step),
                run.tokenizers,
                text,
                trace.target_ids,
                turned=Turned(view.strengths),
            ),
            account=lambda: _compared(name, at_step, trace, view, step),
            patched_pair=lambda: _patched(name, at_step, trace, view.why.other or ""),
            score_parts=partial(score_parts, model_of(name, at_step), trace),
            written=lambda head: _written(name, at_step, trace, head),
        )

    before = asked(view)
    for field in ("at", "query", "column", "key"):
        if (word := words.get(field)) is None:
            continue
        count = before.weights.shape[0 if field in ("at", "query") else 1]
        if field == "at":
            count = len(trace.consumed)
        places = {"first": 0, "second": 1, "middle": count // 2, "last": count - 1}
        if word == "heaviest":
            place = dataclasses.replace(before, cells="weight", show="head").row_of("heaviest")
        elif word == "changed":
            place = most_changed_row(trace, before.head)
        else:
            place = min(places[word], count - 1)
        if field in ("query", "key"):
            inside = dataclasses.replace(view.inside, **{field: place})
            view = dataclasses.replace(view, inside=inside)
        else:
            view = dataclasses.replace(view, **{field: place})
    return asked(view)


def _compared(name: str, step: int, trace: Trace, view: View, of: Step) -> Compared:
    run = run_of(name)
    at, other = first_difference(trace.target_ids, run.tokenizers.encode_target(of.against))
    account = run_account(model_of(name, step), trace, at, other)
    return Compared(account, "this", "that")


def _written(name: str, step: int, trace: Trace, head: Head) -> HeadDictionary:
    model = model_of(name, step)
    values = values_here(model, trace, head.kind)
    return head_dictionary(model, run_of(name).tokenizers, head, values)


def _patched(name: str, step: int, a: Trace, other: str) -> PatchedPair:
    own = traced(name, step, other, None)
    both = zip(a.predicted.ids, own.predicted.ids, strict=False)
    at, words = next((at, each) for at, each in enumerate(both) if each[0] != each[1])
    found = run_patching(model_of(name, step), a, own.source, at, words)
    labels = stretch_labels(a.source, own.source, found.stretches)
    return PatchedPair(found, tuple(labels), ("one", "other"))
