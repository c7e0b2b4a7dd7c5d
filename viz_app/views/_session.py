"""What the pages share: caches of runs, models and traces, and how messages are shown.

Caches hold arrays and models, never figures; their keys are plain values, with the size and time of
the files they came from, so that a replaced run is read again; each is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from model.ablation import head_costs
from model.beam import Beam as Beam
from model.beam import beam_search
from model.checkpoint import Checkpoint, CheckpointError, Run, load_weights, open_run, weights_path
from model.config import EOS
from model.decoding import greedy
from viz_app.figures.theme import Theme, theme_named
from viz_app.records import Floats, Head, Kind, Trace
from viz_app.trace import run_trace

Option = TypeVar("Option")

PROBLEMS = (CheckpointError, ValueError, OSError)
"""What a person can cause and put right; shown in place."""


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


def forget_unless(key: str, options: Collection[object]) -> None:
    """Drop a choice that is not offered any more, where it is read before its widget is drawn.

    (A widget itself falls back to its default.)
    """
    if key in st.session_state and st.session_state[key] not in options:
        del st.session_state[key]


def forget_when_new(key: str, *, of: object) -> None:
    """Drop a choice that was made for something else than it would be for now."""
    if st.session_state.get(f"{key}_of") != of:
        st.session_state[f"{key}_of"] = of
        st.session_state.pop(key, None)


def choose_one(
    label: str,
    options: Sequence[Option],
    *,
    key: str,
    default: Option,
    format_func: Callable[[Option], str] = str,
    help: str | None = None,
) -> Option:
    """A row of buttons of which always one is chosen; the URL keeps the choice under ``key``."""
    chosen: Option = st.segmented_control(
        label,
        options,
        default=default,
        format_func=format_func,
        key=key,
        required=True,
        bind="query-params",
        help=help,
    )
    return chosen


def show_figure(figure: Any, *, key: str, on_select: Callable[[], None] | None = None) -> None:
    """Draw a figure in a container ``<key>-box``: as wide as it says, or as there is room."""
    with st.container(key=f"{key}-box"):
        st.plotly_chart(
            figure,
            theme=None,
            config={"displayModeBar": False},
            key=key,
            width="content" if figure.layout.width else "stretch",
            on_select=on_select or "ignore",
            selection_mode="points",
        )


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


@contextmanager
def problems_in_place() -> Iterator[None]:
    """Show what a person can put right where it occurs, and go on with the page."""
    try:
        yield
    except PROBLEMS as problem:
        st.error(plain(str(problem)))


Stamp = tuple[int, int]


def _stamp(path: Path) -> Stamp:
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
    return _open_run(str(root), name, _stamp(root / name / "run.json"))


@st.cache_resource(max_entries=8, show_spinner=False)
def _open_run(root: str, name: str, stamp: Stamp) -> Run:
    return open_run(name, root=Path(root))


def checkpoint_of(run: Run, step: int) -> Checkpoint:
    """A loaded checkpoint, read once.

    Raises:
        CheckpointError: if its file is missing or broken.
    """
    path = weights_path(run.folder, step)
    if not path.exists():
        load_weights(run, step)  # raises, naming the steps that are there
    return _load(str(run.folder.parent), run.info.name, step, _stamp(path), run)


@st.cache_resource(max_entries=16, show_spinner=False)
def _load(root: str, name: str, step: int, stamp: Stamp, _run: Run) -> Checkpoint:
    return load_weights(_run, step)


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
    stamp = _stamp(run.folder / "run.json")
    return _trace(
        run.info.name, stamp, checkpoint.sha256, text, target, switched_off, checkpoint, run
    )


@st.cache_resource(max_entries=24, show_spinner=False)
def _trace(
    name: str,
    stamp: Stamp,
    sha256: str,
    text: str,
    target: tuple[int, ...] | None,
    switched_off: tuple[Head, ...],
    _checkpoint: Checkpoint,
    _run: Run,
) -> Trace:
    return run_trace(
        _checkpoint.model,
        _run.tokenizers,
        text,
        target,
        run=name,
        step=_checkpoint.step,
        sha256=sha256,
        switched_off=switched_off,
    )


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
    return tuple(greedy(checkpoint_of(_run, _step).model, [source], prefix)[0])


def beam_of(run: Run, step: int, text: str, size: int) -> Beam:
    """What a beam search finds for a sentence.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: on an empty or too long sentence.
    """
    return _beam(checkpoint_of(run, step).sha256, _source(run, text), size, run, step)


@st.cache_resource(max_entries=24, show_spinner=False)
def _beam(sha256: str, source: tuple[int, ...], size: int, _run: Run, _step: int) -> Beam:
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
