"""A trace as a page of its own, to be kept, sent or printed."""

from __future__ import annotations

import numpy as np

from viz_app.analysis.attention import max_pool
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES, KIND_NOTES, piece_label, piece_labels, visible
from viz_app.figures.maps import attention_map
from viz_app.figures.mosaic import mosaic
from viz_app.figures.standalone import Part, standalone
from viz_app.figures.theme import LIGHT, Theme
from viz_app.figures.tokens import token_row
from viz_app.records import KINDS, Kind, Trace

_LIKELIEST = 5
_READING = Reading()


def settings(trace: Trace) -> dict[str, str]:
    """What identifies a trace, for people."""
    off = ", ".join(
        f"{KIND_NAMES[kind]} {layer + 1}.{head + 1}" for kind, layer, head in trace.switched_off
    )
    return {
        "run": trace.run,
        "step": f"{trace.step:,}",
        "weights, sha256": trace.sha256,
        "target": "given" if trace.forced else "the model's own, greedy",
        "heads switched off": off or "none",
    }


def to_html(trace: Trace, *, reading: Reading = _READING, theme: Theme = LIGHT) -> bytes:
    """A page that stands by itself: all heads of a trace, and what was predicted at each step."""
    predicted = piece_labels(trace.predicted)
    predictions = trace.predictions
    probability = np.exp(predictions.log_probability)
    top = np.exp(predictions.top_log_probability)
    steps = [
        [
            consumed,
            predicted[t],
            f"{probability[t]:.3f}",
            f"{predictions.rank[t]:,}",
            " · ".join(
                f"{piece_label(piece)} {p:.2f}"
                for piece, p in zip(
                    trace.top_pieces[t][:_LIKELIEST], top[t, :_LIKELIEST], strict=True
                )
            ),
        ]
        for t, consumed in enumerate(piece_labels(trace.consumed))
    ]
    page = standalone(
        title=visible(trace.source_text),
        tokens=[
            token_row(piece_labels(trace.source), theme=theme),
            token_row(predicted, theme=theme, probabilities=probability.tolist()),
        ],
        parts={kind: _part(trace, kind, reading, theme) for kind in KINDS},
        steps=steps,
        facts=settings(trace)
        | {
            "source": visible(trace.source_text),
            "translation": visible(trace.target_text),
            "units": reading.units,
            "decoder rows by": reading.lead,
            "special tokens": "shown" if reading.special else "left out",
        },
        theme=theme,
    )
    return page.encode()


def _part(trace: Trace, kind: Kind, reading: Reading, theme: Theme) -> Part:
    grid = make_grid(trace, kind, reading)
    maps = grid.apply(trace.attention[kind])
    pooled = max_pool(maps)
    allowed = grid.allowed
    small = None if allowed is None else max_pool(allowed.astype(np.float32)) > 0
    return Part(
        name=KIND_NAMES[kind],
        note=KIND_NOTES[kind],
        mosaic=mosaic(pooled, theme=theme, allowed=small, selected=(0, 0)),
        pooled=(pooled.shape[-2], pooled.shape[-1]),
        large=attention_map(
            maps[0, 0],
            rows=grid.rows,
            columns=grid.columns,
            row_title=grid.row_title,
            column_title=grid.column_title,
            theme=theme,
            allowed=allowed,
        ),
        maps=maps,
    )
