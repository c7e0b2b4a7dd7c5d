"""A film of attention maps: one head, or all heads of a kind, through the steps of a training.

All frames are sent at once, a byte a weight; playing and scrubbing need no round trip. The browser
writes each frame into a canvas of one pixel a cell, which its style enlarges. ``F`` frames, ``L``
layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from viz_app.figures.theme import Theme, text_on_weight, weight_colour
from viz_app.records import Floats

LEVELS = 255
"""A weight w is sent as round(w · LEVELS)."""
MOST_BYTES = 650_000
"""Of all frames together, which leaves what is sent below 1 MB."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Frame:
    """What runs along with the maps of one step."""

    step: int
    pieces: Sequence[str]
    """Of the translation of this step."""
    probabilities: Sequence[float]
    """One a piece."""
    score: str
    """For people."""


@dataclass(frozen=True)
class Film:
    """Maps of one shape, through time."""

    maps: Floats
    """(F, L, H, Q, M); of one head, L = H = 1."""
    frames: Sequence[Frame]
    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    allowed: NDArray[np.bool_] | None = None
    """(Q, M), False where the mask forbids."""
    selected: tuple[int, int] | None = None
    """Layer and head to frame where there are several."""


_mount = st.components.v2.component(
    "headwise_player",
    html='<div class="player"></div>',
    css=(_HERE / "player.css").read_text(encoding="utf-8"),
    js="".join(
        (_HERE / name).read_text(encoding="utf-8") for name in ("player_stage.js", "player.js")
    ),
)


def player(
    film: Film,
    *,
    start: int,
    of: str,
    language: str,
    theme: Theme,
    key: str,
    on_open: Callable[[int], None],
    on_head: Callable[[int, int], None],
) -> None:
    """Draw a film and its controls.

    Args:
        film: what is played.
        start: the step that is shown at first.
        of: what the film is of; the frame that is shown stays while that and ``start`` do.
        language: code of the translations', for screen readers and fonts.
        theme: colours.
        key: of the widget.
        on_open: called with a step that is to be opened.
        on_head: called with layer and head of the map that was clicked, among several.

    Raises:
        ValueError: if maps, frames and labels do not fit.
    """

    def opened() -> None:
        step = st.session_state[key].step
        if step is not None:
            on_open(int(step))

    def clicked() -> None:
        head = st.session_state[key].head
        if head is not None:
            on_head(*map(int, head))

    data = film_data(film, theme=theme) | {"start": start, "of": of, "language": language}
    _mount(key=key, data=data, on_step_change=opened, on_head_change=clicked)


def film_data(film: Film, *, theme: Theme) -> dict[str, Any]:
    """What the browser is sent: plain values, cells as bytes in base64.

    Maps that are too large in all are pooled: each cell is then the largest weight of its block.

    Raises:
        ValueError: as ``player``.
    """
    expected = (len(film.frames), len(film.rows), len(film.columns))
    if (
        film.maps.ndim != 5
        or (film.maps.shape[0], *film.maps.shape[3:]) != expected
        or 0 in (film.maps.shape)
    ):
        raise ValueError(
            f"expected maps (frames, layers, heads, rows, columns) for {expected[0]} frames, "
            f"{expected[1]} rows and {expected[2]} columns, got {film.maps.shape}"
        )
    block = block_size(film.maps.shape)
    maps = pooled(film.maps, block)
    cells = np.rint(np.clip(maps, 0, 1) * LEVELS).astype(np.uint8)
    allowed = film.allowed
    if allowed is not None:
        allowed = pooled(allowed.astype(np.float32), block) > 0
    grounds = [weight_colour(theme, level / LEVELS) for level in range(LEVELS + 1)]
    return {
        "layers": maps.shape[1],
        "heads": maps.shape[2],
        "block": block,
        "cells": _encoded(cells),
        "allowed": None if allowed is None else _encoded(allowed.astype(np.uint8)),
        "rows": _block_labels(film.rows, block),
        "columns": _block_labels(film.columns, block),
        "titles": [film.row_title, film.column_title],
        "selected": None if film.selected is None else list(film.selected),
        "frames": [
            {
                "step": frame.step,
                "pieces": list(frame.pieces),
                "shades": [round(p * LEVELS) for p in frame.probabilities],
                "score": frame.score,
            }
            for frame in film.frames
        ],
        "shades": grounds,
        "inks": [text_on_weight(theme, level / LEVELS) for level in range(LEVELS + 1)],
        "colours": {
            "text": theme.text,
            "muted": theme.muted,
            "line": theme.line,
            "accent": theme.accent,
            "masked": theme.masked,
            "gap": theme.gap,
        },
    }


def block_size(shape: tuple[int, ...]) -> int:
    """How many cells a side one cell stands for, so that films of (F, L, H, Q, M) stay small."""
    size = 1
    while math.prod(shape[:3]) * math.prod(math.ceil(n / size) for n in shape[3:]) > MOST_BYTES:
        size += 1
    return size


def pooled(maps: Floats, size: int) -> Floats:
    """The largest of each block of ``size`` cells a side, of the last two axes."""
    for axis in (-2, -1):
        maps = np.maximum.reduceat(maps, range(0, maps.shape[axis], size), axis=axis)
    return maps


def _block_labels(labels: Sequence[str], size: int) -> list[str]:
    blocks = [labels[i : i + size] for i in range(0, len(labels), size)]
    return [block[0] if len(block) == 1 else f"{block[0]} … {block[-1]}" for block in blocks]


def _encoded(cells: NDArray[np.uint8]) -> str:
    return base64.b64encode(cells.tobytes()).decode("ascii")
