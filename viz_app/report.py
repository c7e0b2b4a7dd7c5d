"""Writes a trace as a file, such as an HTML page without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.turned import Turned
from headwise.viz_app.analysis import labels
from headwise.viz_app.analysis.attention import max_pool
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.html import token_row
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.figures.standalone import NotebookMaps, Part, Table, notebook_maps, standalone
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.saved import to_json, to_npz

_LIKELIEST = 5
NONE = "none"  # what is said where no head is switched off
_DEFAULT_OPTIONS = GridOptions()
_STEP_COLUMNS = ("consumed", "predicted", "probability", "rank", "likeliest tokens")


def provenance(trace: Trace) -> dict[str, str]:
    """Return what a trace was made from, by names for people: run, weights, target, heads."""
    return {
        "run": trace.run,
        "checkpoint": f"{trace.step:,}",
        "weights, sha256": trace.sha256,
        "target": "given" if trace.forced else "the model's own, greedy",
        **turned_facts(trace.turned),
    }


def turned_facts(turned: Turned) -> dict[str, str]:
    """Return what is turned, by names for people: heads that are off, others, pinned rows."""

    def name(head: Head) -> str:
        return f"{labels.KIND_NAMES[head.kind]} {head.layer + 1}.{head.head + 1}"

    heads = ", ".join(f"{name(head)} × {s:g}" for head, s in turned.strengths if s)
    rows = ", ".join(
        f"{name(pin.head)} row {pin.row + 1} onto "
        + {int: f"key {pin.last_key + 1}", tuple: "given weights"}.get(type(pin.onto), "the mean")
        for pin in turned.pinned
    )
    others = {"heads turned": heads, "rows pinned": rows}
    return {"heads switched off": ", ".join(map(name, turned.are_off)) or NONE} | {
        fact: said for fact, said in others.items() if said
    }


def to_html(
    trace: Trace, *, grid_options: GridOptions = _DEFAULT_OPTIONS, theme: Theme = LIGHT
) -> bytes:
    """Return an HTML page with all heads of a trace, and what was predicted at each position."""
    predicted = labels.token_labels(trace.predicted)
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
                f"{labels.token_label(token)} {p:.2f}"
                for token, p in zip(
                    trace.top_tokens[t][:_LIKELIEST], top[t, :_LIKELIEST], strict=True
                )
            ),
        ]
        for t, consumed in enumerate(labels.token_labels(trace.consumed))
    ]
    page = standalone(
        title=labels.make_visible(trace.source_text),
        tokens=[
            token_row(labels.token_labels(trace.source), theme=theme),
            token_row(predicted, theme=theme, probabilities=probability.tolist()),
        ],
        parts={kind: _part(trace, kind, grid_options, theme) for kind in KINDS},
        table=Table("Position by position", _STEP_COLUMNS, steps),
        facts=provenance(trace)
        | {
            "source": labels.make_visible(trace.source_text),
            "translation": labels.make_visible(trace.target_text),
            "units": grid_options.units,
            "decoder rows by": grid_options.rows_by,
            "special tokens": "shown" if grid_options.special else "left out",
        },
        theme=theme,
    )
    return page.encode()


def to_notebook(trace: Trace) -> str:
    """Return a piece of HTML with all heads of a trace, at most 300 kB, for a notebook's output."""
    probability = np.exp(trace.predictions.log_probability)
    shown = {name: fact for name, fact in provenance(trace).items() if fact}
    shown["weights, sha256"] = trace.sha256[:12] or "in memory"
    parts: dict[str, NotebookMaps] = {}
    for kind in KINDS:
        grid, name, note = make_grid(trace, kind), labels.KIND_NAMES[kind], labels.KIND_NOTES[kind]
        maps = grid.apply(trace.attention[kind])
        parts[kind] = NotebookMaps(name=name, note=note, maps=maps, **grid.axes)
    return notebook_maps(
        source=labels.make_visible(trace.source_text),
        translation=labels.make_visible(trace.target_text),
        tokens=list(zip(labels.token_labels(trace.predicted), probability.tolist(), strict=True)),
        parts=parts,
        facts=shown,
        too_large='The maps have too many cells to stand here: trace.save("trace.html") makes a '
        "page of them.",
    )


def _part(trace: Trace, kind: Kind, grid_options: GridOptions, theme: Theme) -> Part:
    grid = make_grid(trace, kind, grid_options)
    maps = grid.apply(trace.attention[kind])
    small = max_pool(maps)
    return Part(
        name=labels.KIND_NAMES[kind],
        note=labels.KIND_NOTES[kind],
        mosaic=mosaic(small, theme=theme, selected=(0, 0), **grid.pooled()),
        mosaic_shape=(small.shape[-2], small.shape[-1]),
        large=attention_map(maps[0, 0], theme=theme, **grid.axes),
        maps=maps,
    )


def writer_for(path: Path) -> Callable[[Trace], bytes]:
    """Return what makes the content of a trace's file, by the end of its name.

    ValueError if the name ends in none of .html, .npz and .json, or there is no such folder.
    """
    writers = {".html": to_html, ".npz": to_npz, ".json": to_json}
    if path.suffix not in writers:
        raise ValueError(f"{path}: expected a name that ends in .html, .npz or .json")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent}: no such folder; create it first")
    return writers[path.suffix]
