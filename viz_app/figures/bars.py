"""Horizontal bars, each with its value written beside it: probabilities, cosines, signed parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from headwise.viz_app.figures.matrix import MARK, frame, vertical_line
from headwise.viz_app.figures.theme import Properties, Theme, escape_plotly, new_figure, note

_ROW, _LETTERS = 24, 24  # pixels of a row, and letters of a label


def bar_chart(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    theme: Theme,
    written: Sequence[str] | None = None,
    limit: float | None = None,
    marked: int | None = None,
    clicks: Sequence[str] = (),
) -> go.Figure:
    """Draw values as bars, the first on top, on an axis that reaches at least from 0 to 1.

    Trace 0 has the bars. What is ``written`` at the end of each is its value if it is not given.
    With a ``limit``, values are signed parts on an axis from minus to plus that magnitude, colours
    say on which side of 0 they are, and what is written stands at the right of each row. The
    ``marked`` bar has another colour or, of signed parts, a frame. ``clicks`` say what a click on
    each bar does; it gives the bar's place, from 0, and may be anywhere in its row.
    """
    if written is None:
        written = [f"{x:.3f}" if limit is None else signed_text(x, limit) for x in values]
    places = list(range(len(labels)))
    longest, behind = (max(map(len, texts), default=0) for texts in (labels, written))
    left, right = 20 + 7 * min(longest, _LETTERS), 13 + 7 * behind
    trace: Properties = {
        "type": "bar",
        "x": list(values),  # Plotly counts a typed array of bars as changed, and draws twice
        "y": places,
        "orientation": "h",
        "text": [escape_plotly(text) for text in written],
        "textfont": {"color": theme.muted},
        "hoverinfo": "skip",
    }
    layout: Properties = {}
    if limit is None:
        least, most = min([0.0, *values]), max([1.0, *values])
        # The value of a negative bar stands on its left, that of a bar beyond 1 on its right.
        for_value = 0.15 * (most - least)
        least, most = least - for_value * (least < 0), most + for_value * (most > 1)
        colours = [theme.accent if place == marked else theme.series[0] for place in places]
        trace |= {"marker": {"color": colours}, "textposition": "outside", "cliponaxis": False}
    else:
        least, most = -1.03 * limit, 1.03 * limit
        trace |= {"marker": {"color": signed_colours(values, theme)}, "textposition": "none"}
        layout["meta"] = {"readable": left + 50 + right}
        zero = {"color": theme.line, "width": 1}
        layout["shapes"] = [vertical_line(0, theme=theme, name="", line=zero)]
        if marked is not None:
            row = (marked - 0.5, marked + 0.5)
            layout["shapes"].append(frame((0, 1), row, theme=theme, xref="x domain", width=1.5))
        beside = {"x": 1, "xref": "x domain", "xanchor": "left"}
        layout["annotations"] = [
            note(text, theme, y=place, **beside) for place, text in enumerate(trace["text"])
        ]
    data = [trace]
    if clicks:
        same = {"marker": {"opacity": 1}, "textfont": {"color": theme.muted}}
        trace |= {"selected": same, "unselected": same}
        data.append(_click_bars(clicks, least, most, theme))
        layout |= {"barmode": "overlay", "hovermode": "closest"}
    return new_figure(
        theme,
        data,
        layout
        | {
            "height": _ROW * len(labels) + 16,
            "margin": {"l": left, "r": right, "t": 4, "b": 4},
            "bargap": 0.25,
            "xaxis": {"range": [least, most], "visible": False},
            "yaxis": {
                "range": [len(labels) - 0.5, -0.5],
                "tickvals": places,
                "ticktext": [escape_plotly(label[:_LETTERS]) for label in labels],
                "ticklabelstandoff": 4,
                "ticklabeloverflow": "allow",  # as in token_axis
            },
        },
    )


def _click_bars(texts: Sequence[str], least: float, most: float, theme: Theme) -> Properties:
    """Return a trace of invisible bars as wide as the chart, since a short bar is hard to hit."""
    invisible = {"marker": {"opacity": 0}}
    return {
        "type": "bar",
        "x": [most - least] * len(texts),
        "y": list(range(len(texts))),
        "base": least,
        "orientation": "h",
        "width": 1,
        "customdata": [str(place) for place in range(len(texts))],
        "marker": {"opacity": 0, "color": theme.series[0]},
        "selected": invisible,
        "unselected": invisible,
        "hovertext": [escape_plotly(text) for text in texts],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def signed_colours(values: Sequence[float], theme: Theme) -> list[str]:
    """Return the colour of each bar: the end of the diverging scale on its side of 0."""
    low, high = theme.difference[1], theme.difference[-2]
    return [high if value >= 0 else low for value in values]


def signed_text(value: float, limit: float = 1.0) -> str:
    """Write a signed value with three significant digits, down to the third behind the point.

    More are written on a scale that ends below 0.1. Of a smaller value it is written on which side
    of 0 it is.
    """
    digits = max(3, 2 - math.floor(math.log10(limit)))
    if not value:
        return "0"
    if round(value, digits):
        size = math.floor(math.log10(abs(float(f"{value:.3g}"))))
        return f"{value:+,.{min(digits, max(0, 2 - size))}f}"
    least = f"{10.0**-digits:.{digits}f}"
    return f"<{least}" if value > 0 else f">-{least}"


def contribution_bars(
    products: ArrayLike, *, query: ArrayLike, key: ArrayLike, theme: Theme
) -> go.Figure:
    """Draw what each of K dimensions adds to q·k: bars q_i k_i, with q_i and k_i on hover."""
    products = np.asarray(products, np.float32)
    factors = "%{customdata[0]:.3r} × %{customdata[1]:.3r} = %{y:.3r}"
    bars = {
        "type": "bar",
        "x": list(range(len(products))),
        "y": products,
        "customdata": np.stack([query, key], axis=-1).astype(np.float32),
        "marker": {"color": np.where(products < 0, theme.series[1], theme.series[0]).tolist()},
        "hovertemplate": f"dimension %{{x}}<br>{factors}<extra></extra>",
    }
    layout = {
        "height": 200,
        "margin": {"l": 44, "r": 8, "t": 8, "b": 40},
        "bargap": 0.15,
        "xaxis": {"title": {"text": "dimension", "standoff": 4}},
        "yaxis": {"zeroline": True, "zerolinecolor": theme.line, "showgrid": True},
    }
    return new_figure(theme, [bars], layout)


def take_frames(figure: go.Figure) -> str:
    """Take the frames around rows out of a figure; return them as HTML, for a place of its size.

    The style of all pages has the rest, by the class ``chosen``. Empty where nothing is framed.
    """
    layout, kept, frames = figure.layout, [], ""
    for shape in layout.shapes or ():
        if shape.name != MARK or shape.type != "rect":
            kept.append(shape)
            continue
        low, high = layout.yaxis.range
        top, bottom = sorted((high - end) / (high - low) for end in (shape.y0, shape.y1))
        margin, line = layout.margin, shape.line
        down = f"(100% - {margin.t + margin.b}px)"
        frames += (
            f'<i style="left:{margin.l}px;right:{margin.r}px;'
            f"top:calc({margin.t}px + {top:.6g} * {down});height:calc({bottom - top:.6g} * {down});"
            f'outline:{line.width}px solid {line.color};outline-offset:{-line.width / 2}px"></i>'
        )
    layout.shapes = kept or None
    return frames and f'<div class="chosen" aria-hidden="true">{frames}</div>'
