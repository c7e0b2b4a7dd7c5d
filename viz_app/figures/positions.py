"""Draws positional encodings: as waves of some dimensions, and by distance.

``encoding_map`` in ``maps.py`` draws all their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.theme import Theme, escape_plotly, new_figure, page_colours
from headwise.viz_app.records.trace import Floats

MOST_WAVES = 6
"""Most dimensions in one figure: as many as there are colours of lines."""
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


def waves(curves: Floats, encoded: Floats, *, dimensions: Sequence[int], theme: Theme) -> go.Figure:
    """Draw some dimensions over the positions: a curve each, and a dot at each position.

    Args:
        curves: (n, dimensions), evenly spaced from position 0 to the last.
        encoded: (positions, dimensions).
        dimensions: their numbers, at most ``MOST_WAVES``.

    Raises:
        ValueError: if arrays and numbers do not fit, or there are too many.
    """
    if len(dimensions) > len(theme.series):
        raise ValueError(f"expected at most {len(theme.series)} waves, got {len(dimensions)}")
    if not curves.shape[1] == encoded.shape[1] == len(dimensions):
        raise ValueError(
            f"expected {len(dimensions)} columns, got {curves.shape[1]} and {encoded.shape[1]}"
        )
    places = np.linspace(0, len(encoded) - 1, len(curves))
    lines = [
        {
            "type": "scatter",
            "x": places,
            "y": values,
            "mode": "lines",
            "line": {"color": colour, "width": 1.5},
            "hoverinfo": "skip",
        }
        for values, colour in zip(curves.T, theme.series, strict=False)
    ]
    dots = [
        {
            "type": "scatter",
            "x": np.arange(len(encoded)),
            "y": values,
            "mode": "markers",
            "marker": {"color": colour, "size": 5},
            "hovertemplate": f"pos %{{x}}<br>dimension {dimension}<br>%{{y:.3f}}<extra></extra>",
        }
        for values, dimension, colour in zip(encoded.T, dimensions, theme.series, strict=False)
    ]
    return new_figure(
        theme,
        [*lines, *dots],
        {
            "height": 280,
            "margin": {"l": 40, "r": 12, "t": 8, "b": 40},
            "xaxis": {
                "title": {"text": "pos", "standoff": 4},
                "range": [-0.5, len(encoded) - 0.5],
            },
            "yaxis": {"range": [-1.08, 1.08], "tickvals": [-1, 0, 1], "showgrid": True},
        },
    )


def wave_legend(
    dimensions: Sequence[int],
    functions: Sequence[str],
    divisors: Sequence[float],
    wavelengths: Sequence[float],
    theme: Theme,
) -> str:
    """Return the waves' legend as HTML: colour, formula with its numbers, and wavelength.

    A formula divides the position by one of the divisors; wavelengths are in positions.
    """
    rows = "".join(
        f'<div><i style="background:{colour}"></i>PE(pos, {dimension}) = '
        f"{function}(pos / {_format(divisor)}) "
        f"<span>wavelength {_format(length)}</span></div>"
        for dimension, function, divisor, length, colour in zip(
            dimensions, functions, divisors, wavelengths, theme.series, strict=False
        )
    )
    return _LEGEND.format(rows=rows, **page_colours(theme))


def _format(number: float) -> str:
    """Write a number with three digits or more, and with no decimals from 100 on."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def encoding_curves(
    sines: Floats, cosines: Floats, *, positions: Sequence[int], theme: Theme
) -> go.Figure:
    """Draw the encodings of some positions by wavelength: sines above, cosines below.

    A sine and a cosine of one wavelength share their place, so that each line is as smooth as the
    waves are. Traces: a line of sines for each position, then one of cosines; both arrays are
    (positions, D / 2), from the shortest wave to the longest.
    """
    return new_figure(
        theme,
        [
            {
                "type": "scatter",
                "x": np.arange(len(values)),
                "y": values.astype(np.float32),
                "yaxis": axis,
                "name": f"pos {position}",
                "showlegend": axis == "y",
                "mode": "lines",
                "line": {"color": colour, "width": 1.5},
                "hovertemplate": f"pos {position}<br>{what} %{{x}}<br>%{{y:.3f}}<extra></extra>",
            }
            for axis, what, encoded in (("y", "sine", sines), ("y2", "cosine", cosines))
            for values, position, colour in zip(encoded, positions, theme.series, strict=False)
        ],
        {
            "height": 340,
            "margin": {"l": 52, "r": 12, "t": 30, "b": 40},
            "showlegend": True,
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1.02,
                "yanchor": "bottom",
                "itemclick": False,
                "itemdoubleclick": False,
            },
            "xaxis": {
                "title": {"text": "i, from the shortest wave to the longest", "standoff": 4},
                "anchor": "y2",
            },
            **{
                name: {
                    "title": {"text": what, "standoff": 4},
                    "domain": domain,
                    "range": [-1.08, 1.08],
                    "tickvals": [-1, 0, 1],
                    "showgrid": True,
                }
                for name, what, domain in (
                    ("yaxis", "sine", [0.54, 1]),
                    ("yaxis2", "cosine", [0, 0.46]),
                )
            },
        },
    )


def distance_curve(similarity: NDArray[np.floating], *, theme: Theme) -> go.Figure:
    """Draw the dot product of two encodings by the distance of their positions, from 0."""
    least, most = float(similarity.min()), float(similarity.max())
    return new_figure(
        theme,
        [
            {
                "type": "scatter",
                "x": np.arange(len(similarity)),
                "y": similarity.astype(np.float32),
                "mode": "lines+markers",
                "line": {"color": theme.series[0], "width": 1.5},
                "marker": {"size": 5},
                "hovertemplate": "distance %{x}<br>product %{y:.3f}<extra></extra>",
            }
        ],
        {
            "height": 280,
            "margin": {"l": 44, "r": 12, "t": 8, "b": 40},
            "xaxis": {
                "title": {"text": "distance", "standoff": 4},
                "range": [-0.5, len(similarity) - 0.5],
            },
            "yaxis": {"range": [min(0.0, 1.08 * least), 1.08 * most], "showgrid": True},
        },
    )


def bias_curves(
    bias: Floats, distances: NDArray[np.int64], *, names: Sequence[str], theme: Theme
) -> go.Figure:
    """Draw what each head adds to a score by the distance from query to key: a line a head.

    The bias is (heads, distances); distances rise, and below 0 the key comes before the query.
    """
    dashes = ("solid", "dash", "dot", "dashdot")
    return new_figure(
        theme,
        [
            {
                "type": "scatter",
                "x": distances,
                "y": values.astype(np.float32),
                "name": escape_plotly(name),
                "mode": "lines+markers",
                "line": {
                    "color": theme.series[head % len(theme.series)],
                    "width": 1.5,
                    "dash": dashes[head // len(theme.series) % len(dashes)],
                },
                "marker": {"size": 5},
                "hovertemplate": f"{escape_plotly(name)}<br>distance %{{x}}<br>"
                "adds %{y:.3f}<extra></extra>",
            }
            for head, (values, name) in enumerate(zip(bias, names, strict=True))
        ],
        {
            "height": 340,
            "margin": {"l": 48, "r": 12, "t": 8, "b": 40},
            "showlegend": True,
            "legend": {"itemclick": False, "itemdoubleclick": False},
            "xaxis": {"title": {"text": "distance from query to key", "standoff": 4}},
            "yaxis": {"title": {"text": "added to the score", "standoff": 4}, "showgrid": True},
        },
    )
