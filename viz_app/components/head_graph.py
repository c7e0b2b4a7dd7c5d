"""Draw edges between the rows of heads of both stacks, and play them through a training.

The script is that of the player, which draws edges instead of maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headwise.model.interface import Head, Kind
from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.theme import Theme, page_colours

Edge = tuple[Head, Head, str, float, float, float]
"""An earlier and a later head, the role in which it reads, score, error and chance."""


class Frame(NamedTuple):
    """The edges of one step, the strongest first, and the chosen one."""

    edges: Sequence[Edge]
    said: str
    """What stands above them."""


_mount = component("player")


def head_graph(
    shapes: Mapping[Kind, tuple[int, int]],
    labels: Mapping[Head, str],
    roles: Sequence[str],
    frames: Mapping[int, Frame],
    *,
    chosen: Edge,
    start: int,
    run: str,
    theme: Theme,
    key: str,
    on_open: Callable[[int], None],
    on_edge: Callable[[Head, Head, str], None],
) -> None:
    """Draw the edges of one step, or of several, with what plays them.

    Args:
        shapes: layers and heads of each kind.
        labels: what people read for each head.
        roles: what a later head makes of what it reads, in the order of their colours.
        frames: what is drawn, by step.
        chosen: the edge that is drawn above the others.
        start: the step that is shown at first.
        run: whose edges they are, for the name of a saved frame.
        theme: colours.
        key: of the component.
        on_open: called with a step that is to be opened.
        on_edge: called with the heads and the role of an edge that was clicked.
    """
    heads = [*labels]

    def opened() -> None:
        if (step := sent_value(key, "step")) is not None:
            on_open(int(step))

    def clicked() -> None:
        if (edge := sent_value(key, "edge")) is not None:
            earlier, later, role = map(int, edge)
            on_edge(heads[earlier], heads[later], roles[role])

    data = graph_data(shapes, labels, roles, frames, chosen=chosen, theme=theme)
    data |= {"start": start, "content_id": run, "name": f"headwise-{run}-edges"}
    _mount(key=key, data=data, on_step_change=opened, on_edge_change=clicked)


def graph_data(
    shapes: Mapping[Kind, tuple[int, int]],
    labels: Mapping[Head, str],
    roles: Sequence[str],
    frames: Mapping[int, Frame],
    *,
    chosen: Edge,
    theme: Theme,
) -> dict[str, Any]:
    """Return what the browser is sent; edges name heads and roles by their places."""
    places = {head: place for place, head in enumerate(labels)}

    def ends(edge: Edge) -> list[int]:
        earlier, later, role, *_ = edge
        return [places[earlier], places[later], roles.index(role)]

    return {
        "shapes": {kind: list(shape) for kind, shape in shapes.items()},
        "heads": [list(head) for head in labels],
        "labels": [*labels.values()],
        "roles": list(roles),
        "series": list(theme.series[: len(roles)]),
        "chosen": ends(chosen),
        "frames": [
            {
                "step": step,
                "tokens": [],
                "shades": [],
                "score": frame.said,
                "edges": [
                    [*ends(edge), *(round(value, 4) for value in edge[3:])] for edge in frame.edges
                ],
            }
            for step, frame in frames.items()
        ],
        "language": "en",
        "colours": page_colours(theme) | {"masked": theme.masked},
    }
