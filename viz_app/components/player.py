"""Attention maps of one head, or of all heads of a kind, played through the steps of a training.

All frames are sent at once, a byte a weight; playing and scrubbing need no round trip. The browser
writes each frame into a canvas of one pixel a cell, which its style enlarges. ``F`` frames, ``L``
layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.analysis.attention import block_labels, max_of_blocks
from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.html import language_tag
from headwise.viz_app.figures.theme import (
    Theme,
    other_theme,
    page_colours,
    text_on_weight,
    weight_colour,
)
from headwise.viz_app.records.trace import Floats

LEVELS = 255
"""A weight w is sent as round(w · LEVELS)."""
MOST_BYTES = 650_000
"""Most bytes of all frames, so that what is sent stays below 1 MB."""


@dataclass(frozen=True)
class Frame:
    """A frame has the model's own translation at one step, which stands above that step's maps."""

    step: int
    tokens: Sequence[str]
    probabilities: Sequence[float]
    """Probability of each token."""
    score: str
    """How likely the translation is, in words."""


@dataclass(frozen=True)
class Course:
    """A course is what the slider goes through: all checkpoints, with the loss at each."""

    steps: Sequence[int]
    """The checkpoints, also those whose frames are yet to come."""
    losses: Sequence[float] = ()
    """Empty if no log has them."""
    changed: int | None = None
    """The place in ``steps`` of the checkpoint before which the framed head changed most."""
    said: str = ""
    """The same in words."""


@dataclass(frozen=True)
class MapAnimation:
    """An animation has attention maps of one shape at several steps."""

    maps: Floats
    """The maps, (F, L, H, Q, M); L = H = 1 for a single head."""
    frames: Sequence[Frame]
    course: Course
    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    allowed: NDArray[np.bool_] | None = None
    """The mask, (Q, M), False where it forbids; None if it forbids nothing."""
    selected: tuple[int, int] | None = None
    """Layer and head to frame where there are several."""


_mount = component("player")


def player(
    animation: MapAnimation,
    *,
    start: int,
    opens: int,
    content_id: str,
    language: str,
    theme: Theme,
    name: str,
    key: str,
    on_open: Callable[[int], None],
    on_head: Callable[[int, int], None],
) -> None:
    """Draw an animation and its controls.

    Args:
        start: the step of the page, which is shown when another one is chosen.
        opens: the step that is shown at first.
        content_id: identifies what is played. While it and ``start`` stay the same, new data does
            not change which frame is shown.
        language: code of the translations' language, for fonts and screen readers.
        name: name of the file that a frame is saved as, before its checkpoint.
        on_open: called with a step that is to be opened.
        on_head: called with layer and head of a map that was clicked, among several.
    """

    def opened() -> None:
        step = sent_value(key, "step")
        if step is not None:
            on_open(int(step))

    def clicked() -> None:
        head = sent_value(key, "head")
        if head is not None:
            on_head(*map(int, head))

    data = animation_data(animation, theme=theme) | {
        "start": start,
        "opens": opens,
        "content_id": content_id,
        "language": language_tag(language),
        "name": name,
    }
    _mount(key=key, data=data, on_step_change=opened, on_head_change=clicked)


def animation_data(animation: MapAnimation, *, theme: Theme) -> dict[str, Any]:
    """Return what the browser is sent: plain values, and cells as bytes in base64.

    Maps that would be too large in all are pooled: each cell is the largest weight of a block.
    """
    block = block_size(animation.maps.shape)
    maps = max_of_blocks(animation.maps, block, block)
    cells = np.rint(np.clip(maps, 0, 1) * LEVELS).astype(np.uint8)
    allowed = animation.allowed
    if allowed is not None:
        allowed = max_of_blocks(allowed.astype(np.float32), block, block) > 0
    return {
        "layers": maps.shape[1],
        "heads": maps.shape[2],
        "cells": _to_base64(cells),
        "allowed": None if allowed is None else _to_base64(allowed.astype(np.uint8)),
        "rows": block_labels(animation.rows, block),
        "columns": block_labels(animation.columns, block),
        "titles": [animation.row_title, animation.column_title],
        "selected": None if animation.selected is None else list(animation.selected),
        "frames": [
            {
                "step": frame.step,
                "tokens": list(frame.tokens),
                "shades": [round(p * LEVELS) for p in frame.probabilities],
                "score": frame.score,
            }
            for frame in animation.frames
        ],
        **_course_data(animation.course),
        "shades": _shades(theme),
        "other_shades": _shades(other_theme(theme)),
        "inks": [text_on_weight(theme, level / LEVELS) for level in range(LEVELS + 1)],
        "colours": page_colours(theme) | {"masked": theme.masked},
    }


def _course_data(course: Course) -> dict[str, Any]:
    """Return the checkpoints, and the loss at each as words and as a height from 0 to 1."""
    losses = np.asarray(course.losses)
    span = np.ptp(losses) if len(losses) else 0.0
    return {
        "steps": list(course.steps),
        "heights": ((losses - losses.min()) / span).round(4).tolist() if span else [],
        "losses": [f"loss {loss:.3g}" for loss in losses],
        "changed": course.changed,
        "changed_said": course.said,
    }


def block_size(shape: tuple[int, ...]) -> int:
    """Return how many cells a side become one, so that maps (F, L, H, Q, M) fit MOST_BYTES."""
    size = 1
    while math.prod(shape[:3]) * math.prod(math.ceil(n / size) for n in shape[3:]) > MOST_BYTES:
        size += 1
    return size


def _shades(theme: Theme) -> list[str]:
    return [weight_colour(theme, level / LEVELS) for level in range(LEVELS + 1)]


def _to_base64(cells: NDArray[np.uint8]) -> str:
    return base64.b64encode(cells.tobytes()).decode("ascii")
