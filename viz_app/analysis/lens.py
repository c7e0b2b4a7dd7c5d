"""The lens: what unembedding would read from the decoder's stream after each layer.

``C`` = L + 1 columns: the embedding, then the layers. ``T`` steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viz_app.analysis.labels import piece_label
from viz_app.records import Floats, Trace


@dataclass(frozen=True)
class Lens:
    """The likeliest piece at each step (a row) and layer (a column)."""

    labels: tuple[tuple[str, ...], ...]
    """(T, C)."""
    probabilities: Floats
    """Of those pieces, (T, C)."""
    actual: NDArray[np.bool_]
    """Where it is the piece that follows, (T, C)."""
    notes: tuple[tuple[str, ...], ...]
    """The likeliest pieces, a line each, (T, C)."""


def read_lens(trace: Trace, *, count: int = 5) -> Lens:
    """The lens of a trace; notes name ``count`` pieces, or as many as the trace has."""
    predictions = trace.predictions
    probabilities: Floats = np.exp(predictions.lens_log_probability)  # (C, T, k)
    columns, steps, k = probabilities.shape
    pieces = [[[piece_label(p) for p in row] for row in layer] for layer in trace.lens_pieces]

    def note(step: int, column: int) -> str:
        likeliest = range(min(count, k))
        return "\n".join(
            f"{pieces[column][step][i]}  {probabilities[column, step, i]:.3f}" for i in likeliest
        )

    return Lens(
        labels=tuple(tuple(layer[step][0] for layer in pieces) for step in range(steps)),
        probabilities=probabilities[:, :, 0].T,
        actual=(predictions.lens_ids[:, :, 0] == np.array(trace.predicted.ids)).T,
        notes=tuple(
            tuple(note(step, column) for column in range(columns)) for step in range(steps)
        ),
    )
