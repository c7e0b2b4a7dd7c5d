"""Draws positional encodings: as waves of some dimensions, and by distance.

``encoding_map`` in ``maps.py`` draws all their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.lines import (
    LEGEND_ABOVE,
    LEGEND_NAMES,
    axis,
    line,
    line_chart,
    look,
)
from headwise.viz_app.figures.theme import Theme, escape_plotly, page_colours
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
    places, positions = np.linspace(0, len(encoded) - 1, len(curves)), np.arange(len(encoded))
    lines = [
        line(places, values, colour=colour, mode="lines")
        for values, colour in zip(curves.T, theme.series, strict=False)
    ]
    dots = [
        line(
            positions,
            values,
            colour=colour,
            mode="markers",
            hover=f"pos %{{x}}<br>dimension {dimension}<br>%{{y:.3f}}",
        )
        for values, dimension, colour in zip(encoded.T, dimensions, theme.series, strict=False)
    ]
    return line_chart(
        [*lines, *dots],
        theme=theme,
        x={"title": "pos", "range": [-0.5, len(encoded) - 0.5]},
        y={"range": [-1.08, 1.08], "tickvals": [-1, 0, 1]},
        margin={"l": 40, "r": 12},
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
    lines = [
        line(
            np.arange(len(values)),
            values,
            colour=colour,
            name=f"pos {position}",
            mode="lines",
            hover=f"pos {position}<br>{what} %{{x}}<br>%{{y:.3f}}",
            yaxis=of,
            showlegend=of == "y",
        )
        for of, what, encoded in (("y", "sine", sines), ("y2", "cosine", cosines))
        for values, position, colour in zip(encoded, positions, theme.series, strict=False)
    ]
    waves_of = {"range": [-1.08, 1.08], "tickvals": [-1, 0, 1]}
    return line_chart(
        lines,
        theme=theme,
        x={"title": "i, from the shortest wave to the longest", "anchor": "y2"},
        y={"title": "sine", "domain": [0.54, 1], **waves_of},
        yaxis2=axis(title="cosine", domain=[0, 0.46], showgrid=True, **waves_of),
        margin={"l": 52, "r": 12, "t": 30},
        height=340,
        legend=LEGEND_ABOVE | LEGEND_NAMES,
    )


def distance_curve(similarity: NDArray[np.floating], *, theme: Theme) -> go.Figure:
    """Draw the dot product of two encodings by the distance of their positions, from 0."""
    least, most = float(similarity.min()), float(similarity.max())
    return line_chart(
        [
            line(
                np.arange(len(similarity)),
                similarity,
                colour=theme.series[0],
                hover="distance %{x}<br>product %{y:.3f}",
            )
        ],
        theme=theme,
        x={"title": "distance", "range": [-0.5, len(similarity) - 0.5]},
        y={"range": [min(0.0, 1.08 * least), 1.08 * most]},
        margin={"l": 44, "r": 12},
    )


def bias_curves(
    bias: Floats, distances: NDArray[np.int64], *, names: Sequence[str], theme: Theme
) -> go.Figure:
    """Draw what each head adds to a score by the distance from query to key: a line a head.

    The bias is (heads, distances); distances rise, and below 0 the key comes before the query.
    """
    return line_chart(
        [
            line(
                distances,
                values,
                **look(head, theme),
                name=name,
                hover=f"{escape_plotly(name)}<br>distance %{{x}}<br>adds %{{y:.3f}}",
            )
            for head, (values, name) in enumerate(zip(bias, names, strict=True))
        ],
        theme=theme,
        x={"title": "distance from query to key"},
        y={"title": "added to the score"},
        margin={"l": 48, "r": 12},
        height=340,
        legend=LEGEND_NAMES,
    )
