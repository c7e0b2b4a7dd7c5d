"""Positional encodings: as a map, as waves of some dimensions, and by the distance of two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from viz_app.figures.maps import vector_map
from viz_app.figures.theme import Theme, new_figure
from viz_app.records import Floats

MOST_WAVES = 6
"""As many as there are colours of lines."""
_LEGEND = """
<div class="waves">{rows}</div>
<style>
.waves {{
  color: {text}; font-size: .875rem; line-height: 1.7; font-variant-numeric: tabular-nums;
}}
.waves i {{
  display: inline-block; width: 18px; height: 4px; border-radius: 2px; margin: 0 .5rem .2rem 0;
}}
.waves span {{ color: {muted}; white-space: nowrap; }}
</style>
"""


def encoding_map(encoded: Floats, *, used: int, theme: Theme) -> go.Figure:
    """Encodings (n, D) as rows, on -1 to 1; a line ends the first ``used`` of them."""
    rows = [str(position) for position in range(len(encoded))]
    figure = vector_map(encoded, labels=rows, limit=1.0, theme=theme)
    figure.update_traces(hovertemplate="position %{y}<br>dimension %{x}<br>%{z:.3f}<extra></extra>")
    # Fewer labels than fit: these are numbers, and a step of 5 or 10 is read at a glance.
    figure.update_yaxes(
        title={"text": "position", "standoff": 4}, dtick=5 if len(rows) < 80 else 10
    )
    figure.update_layout(margin={"l": 52})
    if used < len(encoded):
        figure.add_hline(used - 0.5, line={"color": theme.accent, "width": 1.5})
    return figure


def waves(curves: Floats, encoded: Floats, *, dimensions: Sequence[int], theme: Theme) -> go.Figure:
    """Some dimensions over the positions: a curve each, then a dot at each whole position.

    Args:
        curves: (n, dimensions), evenly spaced from position 0 to the last.
        encoded: (positions, dimensions).
        dimensions: their numbers.
        theme: colours.

    Raises:
        ValueError: if arrays and numbers do not fit, or there are more than colours.
    """
    if len(dimensions) > len(theme.series):
        raise ValueError(f"expected at most {len(theme.series)} waves, got {len(dimensions)}")
    if not curves.shape[1] == encoded.shape[1] == len(dimensions):
        raise ValueError(
            f"expected {len(dimensions)} columns, got {curves.shape[1]} and {encoded.shape[1]}"
        )
    figure = new_figure(theme)
    places = np.linspace(0, len(encoded) - 1, len(curves))
    for at, colour in zip(range(len(dimensions)), theme.series, strict=False):
        figure.add_trace(
            go.Scatter(
                x=places,
                y=curves[:, at],
                mode="lines",
                line={"color": colour, "width": 1.5},
                hoverinfo="skip",
            )
        )
    for at, (dimension, colour) in enumerate(zip(dimensions, theme.series, strict=False)):
        figure.add_trace(
            go.Scatter(
                x=np.arange(len(encoded)),
                y=encoded[:, at],
                mode="markers",
                marker={"color": colour, "size": 5},
                hovertemplate=f"position %{{x}}<br>dimension {dimension}<br>%{{y:.3f}}"
                "<extra></extra>",
            )
        )
    figure.update_layout(height=280, margin={"l": 40, "r": 12, "t": 8, "b": 40})
    figure.update_xaxes(title={"text": "position", "standoff": 4}, range=[-0.5, len(encoded) - 0.5])
    figure.update_yaxes(range=[-1.08, 1.08], tickvals=[-1, 0, 1], showgrid=True)
    return figure


def wave_legend(
    dimensions: Sequence[int], divisors: Sequence[float], wavelengths: Sequence[float], theme: Theme
) -> str:
    """What each wave is, as HTML: its colour, its formula with numbers, its wavelength."""
    rows = "".join(
        f'<div><i style="background:{colour}"></i>PE(pos, {dimension}) = '
        f"{'cos' if dimension % 2 else 'sin'}(pos / {_written(divisor)}) "
        f"<span>wavelength {_written(length)}</span></div>"
        for dimension, divisor, length, colour in zip(
            dimensions, divisors, wavelengths, theme.series, strict=False
        )
    )
    return _LEGEND.format(rows=rows, text=theme.text, muted=theme.muted)


def _written(number: float) -> str:
    """Three digits at least, and no decimals that nobody reads."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def distance_curve(similarity: NDArray[np.floating], *, theme: Theme) -> go.Figure:
    """The product of two encodings by their distance, from 0 on."""
    figure = new_figure(theme)
    figure.add_trace(
        go.Scatter(
            x=np.arange(len(similarity)),
            y=similarity.astype(np.float32),
            mode="lines+markers",
            line={"color": theme.series[0], "width": 1.5},
            marker={"size": 5},
            hovertemplate="distance %{x}<br>product %{y:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=280, margin={"l": 44, "r": 12, "t": 8, "b": 40})
    figure.update_xaxes(
        title={"text": "distance", "standoff": 4}, range=[-0.5, len(similarity) - 0.5]
    )
    figure.update_yaxes(
        range=[min(0.0, 1.08 * float(similarity.min())), 1.08 * float(similarity.max())],
        showgrid=True,
    )
    return figure
