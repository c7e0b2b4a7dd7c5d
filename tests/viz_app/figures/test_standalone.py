"""A trace in a notebook: how maps are packed, how large it is, and that texts are texts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headwise.model.interface import KINDS
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.figures.standalone import NotebookMaps, notebook_maps, pack
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_notebook

if TYPE_CHECKING:
    from tests.viz_app.conftest import HtmlPage

ReadHtml = Callable[[str], "HtmlPage"]
HOSTILE = "</script><b onclick='x'>&amp; {{DATA}} }} <!--<script>\u2028\"]]>"


def unpack(text: str, bits: int, size: int) -> np.ndarray:
    """The integers, by the bits of the bytes one after another."""
    of_bytes = np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8))
    groups = of_bytes[: size * bits].reshape(size, bits)
    return groups @ (1 << np.arange(bits)[::-1])


def part_of(maps: np.ndarray, text: str = "a") -> NotebookMaps:
    rows, columns = maps.shape[-2:]
    allowed = np.tri(rows, columns, dtype=bool)
    return NotebookMaps(text, text, maps, allowed, [text] * rows, [text] * columns, text, text)


def page_of(layers: int, heads: int, source: int, text: str = "a", target: int = 0) -> str:
    target = target or source
    of = {"encoder_self": (source,) * 2, "decoder_self": (target,) * 2, "cross": (target, source)}
    draw = np.random.default_rng(3)
    maps = {kind: draw.random((layers, heads, *of[kind])) for kind in KINDS}
    return notebook_maps(
        source=text,
        translation=text,
        tokens=[(text, 0.5)] * target,
        parts={kind: part_of(maps[kind].astype(np.float32), text) for kind in KINDS},
        facts={text: text},
        too_large="too large",
    )


@pytest.mark.parametrize("bits", [8, 4])
def test_packed_weights_are_near_and_masked_cells_apart(bits: int) -> None:
    maps = np.random.default_rng(5).random((1, 3, 5, 7), dtype=np.float32)
    maps[0, 0, 1, :2] = 0, 1
    allowed = np.tri(5, 7, dtype=bool)
    codes = unpack(pack(maps, allowed, bits), bits, maps.size).reshape(maps.shape)
    largest = 2**bits - 2
    assert (codes == largest + 1).tolist() == np.broadcast_to(~allowed, maps.shape).tolist()
    weights = (codes / largest) ** 2
    # The root is off by half a unit, so that a square is off by at most one and a quarter of one.
    off = np.abs(weights - maps)[:, :, allowed]
    assert off.max() <= 1 / largest + 1 / (4 * largest**2)
    assert (codes[0, 0, 1, 0], codes[0, 0, 1, 1]) == (0, largest)


def test_a_trace_shows_its_maps_labels_and_origin(read_html: ReadHtml, trace: Trace) -> None:
    page = to_notebook(trace)
    shown = read_html(page)
    data = json.loads(shown.texts["script"][0])
    for kind, part in data.items():
        maps = trace.attention[kind]
        assert tuple(part["shape"]) == maps.shape
        codes = unpack(part["maps"], part["bits"], maps.size).reshape(maps.shape)
        there = codes <= 254
        assert np.abs((codes / 254) ** 2 - maps)[there].max() <= 1 / 254 + 1 / (4 * 254**2)
        assert there.all() == (kind != "decoder_self")
    assert data["cross"]["columns"] == token_labels(trace.source)
    assert shown.texts["bdi"][:2] == [trace.source_text, trace.target_text]
    assert shown.texts["bdi"][2:] == token_labels(trace.predicted)
    probability = np.exp(trace.predictions.log_probability)
    assert shown.texts["small"] == [f"{each:.2f}" for each in probability]
    for theme in (LIGHT, DARK):
        assert f"--text:{theme.text}" in page
    for word in ("http:", "https:", "import(", "fetch"):
        assert word not in page


@pytest.mark.parametrize(
    ("layers", "heads", "tokens", "bits"),
    [(3, 4, 20, {8}), (6, 8, 20, {8}), (12, 16, 20, {4}), (12, 16, 60, set())],
    ids=["ours", "base", "large", "too large"],
)
def test_at_most_300_kb_are_sent_and_what_is_too_large_is_said(
    read_html: ReadHtml, layers: int, heads: int, tokens: int, bits: set[int]
) -> None:
    page = page_of(layers, heads, tokens)
    assert len(page.encode()) <= 300_000
    shown = read_html(page)
    assert {part["bits"] for part in json.loads(shown.texts["script"][0]).values()} == bits
    assert ("too large" in shown.texts["p"]) == (not bits)


def test_a_long_source_leaves_the_maps_that_fit(read_html: ReadHtml) -> None:
    """343 tokens with a translation of 18, by a model of 6 layers of 8 heads."""
    page = page_of(6, 8, 343, target=18)
    assert len(page.encode()) <= 300_000
    shown = read_html(page)
    data = json.loads(shown.texts["script"][0])
    assert {kind: part["shape"] for kind, part in data.items()} == {
        "decoder_self": [6, 8, 18, 18],
        "cross": [6, 8, 18, 343],
    }
    assert any("left out: a. too large" in text for text in shown.texts["p"])
    assert "too large" not in shown.texts["p"]


def test_texts_are_never_markup(read_html: ReadHtml) -> None:
    shown, plain = read_html(page_of(1, 2, 3, HOSTILE)), read_html(page_of(1, 2, 3))
    assert [tag for tag, _ in shown.tags] == [tag for tag, _ in plain.tags]
    assert shown.texts["bdi"] == [HOSTILE] * 5
    data = json.loads(shown.texts["script"][0])
    assert data["cross"]["rows"] == [HOSTILE] * 3
