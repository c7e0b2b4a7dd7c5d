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


def _bars(
    labels: Sequence[str],
    values: Sequence[float],
    written: Sequence[str],
    *,
    theme: Theme,
    marked: int | None = None,
) -> go.Figure:
    """Horizontal bars up to 1 with their values written behind them."""
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
    figure.update_xaxes(range=[min(0.0, *values), 1.0] if values else [0, 1], visible=False)
    figure.update_yaxes(
        range=[len(labels) - 0.5, -0.5],
        tickvals=places,
        ticktext=[literal(label[:20]) for label in labels],
    )
    return figure
