"""Everything that draws labels, and the check that a label is never taken for markup.

What is drawn for any labels has the same tags, templates and attributes as what is drawn for "x".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import orjson
import plotly.graph_objects as go

from headwise.viz_app.figures.charts import token_bars
from headwise.viz_app.figures.checkpoint_lines import cosine_lines
from headwise.viz_app.figures.curves import training_curves
from headwise.viz_app.figures.maps import attention_map, mask_map, similarity_map, vector_map
from headwise.viz_app.figures.modules import comparison_table
from headwise.viz_app.figures.steps import score_stages
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.figures.tokens import lens_table, padding_rows, token_row
from headwise.viz_app.figures.tree import beam_tree
from headwise.viz_app.records.measures import Curve, RunCurves

_MARKUP = re.compile(r"<[^>]*>?|>|%\{[^}]*\}?|\$|&(?!(?:amp|lt|gt|#36|#123);)")


def _curves(labels: Sequence[str]) -> go.Figure:
    curve = Curve(np.array([1, 2]), np.array([2.0, 1.0]))
    runs = [RunCurves(name, {"valid_loss": curve, "train_loss": curve}) for name in labels[:6]]
    return training_curves(runs, step=1, theme=LIGHT)


def _tree(labels: Sequence[str]) -> go.Figure:
    n = len(labels)
    return beam_tree(
        range(-1, n - 1),
        steps=range(n),
        labels=labels,
        notes=labels,
        outcomes=["kept"] * n,
        path=[0],
        theme=LIGHT,
    )


def _square(labels: Sequence[str]) -> Any:
    return np.full((len(labels), len(labels)), 0.5, np.float32)


def _lens(labels: Sequence[str]) -> str:
    n = len(labels)
    return lens_table(
        [labels] * n,
        _square(labels),
        actual=np.eye(n, dtype=bool),
        notes=[labels] * n,
        rows=labels,
        columns=labels,
        row_title=labels[0],
        theme=LIGHT,
        language=labels[0],
    )


DRAWN: dict[str, Callable[[Sequence[str]], go.Figure | str]] = {
    "map": lambda labels: attention_map(
        _square(labels),
        rows=labels,
        columns=labels,
        row_title="query",
        column_title="key",
        theme=LIGHT,
        allowed=np.tri(len(labels), dtype=bool),
        selected=0,
    ),
    "similarity": lambda labels: similarity_map(_square(labels), labels=labels, theme=LIGHT),
    "vectors": lambda labels: vector_map(_square(labels), labels=labels, limit=1, theme=LIGHT),
    "mask": lambda labels: mask_map(
        np.tri(len(labels), dtype=bool),
        rows=labels,
        columns=labels,
        titles=("query", "key"),
        theme=LIGHT,
    ),
    "bars": lambda labels: token_bars(labels, [0.5] * len(labels), theme=LIGHT),
    "scores": lambda labels: score_stages(
        _square(labels)[:1].repeat(2, axis=0),
        _square(labels)[0],
        allowed=np.ones(len(labels), bool),
        columns=labels,
        names=("q·k", "scaled", "masked", "weight"),
        theme=LIGHT,
    ),
    "tree": _tree,
    "curves": _curves,
    "drift": lambda labels: cosine_lines(
        _square(labels), steps=range(len(labels)), names=labels, theme=LIGHT, marked=0
    ),
    "tokens": lambda labels: token_row(labels, theme=LIGHT, titles=labels, language=labels[0]),
    "lens": _lens,
    "padding": lambda labels: padding_rows(
        [labels], np.ones((1, len(labels)), bool), rows=labels[:1], theme=LIGHT, language=labels[0]
    ),
    "comparison": lambda labels: comparison_table(
        labels, [(labels[0], labels, labels[0])], theme=LIGHT, notes=labels[0]
    ),
}
"""Name → a function that draws labels, and puts them wherever else it takes a text."""


def check_drawn(name: str, labels: Sequence[str]) -> None:
    """Draw these labels and assert that they stay text.

    Raises:
        AssertionError: if one of them is taken for markup.
    """
    found, expected = _markup(DRAWN[name](labels)), _plain_markup(name, len(labels))
    assert found == expected, f"{name}: a text is markup"


@cache
def _plain_markup(name: str, labels: int) -> list[tuple[str, ...]]:
    return _markup(DRAWN[name](["x"] * labels))


def _markup(drawn: go.Figure | str) -> list[tuple[str, ...]]:
    """List elements of HTML, or tags, templates and dollars in each text of a figure as sent."""
    if isinstance(drawn, str):
        drawn.encode()
        return ParsedHtml(drawn).elements
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    sent = orjson.loads(orjson.dumps(drawn.to_plotly_json(), option=options))
    return [
        (path, *_MARKUP.findall(text))
        for path, text in _texts(sent)
        if not path.endswith(".customdata.")
    ]


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """List the texts in a JSON value with their keys; indices of lists are left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, f"{path}.")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{path}.{key}")


class ParsedHtml(HTMLParser):
    """Parse HTML into elements with their attributes' names, and the text of each ``<bdi>``."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.tokens: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))
        self.tokens += [""] * (tag == "bdi")

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.elements and self.elements[-1][0] == "bdi":
            self.tokens[-1] += data
