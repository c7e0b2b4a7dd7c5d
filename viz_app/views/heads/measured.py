"""The measures of a run's checkpoints: those that fit, and what is to be said of the others."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from safetensors import SafetensorError, safe_open

from model.checkpoint import CHECKPOINTS, CheckpointError, Run, weights_path
from viz_app.analysis.head_words import ABOUT
from viz_app.measure_files import measured_steps, measures_path, read_measures
from viz_app.measure_records import MEASURES, Corpus, Measures
from viz_app.views._session import Stamp, stamp_of
from viz_app.views._widgets import plain
from viz_app.views.address import check_asked


@dataclass(frozen=True)
class Measured:
    """What was found for some steps of a run."""

    by_step: Mapping[int, Measures]
    """Of those whose weights are the ones that were measured."""
    missing: Sequence[int]
    stale: Sequence[int]
    """Measured with other weights than the checkpoint has now."""
    broken: Mapping[int, str]
    """What is wrong with files that cannot be used."""

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """What was measured on, each once."""
        return tuple(dict.fromkeys(measures.corpus for measures in self.by_step.values()))


def measured_of(run: Run, steps: Sequence[int]) -> Measured:
    """The measures of these steps; no weights are loaded for it."""
    by_step: dict[int, Measures] = {}
    missing: list[int] = []
    stale: list[int] = []
    broken: dict[int, str] = {}
    there = set(measured_steps(run.folder))
    for step in steps:
        if step not in there:
            missing.append(step)
            continue
        try:
            measures = _measures_of(run.folder, step)
            if measures.sha256 == _weights_sha256(weights_path(run.folder, step)):
                by_step[step] = measures
            else:
                stale.append(step)
        except CheckpointError as problem:
            broken[step] = str(problem)
    return Measured(by_step, missing, stale, broken)


def _measures_of(folder: Path, step: int) -> Measures:
    sentences = measures_path(folder, step).with_name("sentences.jsonl")
    stamps = stamp_of(measures_path(folder, step)), stamp_of(sentences)
    return _read(str(folder), step, stamps)


@st.cache_resource(max_entries=64, show_spinner=False)
def _read(folder: str, step: int, stamps: tuple[Stamp, Stamp]) -> Measures:
    return read_measures(Path(folder), step)


def _weights_sha256(path: Path) -> str:
    """What the header of a weights file says; whether it is true is seen when they are loaded."""
    return _header_sha256(str(path), stamp_of(path))


@st.cache_resource(max_entries=256, show_spinner=False)
def _header_sha256(path: str, stamp: Stamp) -> str:
    try:
        with safe_open(path, "numpy") as file:
            return str((file.metadata() or {}).get("sha256"))
    except SafetensorError as error:
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error}); restore the file or remove it"
        ) from error


def show_state(run: Run, measured: Measured) -> None:
    """Say what was measured on, and what is missing, stale or broken."""
    if not (measured.by_step or measured.stale or measured.broken):
        which = "This run" if len(measured.missing) > 1 else "This checkpoint"
        st.info(f"{which} has not been measured yet. In a terminal, with the file to measure on:")
        st.code(_command(run, measured), language=None)
        return
    corpora = [
        f"{plain(corpus.name)}: {corpus.sentences:,} sentences, {corpus.pieces:,} target pieces"
        for corpus in measured.corpora
    ]
    if corpora:
        st.caption(
            f"Measured on {'; and on '.join(corpora)}. The targets are the corpus's translations."
        )
    problems = []
    if len(corpora) > 1:
        problems.append("Checkpoints were measured on different sentences: do not compare them.")
    if measured.stale:
        problems.append(
            f"Of step {_listed(measured.stale)} the weights have changed since they were measured; "
            "those measures are left out."
        )
    problems += map(plain, dict.fromkeys(measured.broken.values()))
    if measured.missing:
        problems.append(f"Not measured: step {_listed(measured.missing)}.")
    if problems:
        st.warning("\n\n".join([*problems, "To measure, in a terminal:"]))
        st.code(_command(run, measured), language=None)
    last = run.steps()[-1]
    ends = {m.distance_to for m in measured.by_step.values()} - {None, last}
    if ends:
        st.caption(
            f"Distances are to step {_listed(sorted(end for end in ends if end is not None))}; the "
            f"last is now {last:,}."
        )


def _command(run: Run, measured: Measured) -> str:
    command = ["python", "-m", "viz_app.measure", "--run", run.info.name]
    command += ["--data", run.info.data.valid_file]
    if run.folder.parent.resolve() != CHECKPOINTS.resolve():
        command += ["--checkpoints", str(run.folder.parent)]
    steps = sorted({*measured.missing, *measured.stale, *measured.broken})
    if steps != run.steps():
        command += ["--steps", *map(str, steps)]
    return shlex.join(command)


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(f"{step:,}" for step in steps)


def choose_measure() -> str:
    """One of the measures, with what it is."""
    names = {name: ABOUT[name].name for name in MEASURES}
    check_asked("measure", "Measure", [*names.values()].__contains__, named=names.__getitem__)
    name: str = st.selectbox(
        "Measure",
        MEASURES,
        index=MEASURES.index("cost"),
        format_func=names.__getitem__,
        key="measure",
        bind="query-params",
    )
    st.caption(plain(ABOUT[name].note))
    st.latex(ABOUT[name].formula)
    return name
