"""Draws the two stacks as rows of heads, with lines between heads that feed heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.figures.selecting import Target, click_targets
from headwise.viz_app.figures.theme import Properties, Theme, new_figure

_ROW = 46
"""Pixels between two rows of heads."""
_NAMES = {"encoder_self": "encoder", "decoder_self": "decoder self", "cross": "cross"}


def heads_graph(
    shapes: Mapping[Kind, tuple[int, int]],
    edges: Sequence[tuple[Head, Head, str, float, str]],
    *,
    chosen: int | None,
    theme: Theme,
) -> go.Figure:
    """Draw the encoder's layers on the left, the decoder's on the right, the first ones below.

    A click on the middle of a line, by the last trace, gives the place of its edge.

    Args:
        shapes: layers and heads of each kind.
        edges: earlier and later head, the role (``query``, ``key`` or ``value``), a score above 0,
            and what the mouse is told, in Plotly's markup.
        chosen: the place of the edge that is drawn above the others.
        theme: colours.
    """
    places = {
        Head(kind, layer, head): _place(kind, layer, head, heads)
        for kind, (layers, heads) in shapes.items()
        for layer in range(layers)
        for head in range(heads)
    }
    roles = ("query", "key", "value")
    colours = dict(zip(roles, theme.series, strict=False))
    largest = max((edge[3] for edge in edges), default=1.0)
    data: list[Properties] = [_legend(role, colours[role]) for role in roles]
    for place, (earlier, later, role, score, _) in enumerate(edges):
        (x0, y0), (x1, y1) = places[earlier], places[later]
        data.append(
            {
                "type": "scatter",
                "x": [x0, x1],
                "y": [y0, y1],
                "mode": "lines",
                "line": {
                    "color": colours[role],
                    "width": (4 if place == chosen else 1) + 2 * score / largest,
                },
                "opacity": 1.0 if place == chosen else 0.3 + 0.5 * score / largest,
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    data.append(
        {
            "type": "scatter",
            "x": [x for x, _ in places.values()],
            "y": [y for _, y in places.values()],
            "text": [head_name(head) for head in places],
            "mode": "markers",
            "marker": {"size": 9, "color": theme.muted},
            "hovertemplate": "%{text}<extra></extra>",
            "showlegend": False,
        }
    )
    targets = [
        Target(*_middle(places[edge[0]], places[edge[1]]), str(place), edge[4])
        for place, edge in enumerate(edges)
    ]
    data.append(click_targets(targets) | {"showlegend": False})
    top = max(y for _, y in places.values())
    rows = sorted({(kind, y) for (kind, _, _), (_, y) in places.items()})
    names = [
        {
            "x": -0.05 if kind == "encoder_self" else 1.05,
            "y": y + 0.32,
            "text": f"{_NAMES[kind]} {round(y) + 1 if kind == 'encoder_self' else int(y) + 1}",
            "showarrow": False,
            "xanchor": "left",
            "font": {"size": 10, "color": theme.muted},
        }
        for kind, y in rows
    ]
    return new_figure(
        theme,
        data,
        {
            "height": round(_ROW * 2 * (top + 1)) + 60,
            "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "annotations": names,
            "xaxis": {"range": [-0.1, 2.1], "visible": False},
            "yaxis": {"range": [-0.4, top + 0.6], "visible": False},
        },
    )


def _place(kind: Kind, layer: int, head: int, heads: int) -> tuple[float, float]:
    across = (head + 0.5) / heads * 0.9
    if kind == "encoder_self":
        return across, float(layer)
    return 1.1 + across, layer + (0.5 if kind == "cross" else 0.0)


def _middle(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return a place on a line, nearer to its end, where fewer lines cross."""
    return first[0] + 0.6 * (second[0] - first[0]), first[1] + 0.6 * (second[1] - first[1])


def _legend(role: str, colour: str) -> Properties:
    return {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "lines",
        "line": {"color": colour, "width": 3},
        "name": role,
    }
