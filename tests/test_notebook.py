"""The notebook runs from its first cell to its last, as a reader would run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from viz_app.analysis.grid import GridOptions, make_grid
from viz_app.figures.maps import attention_map
from viz_app.records.trace import Trace

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "from-python.ipynb"


def cells(kind: str) -> list[str]:
    """Sources of the cells of a kind."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the notebook's cells have named when all of them have run."""
    names: dict[str, Any] = {}
    for number, source in enumerate(cells("code")):
        exec(compile(source, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    return names


def test_every_cell_runs(names: dict[str, Any]) -> None:
    trace = names["trace"]
    assert isinstance(trace, Trace)
    assert trace.target_text.startswith("Vimos tres gatos negros")
    assert {path.name for path in names["folder"].iterdir()} == {"cats.html", "cats.npz"}
    assert names["distance"] == 0  # of the last checkpoint to itself
    assert max(names["deviations"](names["layer"], head=0, row=3).values()) < 1e-4


def test_its_figure_is_the_map_of_the_head_that_it_names(names: dict[str, Any]) -> None:
    trace = names["trace"]
    grid = make_grid(trace, "cross", GridOptions(units="words"))
    assert names["grid"].rows == grid.rows
    figure = attention_map(names["through"], theme=names["LIGHT"], **names["axes"])
    assert isinstance(figure, go.Figure)
    assert figure.data[0].z.shape == (len(grid.rows), len(grid.columns))


def test_it_is_a_notebook_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert len(cells("code")) >= 8
    assert all(not cell.get("outputs") for cell in notebook["cells"])
