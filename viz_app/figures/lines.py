"""Draws lines: the trace of each, the frame of a chart, and charts of positional encodings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_lines,
    escape_plotly,
    new_figure,
)
from headwise.viz_app.records.trace import Floats

LEGEND_ABOVE: Properties = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
LEGEND_NAMES: Properties = {"itemclick": False, "itemdoubleclick": False}  # clicks hide no line
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_WAVES = 6  # most dimensions in one figure: as many as there are colours of lines


def look(place: int, theme: Theme) -> Properties:
    """Return colour and dashes of a line by its place among others.

    The dashes are others when all colours are used up.
    """
    again, colour = divmod(place, len(theme.series))
    return {"colour": theme.series[colour], "dash": DASHES[again % len(DASHES)]}


def line(
    x: ArrayLike,
    y: ArrayLike,
    *,
    colour: str,
    dash: str | None = None,
    width: float | None = None,
    symbol: str | None = None,
    name: str | Sequence[str] = (),
    hover: str = "",
    texts: Sequence[str] | None = None,
    clicks: Sequence[str] | None = None,
    reach: ArrayLike | None = None,
    mode: str = "lines+markers",
    **more: Any,
) -> Properties:
    """Return a trace of a line, with gaps at NaN; marks that can be clicked are larger.

    ``name`` is that of the legend, in one or several lines; ``hover`` is Plotly's template of what
    the mouse reads, nothing if it is empty, in which ``%{text}`` is that of ``texts``, as Plotly's
    markup. A click on a mark gives its ``clicks``. ``reach`` is how far an interval reaches below
    and above each value, (2, n). ``more`` are further properties of a Plotly trace.
    """
    opaque = None if clicks is None else {"marker": {"opacity": 1}}
    thick, size = (1.5, 5) if clicks is None else (2, 8)
    mark = {"color": colour, "size": size, "symbol": symbol}
    if symbol is not None and symbol.endswith("-open"):
        mark["line"] = {"width": 2}
    trace: Properties = {
        "type": "scatter",
        "x": x,
        "y": np.asarray(y, np.float32),
        "name": escape_lines([name] if isinstance(name, str) else name) or None,
        "mode": mode,
        "line": {"color": colour, "width": width or thick, "dash": dash},
        "marker": mark if "markers" in mode else None,
        "text": texts,
        "customdata": clicks,
        "selected": opaque,
        "unselected": opaque,
        **({"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}),
    }
    if reach is not None:
        below, above = np.asarray(reach, np.float32)
        ends = {"type": "data", "symmetric": False, "arrayminus": below, "array": above}
        trace["error_y"] = ends | {"color": colour, "thickness": 1.2, "width": 3}
    return trace | more


def line_chart(
    lines: Sequence[Properties],
    *,
    theme: Theme,
    x: Properties,
    y: Properties,
    margin: Properties,
    height: int = 280,
    legend: Properties | None = None,
    **layout: Any,
) -> go.Figure:
    """Draw lines, as ``line`` returns them, over one axis.

    ``x`` and ``y`` are properties of the axes, whose ``title`` may be a text, ``margin`` is at
    least left and right, and ``legend`` says where the lines are named, if anywhere. ``layout`` are
    further properties of Plotly's.
    """
    axes = {"xaxis": axis(**x), "yaxis": axis(showgrid=True, **y)}
    frame = {"height": height, "margin": {"t": 8, "b": 40, **margin}, **axes}
    named = {"showlegend": legend is not None, "legend": legend}
    return new_figure(theme, lines, frame | named | layout)


def axis(*, title: str = "", **more: Any) -> Properties:
    """Return an axis with a title, near to its labels."""
    return {"title": {"text": escape_plotly(title), "standoff": 4}, **more} if title else more


# Positions


def waves(curves: Floats, encoded: Floats, *, dimensions: Sequence[int], theme: Theme) -> go.Figure:
    """Draw some dimensions over the positions: a curve each, and a dot at each position.

    Curves are (n, dimensions), evenly spaced from position 0 to the last; ``encoded`` is
    (positions, dimensions). There are at most ``MOST_WAVES``.
    """
    places, positions = np.linspace(0, len(encoded) - 1, len(curves)), np.arange(len(encoded))
    lines = [
        line(places, values, colour=colour, mode="lines")
        for values, colour in zip(curves.T, theme.series, strict=False)
    ]
    hovers = [f"pos %{{x}}<br>dimension {number}<br>%{{y:.3r}}" for number in dimensions]
    dots = [
        line(positions, values, colour=colour, mode="markers", hover=hover)
        for values, hover, colour in zip(encoded.T, hovers, theme.series, strict=False)
    ]
    return line_chart(
        [*lines, *dots],
        theme=theme,
        x={"title": "pos", "range": [-0.5, len(encoded) - 0.5]},
        y={"range": [-1.08, 1.08], "tickvals": [-1, 0, 1]},
        margin={"l": 40, "r": 12},
        height=220,
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
    return f'<div class="waves">{rows}</div>'


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
            hover=f"pos {position}<br>{what} %{{x}}<br>%{{y:.3r}}",
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
        height=240,
        legend=LEGEND_ABOVE | LEGEND_NAMES,
    )


def distance_curve(similarity: NDArray[np.floating], *, theme: Theme) -> go.Figure:
    """Draw the dot product of two encodings by the distance of their positions, from 0."""
    distances, least, most = np.arange(len(similarity)), similarity.min(), similarity.max()
    hover = "distance %{x}<br>product %{y:.3r}"
    return line_chart(
        [line(distances, similarity, colour=theme.series[0], hover=hover)],
        theme=theme,
        x={"title": "distance", "range": [-0.5, len(similarity) - 0.5]},
        y={"range": [min(0.0, 1.08 * float(least)), 1.08 * float(most)]},
        margin={"l": 44, "r": 12},
    )


def bias_curves(
    bias: Floats, distances: NDArray[np.int64], *, names: Sequence[str], theme: Theme
) -> go.Figure:
    """Draw what each head adds to a score by the distance from query to key: a line a head.

    The bias is (heads, distances); distances rise, and below 0 the key comes before the query.
    """
    said = [f"{escape_plotly(name)}<br>distance %{{x}}<br>adds %{{y:.3r}}" for name in names]
    return line_chart(
        [
            line(distances, values, **look(head, theme), name=name, hover=hover)
            for head, (values, name, hover) in enumerate(zip(bias, names, said, strict=True))
        ],
        theme=theme,
        x={"title": "distance from query to key"},
        y={"title": "added to the score"},
        margin={"l": 48, "r": 12},
        height=340,
        legend=LEGEND_NAMES,
    )
