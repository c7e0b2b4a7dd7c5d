"""What the page Translate must show of a sentence, and how a browser sees that it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.load_answers import NOTHING, TOLERANCE
from headwise.model.interface import Head
from headwise.viz_app.analysis.attention import max_pool
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.figures.heads import tile
from headwise.viz_app.records.trace import Trace

_MOST_CELLS = 40
"""Cells a side of each head in the app's picture of all heads."""

SHOWN = """given => {
    const chart = key => document.querySelector(`.st-key-${key} .js-plotly-plot`);
    const text = document.querySelector('.st-key-translation')?.textContent;
    if (text !== given.translation || !chart('large') || !chart('mosaic')) return false;
    const labels = [...chart('large').querySelectorAll('.xtick')];
    return labels.length > 0
        && labels.every(label => given.columns[label.__data__.x] === label.textContent)
        && ['large', 'mosaic'].every(key => {
            const drawn = Array.from(chart(key)._fullData[0].z).flatMap(row => Array.from(row));
            const picture = chart(key).querySelector('.heatmaplayer image')?.href.baseVal;
            return drawn.length === given[key].length
                && picture && picture !== given.before[key]
                && given[key].every((cell, i) => Math.abs(cell - drawn[i]) <= given.tolerance);
        });
}"""
"""True when texts, labels and cells are those of ``given``, both maps painted anew."""

PICTURES = """() => Object.fromEntries(['large', 'mosaic'].map(key =>
    [key, document.querySelector(`.st-key-${key} .heatmaplayer image`)?.href.baseVal]))"""
"""What both maps are painted with."""


def given(trace: Trace, head: Head, before: dict[str, str]) -> dict[str, Any]:
    """What ``SHOWN`` is to find of a trace with this head large.

    Args:
        trace: of the sentence.
        head: kind, layer and number from 0.
        before: ``PICTURES`` of what stands there; without one, that map may stay as it is.
    """
    kind, layer, number = head
    grid = make_grid(trace, kind)
    maps = grid.apply(trace.attention[kind])  # (L, H, rows, columns)
    allowed = grid.allowed
    if allowed is not None:
        allowed = max_pool(allowed.astype(np.float32), _MOST_CELLS) > 0
    return {
        "translation": trace.target_text or NOTHING,
        "columns": [c if len(c) <= 22 else c[:21] + "…" for c in grid.columns],
        "large": maps[layer, number].ravel().tolist(),
        "mosaic": tile(max_pool(maps, _MOST_CELLS), allowed).ravel().tolist(),
        "before": before,
        "tolerance": TOLERANCE,
    }
