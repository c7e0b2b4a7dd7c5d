"""The notebooks run from the first cell to the last, as a reader would run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.model.checkpoint import open_trained_run
from headwise.model.pretrained.folders import quiet
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.records.trace import Trace
from tests.floats import near, rounding
from tests.model.pretrained.tiny import FOLDERS

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
ON_THE_HUB = '"Helsinki-NLP/opus-mt-en-es"'

Run = Callable[..., dict[str, Any]]


def sources(notebook: Path) -> list[str]:
    """Sources of the cells of code."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def run_notebook(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a notebook; what its cells have named in the end. Figures are not opened."""
    monkeypatch.setattr(go.Figure, "show", lambda figure: None)

    def run(name: str, **replaced: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for number, source in enumerate(sources(DOCS / name)):
            for old, new in replaced.items():
                source = source.replace(old, new)
            exec(compile(source, f"{name}, cell {number}", "exec"), names)
        return names

    return run


def test_a_sentence(run_notebook: Run) -> None:
    names = run_notebook("from-python.ipynb")
    trace = names["trace"]
    assert isinstance(trace, Trace)
    assert trace.target_text.startswith("Vimos tres gatos negros")
    assert {path.name for path in names["folder"].iterdir()} == {"cats.html", "cats.npz"}
    of_itself = names["distance"]  # the last checkpoint's, by two passes
    assert of_itself == near(0, dtype=np.float32, size=1)
    layer = names["layer"]
    largest = max(
        float(np.abs(each).max())
        for each in (
            layer.attention.scores[0, 3],
            layer.attention.key[0],
            layer.feed_forward.result,
        )
    )
    off = max(names["deviations"](layer, head=0, row=3).values())
    assert off < rounding(np.float32, largest)
    grid = make_grid(trace, "cross", GridOptions(units="words"))
    assert names["grid"].rows == grid.rows
    [drawn] = names["attention_map"](names["through"], theme=names["LIGHT"], **names["axes"]).data
    assert drawn.z.shape == (len(grid.rows), len(grid.columns))


def test_a_training(run_notebook: Run) -> None:
    names = run_notebook("a-training.ipynb")
    run = open_trained_run("copy")
    first, last = (names["on_diagonal"][step].max() for step in (run.steps()[0], run.steps()[-1]))
    assert first < 0.3 < 0.8 < last
    assert len(names["maps"]) == 4
    measured = read_measures(run.folder, run.steps()[-1]).values["cost"]["cross"]
    np.testing.assert_array_equal(names["cost"][-1], measured)
    cells = names["matrix"].data[0].z
    np.testing.assert_array_equal(cells[1:, -1], np.ravel(measured))
    assert names["onset"].step == 2_000


def test_somebody_s_model(run_notebook: Run, tmp_path: Path, data_folder: Path) -> None:
    rows = [json.loads(line) for line in (data_folder / "train.jsonl").read_text().splitlines()]
    with quiet():
        FOLDERS["marian"](tmp_path, {side: [row[side] for row in rows] for side in ("en", "es")})
    assert any(ON_THE_HUB in source for source in sources(DOCS / "hugging-face.ipynb"))
    names = run_notebook("hugging-face.ipynb", **{ON_THE_HUB: repr(str(tmp_path))})
    trace = names["trace"]
    assert trace.source_text == "The dog sees a red house."
    np.testing.assert_array_equal(names["figure"].data[0].z, trace.attention["cross"][-1, 0])
    assert trace.target_text in names["page"].read_text()
    for kind, costs in names["costs"].items():
        assert costs.shape == trace.attention[kind].shape[:2]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_a_notebook_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    assert len(sources(notebook)) >= 6
    assert all(not cell.get("outputs") for cell in content["cells"])
