"""Python that is printed in docs, with what it gives: run again, compared, or written anew.

    python -m tests.printed

runs the notebooks and the pages with ``>>>`` and writes what they give into them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import doctest
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tests.imports import ROOT

DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
PRINTED = [DOCS / "from-python.md"]
"""Pages with blocks of ``>>>``."""
_BLOCK = re.compile(r"(^```pycon\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
PLOTLY = "application/vnd.plotly.v1+json"
Output = dict[str, Any]
"""As a notebook's file has it."""


def run_cell(source: str, names: dict[str, Any], name: str) -> list[Output]:
    """Run a cell as Jupyter does: what it prints, what it shows, and the value of its last line."""
    outputs: list[Output] = []
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    show = go.Figure.show
    go.Figure.show = lambda figure, *_: outputs.append(shown("display_data", figure))
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), name, "exec"), names)
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    finally:
        go.Figure.show = show
    if text := printed.getvalue():
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": lines(text)})
    if value is not None:
        outputs.append({**shown("execute_result", value), "execution_count": None})
    return outputs


def shown(kind: str, value: Any) -> Output:
    """What a notebook keeps of a value: its text, and its HTML or figure if it has one."""
    data: dict[str, Any] = {}
    if isinstance(value, go.Figure):
        data[PLOTLY] = json.loads(value.to_json())
        data["text/plain"] = ["Figure"]
    else:
        if hasattr(value, "_repr_html_"):
            data["text/html"] = lines(value._repr_html_())
        data["text/plain"] = lines(repr(value))
    return {"output_type": kind, "metadata": {}, "data": data}


def cells_of(data: dict[str, Any]) -> list[NDArray[np.float64]]:
    """The numbers of the heat maps in the figure of an output; none where it is no figure."""
    found = []
    for trace in data.get(PLOTLY, {"data": []})["data"]:
        if isinstance(z := trace.get("z"), dict):  # Plotly writes arrays as the bytes of numbers
            flat = np.frombuffer(base64.b64decode(z["bdata"]), z["dtype"])
            found.append(flat.reshape([int(n) for n in z["shape"].split(",")]).astype(np.float64))
    return found


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts_of(outputs: list[Output]) -> list[str]:
    """What is printed, and the texts of values."""
    return ["".join(of["text"] if "text" in of else of["data"]["text/plain"]) for of in outputs]


def assert_same_text(found: str, kept: str) -> None:
    """Compare texts, but for the last digit of a number, which processors may round differently."""
    words = [re.sub(r"\s+", " ", _NUMBER.sub("#", text)).strip() for text in (found, kept)]
    assert words[0] == words[1]
    pairs = zip(_NUMBER.findall(found), _NUMBER.findall(kept), strict=True)
    for number, expected in pairs:
        digits = len(expected.partition(".")[2])
        unit = 1.5 * 10.0**-digits if digits else 0.0
        assert abs(float(number.replace(",", "")) - float(expected.replace(",", ""))) <= unit


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells of code."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def examples(page: Path) -> Iterator[doctest.Example]:
    """The statements of a page, each with the text that stands below it."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield from doctest.DocTestParser().get_examples(block[2])


def given_by(example: doctest.Example, names: dict[str, Any]) -> str:
    """Run a statement as an interpreter does; what it prints, the value of an expression too."""
    printed = io.StringIO()

    def display(value: object) -> None:
        if value is not None:
            print(repr(value), file=printed)

    with contextlib.redirect_stdout(printed), patch.object(sys, "displayhook", display):
        for statement in ast.parse(example.source).body:
            single = ast.Interactive([statement])
            exec(compile(single, "<printed>", "single"), names)
    return printed.getvalue()


def _write_page(page: Path) -> None:
    names: dict[str, Any] = {}

    def rewrite(block: re.Match[str]) -> str:
        written = []
        for example in doctest.DocTestParser().get_examples(block[2]):
            first, *rest = example.source.rstrip("\n").split("\n")
            written += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
            if given := given_by(example, names).rstrip("\n"):
                written.append(given)
        return block[1] + "\n".join(written) + "\n" + block[3]

    page.write_text(_BLOCK.sub(rewrite, page.read_text(encoding="utf-8")), encoding="utf-8")


def _write_notebook(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            cell["outputs"] = run_cell("".join(cell["source"]), names, f"cell {number}")
    text = json.dumps(content, ensure_ascii=False, indent=1)
    notebook.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    with contextlib.chdir(tempfile.mkdtemp()):
        for page in PRINTED:
            _write_page(page)
        for notebook in NOTEBOOKS:
            _write_notebook(notebook)
