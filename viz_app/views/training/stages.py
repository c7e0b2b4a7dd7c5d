"""The stages of a training: measures of whole checkpoints below the matrix of their heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import streamlit as st

from headwise.viz_app.analysis.stages import STAGE_DESCRIPTIONS, describe_stage
from headwise.viz_app.figures.checkpoint_lines import StageChart, stage_charts
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, redraw_all
from headwise.viz_app.views.shared.widgets import clicked_value, show_figure


def show_stages(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures that have a value at any of these steps, some of which may have none."""
    charts = {
        name: chart
        for name in STAGE_DESCRIPTIONS
        if not all(map(math.isnan, (chart := _chart(name, by_step, steps)).values))
    }
    if not charts:
        return
    st.markdown("**Stages of the training**")
    show_figure(
        stage_charts(
            list(charts.values()),
            steps=steps,
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="stages",
        alt=f"Measures of {len(steps)} checkpoints as a whole, below the columns of the "
        f"matrix: {'; '.join(map(_ends, charts.values()))}.",
        name="stages",
        on_select=_go_to_clicked,
    )
    corpus = next(iter(by_step.values())).examples_corpus
    st.caption(
        "Voita, Sennrich and Titov (2021b) find three stages: a training first learns to write the "
        "target language, then to translate word by word, then to reorder. Translations are the "
        f"greedy ones of {corpus.sentences:,} sentences. The columns are those of the matrix; the "
        f"vertical line is at step {selection.step:,}, and a click takes the checkpoint of another "
        "step, as the slider does."
    )
    with st.expander("How these are measured"):
        for name in charts:
            about = STAGE_DESCRIPTIONS[name]
            st.markdown(f"**{about.name}**: {escape_markdown(f'{about.note} {about.source}')}")
            st.latex(about.formula)


def _chart(name: str, by_step: Mapping[int, Measures], steps: Sequence[int]) -> StageChart:
    about = STAGE_DESCRIPTIONS[name]
    values = [by_step[step].stages[name] if step in by_step else math.nan for step in steps]
    reference = None
    if about.reference is not None:
        reference = next(iter(by_step.values())).stages[about.reference]
    return StageChart(
        about.name,
        values,
        [describe_stage(name, value) for value in values],
        None if reference is None or math.isnan(reference) else reference,
    )


def _ends(chart: StageChart) -> str:
    known = [value for value in chart.values if not math.isnan(value)]
    return f"{chart.name} from {known[0]:.2f} to {known[-1]:.2f}"


def _go_to_clicked() -> None:
    """Select the checkpoint whose mark was clicked."""
    if clicked := clicked_value("stages"):
        change_view(step=int(clicked))
        redraw_all()
