"""What the pages share: their selection, and caches of runs, models and traces.

Caches hold arrays and models, never figures; their keys are plain values, with the size and time of
the files they came from, so that a replaced run is read again; each is bounded, what is large by
bytes and what is small by entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from model.ablation import head_costs
from model.beam import Beam as Beam
from model.beam import beam_search
from model.checkpoint import Checkpoint, CheckpointError, Run, load_weights, open_run, weights_path
from model.config import BOS, EOS
from model.decoding import greedy
from model.files import read_log
from viz_app.attention_trace import AttentionTrace, run_attention, target_log_probability
from viz_app.figures.theme import Theme, theme_named
from viz_app.layer_records import LayerTrace
from viz_app.layer_trace import run_layer_trace
from viz_app.records import Floats, Head, Kind, Trace
from viz_app.trace import run_trace
from viz_app.views._caches import kept
from viz_app.views._events import told


@dataclass(frozen=True)
class Selection:
    """What the frame around every page has chosen."""

    run: Run
    step: int
    text: str
    theme: Theme


def current_theme() -> Theme:
    """The theme that the browser shows."""
    return theme_named(st.context.theme.type)


Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """By which a changed file is known: its time and size.

    Raises:
        CheckpointError: if there is none.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    return status.st_mtime_ns, status.st_size


def run_named(root: Path, name: str) -> Run:
    """An opened run, read once.

    Raises:
        CheckpointError: if it cannot be opened.
    """
    return _open_run(str(root), name, stamp_of(root / name / "run.json"))


@st.cache_resource(max_entries=8, show_spinner=False)
def _open_run(root: str, name: str, stamp: Stamp) -> Run:
    with told("run opened", run=name):
        return open_run(name, root=Path(root))


def checkpoint_of(run: Run, step: int) -> Checkpoint:
    """A loaded checkpoint, read once.

    Raises:
        CheckpointError: if its file is missing or broken.
    """
    path = weights_path(run.folder, step)
    if not path.exists():
        load_weights(run, step)  # raises, naming the steps that are there

    def load() -> Checkpoint:
        with told("checkpoint loaded", run=run.info.name, step=step) as facts:
            checkpoint = load_weights(run, step)
            facts["sha256"] = checkpoint.sha256[:12]
        return checkpoint

    return kept(("checkpoint", str(path), stamp_of(path)), load)


def trace_of(
    run: Run,
    step: int,
    text: str,
    target: tuple[int, ...] | None = None,
    *,
    switched_off: tuple[Head, ...] = (),
) -> Trace:
    """The trace of a sentence, of the model's own translation or a given target's ids.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence, or a head that is not there.
    """
    checkpoint = checkpoint_of(run, step)
    name, sha256 = run.info.name, checkpoint.sha256

    def compute() -> Trace:
        with told("trace", run=name, step=step, heads_off=len(switched_off)) as facts:
            trace = run_trace(
                checkpoint.model,
                run.tokenizers,
                text,
                target,
                run=name,
                step=step,
                sha256=sha256,
                switched_off=switched_off,
            )
            facts |= {"source": len(trace.source), "target": len(trace.predicted)}
        return trace

    # Of the run that is open, not of the file, which may be another by now.
    tokenizers = tuple(sorted(run.info.tokenizer_sha256.items()))
    return kept(("trace", name, tokenizers, step, sha256, text, target, switched_off), compute)


def layer_trace_of(selection: Selection, trace: Trace, kind: Kind, layer: int) -> LayerTrace:
    """One layer of a trace in full.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on a layer that is not there.
    """
    run, step = selection.run, selection.step
    checkpoint = checkpoint_of(run, step)

    def compute() -> LayerTrace:
        with told("layer", run=run.info.name, step=step, of=f"{kind} {layer + 1}"):
            return run_layer_trace(checkpoint.model, trace, kind, layer)

    passed = trace.source.ids, trace.target_ids, trace.switched_off
    return kept(("layer", checkpoint.sha256, passed, kind, layer), compute)


def continued(run: Run, step: int, text: str, prefix: tuple[int, ...]) -> tuple[int, ...]:
    """A target's first ids, from ``<s>`` on, and how the model goes on after them, greedily.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence.
    """
    return _continued(checkpoint_of(run, step).sha256, _source(run, text), prefix, run, step)


