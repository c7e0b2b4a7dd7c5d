"""Horizontal bars: probabilities, cosines, shares of heads, and hidden units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.theme import Properties, Theme, escape_plotly, new_figure


def token_bars(
    labels: Sequence[str],
    probabilities: Sequence[float],
    *,
    theme: Theme,
    actual: int | None = None,
) -> go.Figure:
    """Draw probabilities of the likeliest next tokens, the likeliest on top; one may be marked.

    A click in the row of a bar gives its place, counted from 0.
    """
    written = [f"{p:.3f}" if p >= 0.0005 else f"{p:.0e}" for p in probabilities]
    texts = [f"force {escape_plotly(label)} here" for label in labels]
    if actual is not None:
        texts[actual] = "the token of this target"
    return _bars(labels, probabilities, written, theme=theme, marked=actual, clicks=texts)


def cosine_bars(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    theme: Theme,
    counts: Sequence[int] | None = None,
) -> go.Figure:
    """Draw the cosines of a token's nearest neighbours, the nearest on top.

    Where it is known, ``counts`` says how often they occur in the training data. A click in the row
    of a bar gives its place, counted from 0.
    """
    written = [f"{value:.3f}" for value in values]
    if counts is not None:
        written = [f"{text} · {count:,}×" for text, count in zip(written, counts, strict=True)]
    texts = [f"look up {escape_plotly(label)}" for label in labels]
    return _bars(labels, values, written, theme=theme, clicks=texts)


def weight_bars(labels: Sequence[str], weights: Sequence[float], *, theme: Theme) -> go.Figure:
    """Draw the weights of a row as bars."""
    return _bars(labels, weights, [f"{weight:.2f}" for weight in weights], theme=theme)


def changed_bars(
    labels: Sequence[str], before: Sequence[float], after: Sequence[float], *, theme: Theme
) -> go.Figure:
    """Draw probabilities as bars that end in a number, with what they were before it changed."""
    written = [f"{now:.3f}, was {then:.3f}" for then, now in zip(before, after, strict=True)]
    return _bars(labels, after, written, theme=theme)


def share_bars(
    labels: Sequence[str], shares: Sequence[float], *, theme: Theme, marked: int | None = None
) -> go.Figure:
    """Draw signed shares that sum to 1 as bars; one may be marked."""
    written = [f"{share:+.3f}" for share in shares]
    return _bars(labels, shares, written, theme=theme, marked=marked)


def hidden_unit_bars(units: Sequence[int], values: Sequence[float], *, theme: Theme) -> go.Figure:
    """Draw the hidden units with the largest activations, the largest on top."""
    written = [f"{value:.2f}" for value in values]
    return _bars([f"unit {unit}" for unit in units], values, written, theme=theme)


def _bars(
    labels: Sequence[str],
    values: Sequence[float],
    written: Sequence[str],
    *,
    theme: Theme,
    marked: int | None = None,
    clicks: Sequence[str] = (),
) -> go.Figure:
    """Draw bars with their values at their ends, on an axis that reaches at least from 0 to 1.

    With ``clicks`` each row can be clicked and says, as Plotly's markup, what that does.
    """
    places = list(range(len(labels)))
    longest, after = (max(map(len, texts), default=0) for texts in (labels, written))
    least, most = min([0.0, *values]), max([1.0, *values])
    # The value of a negative bar stands on its left, that of a bar beyond 1 on its right.
    for_value = 0.15 * (most - least)
    least, most = least - for_value * (least < 0), most + for_value * (most > 1)
    bars: Properties = {
        "type": "bar",
        "x": np.asarray(values, dtype=np.float32),
        "y": places,
        "orientation": "h",
        "marker": {"color": [theme.accent if i == marked else theme.series[0] for i in places]},
        "text": list(written),
        "textposition": "outside",
        "textfont": {"color": theme.muted},
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    data, layout = [bars], {}
    if clicks:
        same = {"marker": {"opacity": 1}, "textfont": {"color": theme.muted}}
        bars |= {"selected": same, "unselected": same}
        data.append(_click_bars(clicks, least, most, theme))
        layout = {"barmode": "overlay", "hovermode": "closest"}
    return new_figure(
        theme,
        data,
        layout
        | {
            "height": 24 * len(labels) + 16,
            "margin": {"l": 20 + 8 * min(longest, 20), "r": 13 + 7 * after, "t": 4, "b": 4},
            "bargap": 0.25,
            "xaxis": {"range": [least, most], "visible": False},
            "yaxis": {
                "range": [len(labels) - 0.5, -0.5],
                "tickvals": places,
                "ticktext": [escape_plotly(label[:20]) for label in labels],
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
        "hovertext": list(texts),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
