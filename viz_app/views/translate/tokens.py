"""Show the tokens of the sentence and of its translation, which choose a column and a step."""

from __future__ import annotations

from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.components.token_buttons import token_buttons
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.shared.lessons import answered
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import target_probabilities
from headwise.viz_app.views.shared.view import change_view, checked, view
from headwise.viz_app.views.translate.step import STEP_PANELS


@panel("tokens")
def show_tokens(selection: Selection, trace: Trace) -> None:
    """Draw the tokens of a trace; a click marks a column of the map, or chooses a step."""

    def mark_column(place: int) -> None:
        column = None if place == view().column else place
        change_view("tokens", "heads", column=column, **answered("source", place))

    def choose_step(place: int) -> None:
        answer = answered("target", place) | answered("row", place)
        change_view(*STEP_PANELS, at=place, below="steps", **answer)

    source = token_labels(trace.source)
    column = checked(
        "column",
        "Marked column",
        usable=range(len(source)).__contains__,
        written=source.__getitem__,
    )
    token_buttons(
        source,
        name="Tokens of the source: each marks its column in the map",
        theme=selection.theme,
        key="source_tokens",
        on_click=mark_column,
        chosen=column,
        language=selection.run.source_language,
    )
    probabilities, titles = target_probabilities(trace)
    token_buttons(
        token_labels(trace.predicted),
        name="Tokens of the target: each chooses its step of decoding",
        theme=selection.theme,
        key="target_tokens",
        on_click=choose_step,
        chosen=view().at,
        probabilities=probabilities,
        titles=titles,
        language=selection.run.target_language,
    )
