"""Read the measures of a run's checkpoints, and show which are missing, stale or broken."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.interface import Kind
from headwise.viz_app.analysis.head_ranking import emergence
from headwise.viz_app.analysis.labels import bound_text
from headwise.viz_app.measuring.alignments import alignments_path, read_alignments
from headwise.viz_app.measuring.files import measured_steps, measures_path, read_measures
from headwise.viz_app.measuring.head_measures import DESCRIBED, Measure, in_groups
from headwise.viz_app.records.measures import Measures, OwnMeasure
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached, stamp_of
from headwise.viz_app.session.caches import CHECKPOINTS, Run, weights_sha256
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.given import (
    given_measures,
    given_sentences,
    show_measuring,
    show_others,
)
from headwise.viz_app.session.markdown import escape_latex, escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import view
from headwise.viz_app.session.vocabulary import special_tokens_of
from headwise.viz_app.session.widgets import choose_from_list


@dataclass(frozen=True)
class RunMeasures:
    """The measures of some steps of a run are held with the steps that have none to be used."""

    by_step: Mapping[int, Measures]
    """The measures that were made with the weights that the checkpoints have."""
    missing: Sequence[int]
    stale: Sequence[int]
    """Steps that were measured with other weights than the checkpoint has now."""
    broken: Mapping[int, str]
    """Step → what is wrong with its file, as Markdown."""

    @property
    def to_measure(self) -> list[int]:
        """Return the steps that have no measures to be used, in order."""
        return sorted({*self.missing, *self.stale, *self.broken})


def measures_of(run: Run, steps: Sequence[int]) -> RunMeasures:
    """Read the measures of some steps, without loading weights.

    Those of a step that has none to be used are what this session has measured, if it has.
    """
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
            if measures.sha256 == weights_sha256(run, step):
                by_step[step] = measures
            else:
                stale.append(step)
        except CheckpointError as problem:
            broken[step] = describe_error(problem)
    here = {step: found for step in steps if (found := given_measures(run, step)) is not None}
    by_step = {step: found.measures for step, found in here.items()} | by_step
    return RunMeasures(
        {step: by_step[step] for step in steps if step in by_step},
        [step for step in missing if step not in here],
        [step for step in stale if step not in here],
        {step: problem for step, problem in broken.items() if step not in here},
    )


def _measures_of(folder: Path, step: int) -> Measures:
    path = measures_path(folder, step)
    stamps = stamp_of(path), stamp_of(path.with_name("sentences.jsonl"))
    return cached(
        "measures read",
        (str(folder), step, stamps),
        lambda: read_measures(folder, step),
        facts=lambda _: {"run": folder.name, "step": step},
    )


def show_measure_state(selection: Selection, measured: RunMeasures) -> None:
    """Show what was measured on, and what is missing, stale or broken, and how to measure it."""
    run = selection.run
    if not (measured.by_step or measured.stale or measured.broken):
        which = "This run" if len(measured.missing) > 1 else "This checkpoint"
        st.info(
            f"{which} has not been measured yet. Measure it here on sentences of your own, which "
            "stay in this session, or over a corpus in a terminal."
        )
        _show_how_to_measure(selection, measured)
        return
    corpora = dict.fromkeys(
        (measures.corpus, measures.translated_at) for measures in measured.by_step.values()
    )
    if corpora:
        listed = [
            f"{escape_markdown(corpus.name)}: {corpus.sentences:,} sentences, {corpus.tokens:,} "
            "target tokens"
            for corpus, _ in corpora
        ]
        said = f"Measured on {'; and on '.join(listed)}. {_about_targets(run, measured)}"
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.caption(said)
            if given_sentences(run) is not None and not measured.to_measure:
                show_others(run)
    problems = []
    if len(corpora) > 1:
        problems.append("Checkpoints were measured on different sentences: do not compare them.")
    if measured.stale:
        problems.append(
            f"Of checkpoint {list_steps(measured.stale)} the weights have changed since they were "
            "measured; those measures are left out."
        )
    problems += dict.fromkeys(measured.broken.values())
    if measured.missing:
        problems.append(f"Not measured: checkpoint {list_steps(measured.missing)}.")
    if problems:
        st.warning("\n\n".join(problems))
    if measured.to_measure:
        _show_how_to_measure(selection, measured)
    last = run.steps()[-1]
    ends = {m.distance_to for m in measured.by_step.values()} - {None, last}
    if ends:
        known = list_steps(sorted(end for end in ends if end is not None))
        st.caption(f"Distances are to checkpoint {known}; the last is now {last:,}.")


def _show_how_to_measure(selection: Selection, measured: RunMeasures) -> None:
    show_measuring(selection, tuple(measured.to_measure))
    st.caption("Over a corpus, in a terminal:")
    run = selection.run
    st.code(measure_command(run, *corpus_options(run, measured.to_measure)), language=None)


def _about_targets(run: Run, measured: RunMeasures) -> str:
    """Say what the targets are, and what was left out of sentences that were given here."""
    of = {targets_of(measures) for measures in measured.by_step.values()}
    said = f"The targets are {' and '.join(sorted(of))}."
    given = given_sentences(run)
    if given is not None and given.found.keys() & measured.by_step.keys():
        said += f" Left out: {given.left_out}." * any(vars(given.left_out).values())
        said += " All this stays in this session only."
    return said


def targets_of(measures: Measures) -> str:
    if measures.translated_at is None:
        return "the references"
    return f"the translations of checkpoint {measures.translated_at:,}"


def measure_command(run: Run, *options: str) -> str:
    """Return the command that measures a run, with options that stand after its name."""
    own = run.data is not None
    command = ["python", "-m", "headwise.viz_app.measure", "--run"]
    command += [run.folder.name if own else _from_here(run.folder), *options]
    if own and run.folder.parent.resolve() != CHECKPOINTS.resolve():
        command += ["--checkpoints", _from_here(run.folder.parent)]
    return shlex.join(command)


def corpus_options(run: Run, steps: Sequence[int]) -> list[str]:
    """Return the options that measure some steps of a run over its validation corpus."""
    if run.data is None:
        options = ["--data", "FILE", "--columns", "SOURCE", "TARGET"]
    else:
        # What a run held back is in its folder, where the command finds it.
        options = [] if run.data.held_back else ["--data", run.data.valid_file]
    return options if list(steps) == run.steps() else [*options, "--steps", *map(str, steps)]


def _from_here(folder: Path) -> str:
    """Name a folder from the one in which the app was started; visitors learn no more of it."""
    here = Path.cwd()
    near = folder.absolute().is_relative_to(here)
    return str(folder.absolute().relative_to(here)) if near else f"PATH/{folder.name}"


def list_steps(steps: Sequence[int]) -> str:
    return ", ".join(f"{step:,}" for step in steps)


def values_of(run: Run, measures: Measures, name: str) -> Mapping[Kind, Floats]:
    """Return the values of a measure of a checkpoint, (L, H) for each kind.

    The emergence of heads is found from all checkpoints that are measured; it is the same for each.
    A measure that somebody added is NaN at checkpoints that were measured without it.
    """
    if name in measures.values:
        return measures.values[name]
    if name != "emergence":
        of_cost = measures.values["cost"].items()
        return {kind: np.full_like(values, np.nan) for kind, values in of_cost}
    by_step = measures_of(run, run.steps()).by_step
    return emergence(list(by_step), [one.values["from_first"] for one in by_step.values()])


def baselines_note(name: str, run: Run, measures: Measures) -> str:
    """Say whose links alignment error rates are against, and what they are to be compared with.

    Empty for other measures.
    """
    baselines = measures.alignment
    if baselines is None or name not in in_groups("alignment"):
        return ""
    least = bound_text(baselines.lowest, above=False)
    return (
        f" With one link for each target word the rate is at least {least} here; on "
        "the diagonal, the first word linked to the first, the second to the second and so on, it "
        f"is {baselines.diagonal:.2f}.{_aligner_note(run, measures)}"
    )


def _aligner_note(run: Run, measures: Measures) -> str:
    """Say who made the links of the corpus that was measured, if the run's folder has them."""
    path = alignments_path(run.folder)
    try:
        found = cached(
            "alignments read", (str(path), stamp_of(path)), lambda: read_alignments(run.folder)
        )
    except CheckpointError as problem:
        return f" {describe_error(problem)}"
    if found is None or found.sha256 != measures.corpus.sha256:
        return ""
    return f" The links are those of {escape_markdown(found.aligner)}."


