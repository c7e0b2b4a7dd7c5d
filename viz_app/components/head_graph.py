"""Heads that feed heads, drawn between the rows of both stacks, and played through a training.

The script is that of the player, which draws edges instead of maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.model.interface import Head, Kind
from headwise.viz_app.components.assets import component, told
from headwise.viz_app.figures.theme import Theme, page_colours
from headwise.viz_app.records.composition import ROLES, Edge, Role


@dataclass(frozen=True)
class GraphFrame:
    """A frame has the edges of one step, the strongest first."""

    step: int
    edges: Sequence[Edge]
    said: str
    """What stands above them."""


_mount = component("player")


def head_graph(
    shapes: Mapping[Kind, tuple[int, int]],
    labels: Mapping[Head, str],
    frames: Sequence[GraphFrame],
    *,
    chosen: tuple[Head, Head, Role],
    start: int,
    content_id: str,
    theme: Theme,
    name: str,
    key: str,
    on_open: Callable[[int], None],
    on_edge: Callable[[Head, Head, Role], None],
) -> None:
    """Draw the edges of one step, or of several, with what plays them.

    Args:
        shapes: layers and heads of each kind.
        labels: what people read for each head.
        frames: what is drawn, by step.
        chosen: the edge that is drawn above the others, by its heads and role.
        start: the step that is shown at first.
        content_id: identifies what is played, as for ``player``.
        theme: colours.
        name: name of the file that a frame is saved as, before its step.
        key: of the component.
        on_open: called with a step that is to be opened.
        on_edge: called with the heads and the role of an edge that was clicked.
    """
    heads = [*labels]

    def opened() -> None:
        step = told(key, "step")
        if step is not None:
            on_open(int(step))

    def clicked() -> None:
        edge = told(key, "edge")
        if edge is not None:
            earlier, later, role = map(int, edge)
            on_edge(heads[earlier], heads[later], ROLES[role])

    data = graph_data(shapes, labels, frames, chosen=chosen, theme=theme) | {
        "start": start,
        "content_id": content_id,
        "name": name,
    }
    _mount(key=key, data=data, on_step_change=opened, on_edge_change=clicked)


def graph_data(
    shapes: Mapping[Kind, tuple[int, int]],
    labels: Mapping[Head, str],
    frames: Sequence[GraphFrame],
    *,
    chosen: tuple[Head, Head, Role],
    theme: Theme,
) -> dict[str, Any]:
    """Return what the browser is sent; edges name heads and roles by their places."""
    places = {head: place for place, head in enumerate(labels)}

    def named(earlier: Head, later: Head, role: Role) -> list[int]:
        return [places[earlier], places[later], ROLES.index(role)]

    return {
        "shapes": {kind: list(shape) for kind, shape in shapes.items()},
        "heads": [list(head) for head in labels],
        "labels": [*labels.values()],
        "roles": list(ROLES),
        "series": list(theme.series[: len(ROLES)]),
        "chosen": named(*chosen),
        "frames": [
            {
                "step": frame.step,
                "tokens": [],
                "shades": [],
                "score": frame.said,
                "edges": [
                    [
                        *named(edge.earlier, edge.later, edge.role),
                        *(round(value, 4) for value in (edge.score, edge.error, edge.chance)),
                    ]
                    for edge in frame.edges
                ],
            }
            for frame in frames
        ],
        "language": "en",
        "colours": page_colours(theme) | {"masked": theme.masked},
    }
