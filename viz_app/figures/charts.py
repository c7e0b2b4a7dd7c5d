"""Bars and lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from viz_app.figures.theme import Theme, literal, new_figure


def top_pieces(
    labels: Sequence[str],
    probabilities: Sequence[float],
    *,
    theme: Theme,
    actual: int | None = None,
) -> go.Figure:
    """Probabilities of the likeliest next pieces, the likeliest on top; ``actual`` stands out."""
    written = [f"{p:.3f}" if p >= 0.0005 else f"{p:.0e}" for p in probabilities]
    return _bars(labels, probabilities, written, theme=theme, marked=actual)


def cosines(labels: Sequence[str], values: Sequence[float], *, theme: Theme) -> go.Figure:
    """Cosines of a token's nearest neighbours, the nearest on top."""
    return _bars(labels, values, [f"{value:.3f}" for value in values], theme=theme)


def head_shares(
    labels: Sequence[str], shares: Sequence[float], *, theme: Theme, marked: int | None = None
) -> go.Figure:
    """Signed shares of a whole that sum to 1, as bars; one may be marked."""
    written = [f"{share:+.3f}" for share in shares]
    return _bars(labels, shares, written, theme=theme, marked=marked)


def hidden_units(units: Sequence[int], values: Sequence[float], *, theme: Theme) -> go.Figure:
    """Hidden units that fire most, by their numbers, the strongest on top."""
    written = [f"{value:.2f}" for value in values]
    return _bars([f"unit {unit}" for unit in units], values, written, theme=theme)


def _bars(
    labels: Sequence[str],
    values: Sequence[float],
    written: Sequence[str],
    *,
    theme: Theme,
    marked: int | None = None,
) -> go.Figure:
    """Horizontal bars, of a range of 1 at least, with their values written behind them."""
    figure = new_figure(theme)
    places = list(range(len(labels)))
    figure.add_trace(
        go.Bar(
            x=np.asarray(values, dtype=np.float32),
            y=places,
            orientation="h",
            marker={"color": [theme.accent if i == marked else theme.series[0] for i in places]},
            text=list(written),
            textposition="outside",
            textfont={"color": theme.muted},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    longest = max(map(len, labels), default=0)
    figure.update_layout(
        height=24 * len(labels) + 16,
        margin={"l": 20 + 8 * min(longest, 20), "r": 48, "t": 4, "b": 4},
        bargap=0.25,
    )
    least, most = min([0.0, *values]), max([1.0, *values])
    # A negative bar has its value on its left, and one beyond 1 needs room for it on its right.
    room = 0.15 * (most - least)
    least, most = least - room * (least < 0), most + room * (most > 1)
    figure.update_xaxes(range=[least, most], visible=False)
    figure.update_yaxes(
        range=[len(labels) - 0.5, -0.5],
        tickvals=places,
        ticktext=[literal(label[:20]) for label in labels],
    )
    return figure
