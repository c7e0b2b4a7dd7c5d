"""Draws cosines by checkpoint, as lines with their names at the right end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headwise.model.ties import descending
from headwise.viz_app.figures.selecting import vertical_line
from headwise.viz_app.figures.theme import Theme, escape_plotly, new_figure
from headwise.viz_app.records.trace import Floats

_HEIGHT, _TOP, _BOTTOM = 340, 12, 44
_APART = 17
"""Pixels between the names of two lines, at least."""
_LONGEST = 26
"""Most characters of a name; longer ones are cut off."""


def cosine_lines(
    cosines: Floats, *, steps: Sequence[int], names: Sequence[str], theme: Theme, marked: int
) -> go.Figure:
    """Draw cosines (checkpoints, lines) as lines; the checkpoints are evenly spaced.

    Args:
        cosines: (checkpoints, lines), from -1 to 1.
        steps: steps of the checkpoints.
        names: names of the lines.
        theme: colours.
        marked: index of the checkpoint that a vertical line marks.
    """
    places = list(range(len(steps)))
    written = [f"{step:,}" for step in steps]
    colours = [theme.series[line % len(theme.series)] for line in range(len(names))]
    least = float(cosines.min(initial=0.0)) - 0.06
    most = float(cosines.max(initial=0.5)) + 0.06
    inner = _HEIGHT - _TOP - _BOTTOM
    heights = (cosines[-1] - least) / (most - least) * inner if len(cosines) else []
    longest = min(_LONGEST, max(map(len, names), default=0))
    left, right = 56, 24 + 8 * longest
    return new_figure(
        theme,
        [
            {
                "type": "scatter",
                "x": places,
                "y": cosines[:, line],
                "mode": "lines+markers",
                "line": {"color": colour, "dash": ("solid", "dash")[line // len(theme.series) % 2]},
                "marker": {"size": 6},
                "text": written,
                "hovertemplate": f"{escape_plotly(name)}<br>step %{{text}}: %{{y:.3f}}"
                "<extra></extra>",
            }
            for line, (name, colour) in enumerate(zip(names, colours, strict=True))
        ],
        {
            "height": _HEIGHT,
            "margin": {"l": left, "r": right, "t": _TOP, "b": _BOTTOM},
            "meta": {"readable": left + min(36 * len(steps), 480) + right},
            "xaxis": {
                "tickvals": places,
                "ticktext": written,
                "title": {"text": "checkpoint, by training step"},
                "range": [-0.3, len(steps) - 0.7],
            },
            "yaxis": {
                "range": [least, most],
                "title": {"text": "cosine"},
                "showgrid": True,
                "zeroline": True,
                "zerolinecolor": theme.line,
            },
            "shapes": [vertical_line(marked, theme=theme, dash="dot")],
            "annotations": [
                {
                    "x": 1,
                    "y": height / inner,
                    "xref": "paper",
                    "yref": "paper",
                    "xanchor": "left",
                    "yanchor": "middle",
                    "xshift": 8,
                    "showarrow": False,
                    "text": escape_plotly(
                        name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
                    ),
                    "font": {"color": colour, "size": 13},
                }
                for name, colour, height in zip(
                    names, colours, _spread(np.asarray(heights)), strict=True
                )
            ],
        },
    )


def _spread(heights: np.ndarray) -> list[float]:
    """Return the heights, moved up where they are too close to the next lower one."""
    moved = heights.astype(float)
    below = -np.inf
    for line in descending(-heights):
        below = moved[line] = max(moved[line], below + _APART)
    return [float(height) for height in moved]
