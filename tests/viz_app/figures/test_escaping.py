"""No figure lets Plotly read a text of a person or a file as markup, formula or template."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.model.interface import Head
from headwise.viz_app import figures
from headwise.viz_app.figures.checkpoint_lines import StageChart
from headwise.viz_app.figures.heads import HeadRows
from headwise.viz_app.figures.lines import line
from headwise.viz_app.figures.theme import LIGHT, escape_plotly
from headwise.viz_app.records.measures import Curve, OverfittingOnset, RunCurves
from headwise.viz_app.records.pairs import Accuracy, AccuracyCurve

MARKS = ("<u>", "$x$", "&gt;%", "%{w}")
"""What Plotly would read, and no figure writes by itself."""
TEXT = "<u>$x$&gt;%{w}"
"""It is cut nowhere."""
CELLS = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
_CURVE = Curve(np.array([0, 5, 10]), np.array([3.0, 1.0, 2.0]))
_HEADS = [Head("cross", 0, 0), Head("cross", 0, 1)]


def _axes(text: str) -> dict[str, Any]:
    return {"rows": [text, "r"], "columns": ["c", text], "row_title": text, "column_title": text}


def _run(text: str) -> RunCurves:
    curves = {"train_loss": _CURVE, "valid_loss": _CURVE}
    return RunCurves(text, curves, overfitting=OverfittingOnset(5, 1.0, 10), batches=text)


FIGURES: dict[str, Callable[[str], dict[str, Any]]] = {
    "parts.heads_map": lambda t: {
        "cells": CELLS[:, None].astype(float), "columns": ["c", t], "column_title": t, "limit": 1.0
    },
    "parts.waterfall": lambda t: {"labels": [t], "values": [0.5]},
    "bars.bar_chart": lambda t: {
        "labels": [t, "b"], "values": [0.5, -0.5], "limit": 1.0, "written": [t, t],
        "clicks": [t, t],
    },
    "checkpoint_lines.measure_lines": lambda t: {
        "lines": {t: [0.1, 0.2]}, "steps": [0, 5], "marked": 0
    },
    "checkpoint_lines.named_lines": lambda t: {
        "values": CELLS, "steps": [0, 5], "names": [t, "b"], "title": t, "marked": 0
    },
    "checkpoint_lines.stage_charts": lambda t: {
        "charts": [StageChart(t, [0.1, 0.2], [t, t], reference=0.1, reference_name=t)],
        "steps": [0, 5], "marked": 0,
    },
    "curves.training_curves": lambda t: {"runs": [_run(t), _run("b")], "step": 0},
    "heads.head_matrix": lambda t: {
        "rows": HeadRows(_HEADS, [t, t], CELLS, [[t, t], [t, t]]), "steps": [0, 5],
        "kinds": {"cross": t}, "measured": t, "values": "share",
    },
    "lines.line_chart": lambda t: {
        "lines": [line([0], [1.0], colour="#000000", name=t)], "x": {"title": t},
        "y": {"title": t}, "margin": {},
    },
    "maps.attention_map": lambda t: {"weights": CELLS, "measured": t, **_axes(t)},
    "maps.difference_map": lambda t: {"difference": CELLS, **_axes(t)},
    "maps.encoding_map": lambda t: {"encoded": CELLS, "used": 1},
    "maps.mask_map": lambda t: {
        "allowed": CELLS > 0.3, "rows": [t, "r"], "columns": [t, "c"], "titles": (t, t)
    },
    "maps.ratio_map": lambda t: {
        "ratios": CELLS, "dimensions": np.zeros((2, 2), np.int64), **_axes(t)
    },
    "maps.share_map": lambda t: {
        "shares": CELLS, "names": np.full((2, 2), "id"), "hover": np.full((2, 2), f"{t}\n{t}"),
        **_axes(t),
    },
    "maps.similarity_map": lambda t: {"similarity": CELLS, "labels": [t, "b"]},
    "maps.vector_map": lambda t: {"vectors": CELLS, "labels": [t, "b"], "limit": 1.0},
    "heads.cost_map": lambda t: {"costs": {"cross": CELLS}, "names": {"cross": t}},
    "heads.distance_map": lambda t: {"distances": {"cross": CELLS}, "names": {"cross": t}},
    "heads.mosaic": lambda t: {
        "maps": CELLS[None, None], "rows": [t, "r"], "columns": [t, "c"]
    },
    "curves.accuracy_charts": lambda t: {
        "curves": [AccuracyCurve(t, [0, 5], [Accuracy(0.5, 0.3, 0.7, 12)] * 2)], "step": 0
    },
    "lines.bias_curves": lambda t: {
        "bias": CELLS, "distances": np.array([-1, 0]), "names": [t, "b"]
    },
    "lines.distance_curve": lambda t: {"similarity": CELLS},
    "lines.encoding_curves": lambda t: {
        "sines": CELLS, "cosines": CELLS, "positions": [0, 1]
    },
    "lines.waves": lambda t: {
        "curves": CELLS, "encoded": CELLS, "dimensions": [0, 1]
    },
    "parts.score_map": lambda t: {
        "cells": CELLS.astype(float), "rows": [t, "r"], "columns": [t, "c"], "titles": (t, t),
        "limit": 1.0,
    },
    "bars.contribution_bars": lambda t: {"products": [1.0], "query": [1.0], "key": [1.0]},
    "maps.score_stages": lambda t: {
        "scores": [CELLS[0]], "weights": CELLS[0], "allowed": np.array([True, False]),
        "columns": [t, "c"], "names": [t, "n", "m"],
    },
    "tree.beam_tree": lambda t: {
        "parents": [-1, 0], "steps": [0, 1], "labels": [t, t], "notes": [t, t],
        "outcomes": ["kept", "kept"], "path": [0],
    },
}  # fmt: skip
"""Function → what it is given with a text at each place where it takes one."""
WITHOUT_TEXTS = {
    *("maps.encoding_map", "lines.distance_curve"),
    *("lines.encoding_curves", "lines.waves", "bars.contribution_bars", "heads.mosaic"),
}
"""Functions that draw no text that they are given."""
_NOT_DRAWN = {"customdata", "meta", "family", "type"}


def _functions() -> dict[str, Callable[..., go.Figure]]:
    """Find all functions of the package that return a figure; ``new_figure`` makes all of them."""
    found = {}
    for module in pkgutil.iter_modules(figures.__path__):
        inside = importlib.import_module(f"{figures.__name__}.{module.name}")
        for name, function in inspect.getmembers(inside, inspect.isfunction):
            makes = function.__annotations__.get("return") == "go.Figure"
            if makes and function.__module__ == inside.__name__ and not name.startswith("_"):
                found[f"{module.name}.{name}"] = function
    del found["theme.new_figure"]
    return found


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in _NOT_DRAWN:
                yield from _texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)


def test_every_function_that_makes_a_figure_is_tried() -> None:
    assert FIGURES.keys() == _functions().keys()


@pytest.mark.parametrize("name", FIGURES)
def test_texts_are_drawn_as_they_are(name: str) -> None:
    figure = _functions()[name](**FIGURES[name](TEXT), theme=LIGHT)
    drawn = list(_texts(json.loads(figure.to_json())))
    escaped = escape_plotly(TEXT)
    assert not [mark for each in drawn for mark in MARKS if mark in each.replace(escaped, "")]
    assert any(escaped in each for each in drawn) == (name not in WITHOUT_TEXTS)