@st.cache_resource(max_entries=64, show_spinner=False)
def _continued(
    sha256: str, source: tuple[int, ...], prefix: tuple[int, ...], _run: Run, _step: int
) -> tuple[int, ...]:
    if prefix[-1] == EOS:
        return prefix
    with told("translated", run=_run.info.name, step=_step, source=len(source)) as facts:
        ids = tuple(greedy(checkpoint_of(_run, _step).model, [source], prefix)[0])
        facts["target"] = len(ids) - 1
    return ids


def beam_of(run: Run, step: int, text: str, size: int) -> Beam:
    """What a beam search finds for a sentence.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence.
    """
    return _beam(checkpoint_of(run, step).sha256, _source(run, text), size, run, step)


@st.cache_resource(max_entries=24, show_spinner=False)
def _beam(sha256: str, source: tuple[int, ...], size: int, _run: Run, _step: int) -> Beam:
    with told("beam search", run=_run.info.name, step=_step, source=len(source), width=size):
        [beam] = beam_search(checkpoint_of(_run, _step).model, [source], size=size)
    return beam


def head_costs_of(run: Run, step: int, text: str, target: tuple[int, ...]) -> dict[Kind, Floats]:
    """What switching each head off costs a target's ids, in nats: kind → (L, H).

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    return _head_costs(checkpoint_of(run, step).sha256, _source(run, text), target, run, step)


@st.cache_resource(max_entries=24, show_spinner=False)
def _head_costs(
    sha256: str, source: tuple[int, ...], target: tuple[int, ...], _run: Run, _step: int
) -> dict[Kind, Floats]:
    sizes = {"source": len(source), "target": len(target) - 1}
    with told("head costs", run=_run.info.name, step=_step, **sizes):
        costs = head_costs(checkpoint_of(_run, _step).model, source, target)
    return {kind: cost.numpy(force=True) for kind, cost in costs.items()}


def _source(run: Run, text: str) -> tuple[int, ...]:
    return tuple(run.tokenizers.encode_source(text.strip()))


def embedding_table(run: Run, step: int, side: str) -> Floats:
    """The source or target embeddings, (V, D), unscaled.

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    model = checkpoint_of(run, step).model
    stack = model.encoder if side == "source" else model.decoder
    table: Floats = stack.embedding.table.weight.numpy(force=True)
    return table


def attention_of(run: Run, step: int, text: str, target: tuple[int, ...]) -> AttentionTrace:
    """The maps of a sentence and a target's ids, without the rest of a trace.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence or target.
    """
    checkpoint, source = checkpoint_of(run, step), _source(run, text)

    def compute() -> AttentionTrace:
        sizes = {"source": len(source), "target": len(target) - 1}
        with told("attention", run=run.info.name, step=step, **sizes):
            return run_attention(checkpoint.model, source, target)

    return kept(("attention", checkpoint.sha256, source, target), compute)


def own_translation(run: Run, step: int, text: str) -> tuple[tuple[int, ...], Floats]:
    """What a checkpoint itself makes of a sentence, greedily, and each piece's log-probability.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence.
    """
    target = continued(run, step, text, (BOS,))
    sha256 = checkpoint_of(run, step).sha256
    return target, _log_probability(sha256, _source(run, text), target, run, step)


@st.cache_resource(max_entries=64, show_spinner=False)
def _log_probability(
    sha256: str, source: tuple[int, ...], target: tuple[int, ...], _run: Run, _step: int
) -> Floats:
    return target_log_probability(checkpoint_of(_run, _step).model, source, target)


Row = Mapping[str, Any]


def stamp_if_there(path: Path) -> Stamp | None:
    """By which a changed file is known; None where there is none."""
    try:
        return stamp_of(path)
    except CheckpointError:
        return None


def log_of(folder: Path, name: str) -> Sequence[Row]:
    """The rows of a run's log, read once for each change of it; none where there is no log.

    Raises:
        CheckpointError: if a line that is not the last cannot be read.
    """
    path = folder / name
    return _log(str(path), stamp_if_there(path))


@st.cache_resource(max_entries=24, show_spinner=False)
def _log(path: str, stamp: Stamp | None) -> tuple[Row, ...]:
    return tuple(read_log(Path(path)))
