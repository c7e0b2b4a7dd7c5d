"""The section "stages" of the page Training: measures of whole checkpoints.

They are the stages of a training, and how sinks and the largest numbers of the stream form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS
from headwise.viz_app.analysis.labels import ONE_TRAINING_NOTE
from headwise.viz_app.figures.checkpoint_lines import StageChart, stage_charts
from headwise.viz_app.measuring.checkpoint_measures import DRAWN, STREAM_SIZES, describe_stage
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import measures_of, show_measure_state
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import WHOLE_PAGE, change_view
from headwise.viz_app.session.widgets import clicked_value, show_figure
from headwise.viz_app.training.checkpoints import has_several
from headwise.viz_app.training.matrix import measured_steps_of, say_one_measured

_RESTING = "weight on special tokens and punctuation"


def show_stages(selection: Selection) -> None:
    """Draw the section."""
    if not has_several(selection.run, "follow over training"):
        return
    steps = measured_steps_of(selection)
    measured, above = measures_of(selection.run, steps), st.container()
    selection.say_steps(steps)
    if len(measured.by_step) > 1:
        _show_charts(selection, measured.by_step, steps)
    elif measured.by_step:
        say_one_measured(*measured.by_step)
    with above:  # last: measuring goes on there
        show_measure_state(selection, measured)


@panel("training-stages")
def _show_charts(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures that have a value at any of these steps, some of which may have none."""
    charts = {
        name: chart
        for name in DRAWN
        if not all(map(math.isnan, (chart := _chart(name, by_step, steps)).values))
    }
    sizes = {name: charts.pop(name) for name in STREAM_SIZES if name in charts}
    if not charts and not sizes:
        st.info("Nothing of these checkpoints as a whole is measured, only their heads.")
        return
    left, right = st.columns(2, gap="medium")
    if charts:
        with left:
            _show_stages_of_learning(selection, by_step, steps, charts)
    if sizes:
        with right if charts else left:
            _show_sizes(selection, by_step, steps, sizes)


def _draw_stages(
    selection: Selection, steps: Sequence[int], charts: Sequence[StageChart], key: str
) -> None:
    def open_clicked() -> None:
        if clicked := clicked_value(key):
            change_view(WHOLE_PAGE, step=int(clicked))

    ends = []
    for chart in charts:
        known = [value for value in chart.values if not math.isnan(value)]
        ends.append(f"{chart.name} from {known[0]:.2f} to {known[-1]:.2f}")
    show_figure(
        stage_charts(
            charts, steps=steps, theme=selection.theme, marked=steps.index(selection.step)
        ),
        key=key,
        alt=f"Measures of {len(steps)} checkpoints as a whole: {'; '.join(ends)}.",
        name=key,
        on_select=open_clicked,
    )


def _weight_without_content(measures: Measures) -> tuple[float, float]:
    """Return the mean weight of heads on special tokens and punctuation, and of even heads.

    The second is NaN if it is not known.
    """
    names = ("begin", "end", "punctuation")
    heads, even = list[float](), list[float]()
    for kind in KINDS:
        of_kind = np.nansum([measures.values[name][kind] for name in names], axis=0)
        heads += of_kind.ravel().tolist()
        by_chance = [measures.even.get(name, {}).get(kind, math.nan) for name in names]
        even += [float(np.nansum(by_chance))] * of_kind.size
    return float(np.mean(heads)), float(np.mean(even)) if measures.even else math.nan


def _show_sizes(
    selection: Selection,
    by_step: Mapping[int, Measures],
    steps: Sequence[int],
    charts: Mapping[str, StageChart],
) -> None:
    """Draw what heads have on tokens without content, and the largest numbers of the streams."""
    st.markdown("**Where heads rest, and the largest numbers of the stream**")
    found = {step: _weight_without_content(one) for step, one in by_step.items()}
    weights = [found[step][0] if step in found else math.nan for step in steps]
    resting = StageChart(
        _RESTING,
        weights,
        ["" if math.isnan(weight) else f"{_RESTING}: {weight:.3f}" for weight in weights],
        _or_none(next(iter(found.values()))[1]),
        "even heads",
    )
    drawn = [resting, *charts.values()]
    _draw_stages(selection, steps, drawn, "sizes")
    st.caption(
        "That two rise together does not say that one is the cause of the other.",
        help="The weight is the mean of all heads of all kinds over the corpus; the dotted line is "
        "that of heads that spread theirs evenly. " + _half_ways(drawn, steps) + " *Model* has, "
        "below its lens, the largest numbers of one sentence, by layer and token.",
    )
    _explain(charts)


def _explain(names: Iterable[str]) -> None:
    with st.expander("How these are measured"):
        for name in names:
            about = DRAWN[name]
            st.markdown(f"**{about.name}**: {escape_markdown(f'{about.note} {about.source}')}")
            st.latex(about.formula)


def _show_stages_of_learning(
    selection: Selection,
    by_step: Mapping[int, Measures],
    steps: Sequence[int],
    charts: Mapping[str, StageChart],
) -> None:
    st.markdown("**Stages of the training**")
    _draw_stages(selection, steps, list(charts.values()), "stages")
    corpus = next(iter(by_step.values())).examples_corpus
    errors = any(measures.stage_errors for measures in by_step.values())
    st.caption(
        "Voita, Sennrich and Titov (2021b) find three stages: a training first learns to write the "
        "target language, then to translate word by word, then to reorder; not every training "
        "shows all three.",
        help=f"Translations are the greedy ones of {corpus.sentences:,} sentences. The vertical "
        f"line is at step {selection.step:,}, and a click takes the checkpoint of another step, as "
        "the slider does."
        + f" Standard errors stand in brackets where the mouse rests. {ONE_TRAINING_NOTE}"
        * errors,
    )
    _explain(charts)


def _chart(name: str, by_step: Mapping[int, Measures], steps: Sequence[int]) -> StageChart:
    about = DRAWN[name]
    values = [by_step[step].stages[name] if step in by_step else math.nan for step in steps]
    errors = [
        by_step[step].stage_errors.get(name, math.nan) if step in by_step else math.nan
        for step in steps
    ]
    reference = math.nan
    if about.reference is not None:
        reference = next(iter(by_step.values())).stages[about.reference]
    return StageChart(
        about.name,
        values,
        [describe_stage(name, value, error) for value, error in zip(values, errors, strict=True)],
        _or_none(reference),
    )


def _or_none(reference: float) -> float | None:
    return None if math.isnan(reference) else reference


def _half_ways(charts: Iterable[StageChart], steps: Sequence[int]) -> str:
    """Say of each chart from which checkpoint on at least half of its way is done."""
    said = []
    for chart in charts:
        every = zip(chart.values, steps, strict=True)
        known = [(value, step) for value, step in every if not math.isnan(value)]
        (first, _), (last, _) = known[0], known[-1]
        way = last - first
        short = [step for value, step in known if (value - first) * way < way * way / 2]
        step = next((step for _, step in known if not short or step > short[-1]), known[0][1])
        said.append(f"the {chart.name} from step {step:,} on")
    return (
        "At least half of the way from its first value to its last is done, and stays so, by "
        + ", by ".join(said)
        + "."
    )