def own_measures(measured: Iterable[Measures]) -> dict[str, OwnMeasure]:
    return {name: own for measures in measured for name, own in measures.own.items()}


def known_measures(measured: Iterable[Measures]) -> tuple[str, ...]:
    """Return the names of ours, and of those that ``own_measures`` returns."""
    return (*DESCRIBED, *own_measures(measured))


def measure_description(name: str, run: Run, measured: Iterable[Measures]) -> Measure:
    """Describe a measure of heads, which some checkpoints have, with a run's special tokens."""
    if name not in DESCRIBED:
        own = own_measures(measured)[name]
        return Measure(name=name, note=own.note, range=own.range, form=".3f")
    about = DESCRIBED[name]
    tokens = special_tokens_of(run)
    in_formulas = replace(tokens, start=escape_latex(tokens.start), end=escape_latex(tokens.end))
    return replace(
        about, name=tokens.name_in(about.name), formula=in_formulas.name_in(about.formula)
    )


def choose_measure(run: Run, measured: Collection[Measures]) -> str:
    """Ask for a measure that some checkpoints have, its description and formula behind its sign."""
    known = {name: measure_description(name, run, measured) for name in known_measures(measured)}
    shown = known.get(view().measure, known["cost"])
    formula = f"\n\n$$\n{shown.formula}\n$$" * bool(shown.formula)  # one that was added has none
    return choose_from_list(
        "Measure",
        list(known),
        key="measure",
        format_func=lambda name: known[name].name,
        help=escape_markdown(shown.note) + formula,
    )
