"""A cloud of named points: tokens in the plane, some of them marked.

The browser draws it on a 2-D canvas, which stays fast with thousands of points; unlike WebGL
contexts, a page may have any number of them. Pointing, zooming and walking need no round trip.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.theme import Theme, other_theme, page_colours, weight_colour
from headwise.viz_app.records.trace import Floats

_COORDINATE_STEPS = 10_000
"""Steps of the wider axis to which coordinates are rounded: finer than pixels, in few digits."""
_PALEST = 0.45
"""Lowest place on the scale of weights that is used: paler points could hardly be seen."""


@dataclass(frozen=True)
class Cloud:
    """A cloud has n points, each of which stands for a token."""

    points: Floats
    """Coordinates, (n, 2)."""
    labels: Sequence[str]
    counts: Sequence[int] | None
    """How often each occurs in the training data; None if that is not known."""
    group: NDArray[np.int64]
    """Number of the group to which each belongs, (n,)."""
    groups: Sequence[str]
    """Names of the groups; the first is that of points that never occur."""
    ordered: bool
    """Whether groups are ranges of one quantity, from small to large."""


@dataclass(frozen=True)
class Frames:
    """Frames say where the points of a cloud are at other times."""

    names: Sequence[str]
    points: Floats
    """Coordinates, (frames, n, 2), in the units of the cloud."""


_mount = component("scatter")


def scatter(
    cloud: Cloud,
    *,
    sentence: Sequence[int],
    searched: Sequence[int],
    content_id: str,
    theme: Theme,
    name: str,
    key: str,
    frames: Frames | None = None,
    on_click: Callable[[int], None] | None = None,
    action: str = "",
) -> None:
    """Draw a cloud, with rings and labels on some of its points.

    Args:
        sentence, searched: indices of the points to mark, in two colours.
        content_id: identifies what the points are. While it stays the same, new data does not
            change how far the picture is zoomed and moved.
        name: name of the file that the picture is saved as.
        frames: where the points are at other times; the browser then moves them from one to the
            next, the cloud being the last, and draws the paths of those that are marked.
        on_click: is given the index of a point that was clicked; ``action`` says what it does.
    """
    marks: dict[str, Any] = {"sentence": sentence, "searched": searched, "frames": frames}
    data = scatter_data(cloud, content_id=content_id, theme=theme, **marks)
    data |= {"name": name, "action": action}
    if on_click is None:
        _mount(key=key, data=data)
        return

    def handle_click() -> None:
        clicked = sent_value(key, "clicked")
        if isinstance(clicked, int) and 0 <= clicked < len(cloud.labels):
            on_click(clicked)

    _mount(key=key, data=data, on_clicked_change=handle_click)


def scatter_data(
    cloud: Cloud,
    *,
    sentence: Sequence[int],
    searched: Sequence[int],
    content_id: str,
    theme: Theme,
    frames: Frames | None = None,
) -> dict[str, Any]:
    """Return what the browser is sent: integers, x before y of each point, upwards from 0.

    Those of frames are on the same scale, as little-endian 16-bit integers in base64.
    """
    every = cloud.points[None]
    if frames is not None:
        every = np.concatenate([every, frames.points])
    extent = (every - every.min(axis=(0, 1))).astype(np.float64)
    steps = (extent * (_COORDINATE_STEPS / (extent.max() or 1.0))).round().astype("<u2")
    width, height = steps.max(axis=(0, 1)).tolist()
    chosen = set(searched)
    moving = frames and {
        "names": list(frames.names),
        "points": base64.b64encode(steps[1:].tobytes()).decode(),
    }
    return {
        "points": steps[0].ravel().tolist(),
        "frames": moving,
        "width": width,
        "height": height,
        "labels": list(cloud.labels),
        "counts": cloud.counts and list(cloud.counts),
        "group": cloud.group.tolist(),
        "groups": [
            {"name": name, "colour": colour, "other": other}
            for name, colour, other in zip(
                cloud.groups,
                _colours(cloud, theme),
                _colours(cloud, other_theme(theme)),
                strict=True,
            )
        ],
        "named": not cloud.ordered,
        "marks": [
            *({"point": p, "kind": "sentence"} for p in dict.fromkeys(sentence) if p not in chosen),
            *({"point": p, "kind": "searched"} for p in dict.fromkeys(searched)),
        ],
        "content_id": content_id,
        "colours": page_colours(theme),
    }


def _colours(cloud: Cloud, theme: Theme) -> list[str]:
    """Return a colour for each group; points of the first, which never occur, are the palest."""
    others = len(cloud.groups) - 1
    if not cloud.ordered:
        return [theme.line, *theme.series[:others]]
    shades = np.linspace(_PALEST, 1, others).tolist() if others > 1 else [1.0] * others
    # The scale is evenly spaced in the square root of a weight.
    return [theme.line, *(weight_colour(theme, shade**2) for shade in shades)]
