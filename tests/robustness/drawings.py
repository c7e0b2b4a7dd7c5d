"""Everything that draws labels, and the check that a label is never taken for markup.

What is drawn for any labels has the same tags, templates and attributes as what is drawn for "x".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import orjson
import plotly.graph_objects as go

from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.figures.curves import training_curves
from headwise.viz_app.figures.html import comparison_table, lens_table, padding_rows, token_row
from headwise.viz_app.figures.maps import (
    attention_map,
    mask_map,
    score_stages,
    similarity_map,
    vector_map,
)
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.figures.tree import beam_tree
from headwise.viz_app.records.measures import Curve, RunCurves

_MARKUP = re.compile(r"<[^>]*>?|>|%\{[^}]*\}?|\$|&(?!(?:amp|lt|gt|#36|#123);)")


def drawings(labels: Sequence[str]) -> dict[str, go.Figure | str]:
    """Draw labels in all that takes some, and put them wherever else it takes a text."""
    n, first = len(labels), labels[0]
    square = np.full((n, n), 0.5, np.float32)
    lower, axes = np.tri(n, dtype=bool), {"rows": labels, "columns": labels}
    curve = Curve(np.array([1, 2]), np.array([2.0, 1.0]))
    runs = [RunCurves(name, {"valid_loss": curve, "train_loss": curve}) for name in labels[:6]]
    titles = {"row_title": "query", "column_title": "key"}
    beam = {"labels": labels, "notes": labels, "outcomes": ["kept"] * n, "path": [0]}
    return {
        "map": attention_map(square, **axes, **titles, theme=LIGHT, allowed=lower, selected=0),
        "similarity": similarity_map(square, labels=labels, theme=LIGHT),
        "vectors": vector_map(square, labels=labels, limit=1, theme=LIGHT),
        "mask": mask_map(lower, **axes, titles=("query", "key"), theme=LIGHT),
        "bars": bar_chart(labels, [0.5] * n, theme=LIGHT),
        "scores": score_stages(
            square[:1].repeat(2, axis=0),
            square[0],
            allowed=np.ones(n, bool),
            columns=labels,
            names=("q·k", "scaled", "masked", "weight"),
            theme=LIGHT,
        ),
        "tree": beam_tree(range(-1, n - 1), steps=range(n), **beam, theme=LIGHT),
        "curves": training_curves(runs, step=1, theme=LIGHT),
        "drift": named_lines(square, steps=range(n), names=labels, title="", theme=LIGHT, marked=0),
        "tokens": token_row(labels, theme=LIGHT, titles=labels, language=first),
        "lens": lens_table(
            [labels] * n,
            square,
            actual=np.eye(n, dtype=bool),
            notes=[labels] * n,
            **axes,
            row_title=first,
            theme=LIGHT,
            language=first,
        ),
        "padding": padding_rows([labels], np.ones((1, n), bool), rows=labels[:1], language=first),
        "comparison": comparison_table(labels, [(first, labels, first)]),
    }


def check_drawn(labels: Sequence[str]) -> None:
    """Draw these labels, and assert that they stay text."""
    plain = _plain_markup(len(labels))
    for name, drawn in drawings(labels).items():
        assert _markup(drawn) == plain[name], f"{name}: a text is markup"


@cache
def _plain_markup(labels: int) -> dict[str, list[tuple[str, ...]]]:
    return {name: _markup(drawn) for name, drawn in drawings(["x"] * labels).items()}


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
