"""A cloud of named points: tokens in the plane, some of them marked.

The browser draws it on a 2-D canvas, on which thousands of points stay fluid and which, unlike
WebGL, a page may have as often as it likes. Pointing, zooming and walking need no round trip.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from viz_app.figures.theme import Theme, weight_colour
from viz_app.records import Floats

_FINEST = 10_000
"""Steps of the wider axis: finer than pixels, in few letters."""
_PALEST = 0.45
"""Of the scale of weights: below it points are lost on the ground."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cloud:
    """``n`` points and what they stand for."""

    points: Floats
    """(n, 2)."""
    labels: Sequence[str]
    counts: Sequence[int]
    """How often each occurs in the training data."""
    group: NDArray[np.int64]
    """To which of the groups each belongs, (n,)."""
    groups: Sequence[str]
    """Their names; the first is of those that are nowhere."""
    ordered: bool
    """Whether groups are steps of one quantity, and not kinds of their own."""


@dataclass(frozen=True)
class Frames:
    """Where the points of a cloud are at other times."""

    names: Sequence[str]
    points: Floats
    """(frames, n, 2), in the units of the cloud."""


_mount = st.components.v2.component(
    "headwise_scatter",
    html='<div class="scatter"></div>',
    css=(_HERE / "scatter.css").read_text(encoding="utf-8"),
    js="".join(
        (_HERE / name).read_text(encoding="utf-8")
        for name in ("scatter_canvas.js", "scatter_frames.js", "scatter.js")
    ),
)


def scatter(
    cloud: Cloud,
    *,
    sentence: Sequence[int],
    searched: Sequence[int],
    of: str,
    theme: Theme,
    name: str,
    key: str,
    frames: Frames | None = None,
) -> None:
    """Draw a cloud, with rings and labels on some of its points.

    Args:
        cloud: the points.
        sentence, searched: places of the points to mark, in two colours.
        of: what the cloud is of; the view stays as it is while that does.
        theme: colours.
        name: of the file that the picture is saved as.
        key: of the widget.
        frames: where the points are at other times; the browser then moves them from one to the
            next, the cloud being the last, and draws the ways of those that are marked.

    Raises:
        ValueError: if there are no points, or their labels, counts, groups and frames do not fit.
    """
    data = scatter_data(
        cloud, sentence=sentence, searched=searched, of=of, theme=theme, frames=frames
    )
    _mount(key=key, data=data | {"name": name})


def scatter_data(
    cloud: Cloud,
    *,
    sentence: Sequence[int],
    searched: Sequence[int],
    of: str,
    theme: Theme,
    frames: Frames | None = None,
) -> dict[str, Any]:
    """What the browser is sent: whole numbers, x before y of each point, upwards from 0.

    Those of frames are on the same scale, two bytes each, the smaller first, in base 64.

    Raises:
        ValueError: as ``scatter``.
    """
    number = len(cloud.points)
    sizes = {len(cloud.labels), len(cloud.counts), len(cloud.group)}
    if not number or cloud.points.shape != (number, 2) or sizes != {number}:
        raise ValueError(
            f"expected points (n, 2) with n labels, counts and groups, got {cloud.points.shape} "
            f"with {len(cloud.labels)}, {len(cloud.counts)} and {len(cloud.group)}"
        )
    every = cloud.points[None]
    if frames is not None:
        if frames.points.shape != (len(frames.names), number, 2):
            raise ValueError(
                f"expected points (frames, n, 2) of {len(frames.names)} frames and {number} "
                f"points, got {frames.points.shape}"
            )
        every = np.concatenate([every, frames.points])
    extent = (every - every.min(axis=(0, 1))).astype(np.float64)
    steps = (extent * (_FINEST / (extent.max() or 1.0))).round().astype("<u2")
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
        "counts": list(cloud.counts),
        "group": cloud.group.tolist(),
        "groups": [
            {"name": name, "colour": colour}
            for name, colour in zip(cloud.groups, _colours(cloud, theme), strict=True)
        ],
        "named": not cloud.ordered,
        "marks": [
            *({"point": p, "kind": "sentence"} for p in dict.fromkeys(sentence) if p not in chosen),
            *({"point": p, "kind": "searched"} for p in dict.fromkeys(searched)),
        ],
        "of": of,
        "colours": {
            "text": theme.text,
            "muted": theme.muted,
            "line": theme.line,
            "accent": theme.accent,
            "ground": theme.gap,
        },
    }


def _colours(cloud: Cloud, theme: Theme) -> list[str]:
    """One a group; the first is that of lines, as pale as what never occurs should be."""
    others = len(cloud.groups) - 1
    if not cloud.ordered:
        return [theme.line, *theme.series[:others]]
    shades = np.linspace(_PALEST, 1, others).tolist() if others > 1 else [1.0] * others
    # The scale is evenly spaced in the square root of a weight.
    return [theme.line, *(weight_colour(theme, shade**2) for shade in shades)]
