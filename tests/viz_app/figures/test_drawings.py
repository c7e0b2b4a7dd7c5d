"""Drawings, the tree of continuations, and bars."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from headwise.model.config import TransformerConfig
from headwise.model.interface import Description
from headwise.viz_app.figures.bars import bar_chart, contribution_bars, take_frames
from headwise.viz_app.figures.drawings import architecture_svg, describe_architecture
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme
from headwise.viz_app.figures.tree import beam_tree

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def model(make_config: Callable[..., TransformerConfig]) -> Description:
    """With a norm before each sublayer and on top, and another number of layers in each stack."""
    description = make_config().description
    return replace(description, norm="pre", final_norm=True, n_encoder_layers=5)


def drawn(model: Description) -> ElementTree.Element:
    return ElementTree.fromstring(architecture_svg(model, source=11, steps=1_200, theme=LIGHT))


def words(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_boxes_have_the_shapes_of_the_sentence(model: Description) -> None:
    written = words(drawn(model))
    assert written.count("1 × 11 × 14") == 2  # into the encoder's layers, and the memory
    assert written.count("1 × 1,200 × 14") == 2  # into the decoder's layers, and out of it
    assert written.count("14 → 23 → 14") == 2
    assert {"1 × 1,200 × 41", "14 → 41", "5 ×", "2 ×"} <= set(written)


def test_norms_are_where_the_model_has_them(model: Description) -> None:
    assert words(drawn(model)).count("LayerNorm") == 2 + 3 + 2
    post = replace(model, norm="post", final_norm=False)
    assert words(drawn(post)).count("LayerNorm") == 2 + 3
    rms = words(drawn(replace(model, norm_kind="rms", positions="relative")))
    assert rms.count("RMSNorm") == 7
    assert "+ positions" not in rms


def test_every_box_and_text_is_inside_the_drawing(model: Description) -> None:
    picture = drawn(model)
    left, top, width, height = map(float, picture.get("viewBox", "").split())
    assert (left, width) == (0, 360)
    for box in picture.iter(f"{SVG}rect"):
        x, y, wide, high = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x < x + wide <= width
        assert top <= y < y + high <= top + height
    for text in picture.iter(f"{SVG}text"):
        assert top + 10 <= float(text.get("y", "")) <= top + height
    said = describe_architecture(model, source=11, steps=1_200)
    assert picture.get("aria-label") == said
    assert "5 × a layer of self-attention" in said


TREE: dict[str, Any] = {
    "parents": [-1, 0, 0, 0, 2, 1],
    "steps": [0, 1, 1, 1, 2, 2],
    "labels": ["<s>", "el", "la", "un", "</s>", "perro"],
    "notes": ["a", "b", "c", "d", "e", "<b>f"],
    "outcomes": ["kept", "kept", "kept", "dropped", "ended", "dropped"],
}


def test_candidates_stand_in_the_order_of_their_step_with_edges_by_outcome_and_path() -> None:
    """Edges go from behind the parent's text to just before the child's.

    They leave their row only behind all texts of the step.
    """
    dropped, kept, path, texts = beam_tree(**TREE, path=[4, 2, 0], theme=DARK).data
    assert list(texts.y) == [0, 0, 1, 2, 0, 1]
    assert [round(x + 0.34) for x in texts.x] == TREE["steps"]
    assert list(texts.text) == ["&lt;s&gt;", "el", "la", "un", "&lt;/s&gt;", "perro"]
    assert texts.hovertext[5] == "&lt;b&gt;f"
    ends = [
        [
            (round(line.x[i] - 0.01), line.y[i], round(line.x[i + 2] + 0.38), line.y[i + 2])
            for i in range(0, len(line.x), 4)
            if line.y[i] == line.y[i + 1]
        ]
        for line in (dropped, kept, path)
    ]
    assert ends == [[(0, 0, 1, 2), (1, 0, 2, 1)], [(0, 0, 1, 0)], [(0, 0, 1, 1), (1, 1, 2, 0)]]
    assert path.x[0] > path.x[4] - 0.95  # «<s>» is longer than «la»
    accented = [colour == DARK.accent for colour in texts.textfont.color]
    assert accented == [True, False, True, False, True, False]
    assert path.line.color == DARK.accent


def test_a_search_can_be_drawn_from_a_later_step() -> None:
    later: dict[str, Any] = {
        name: values[1:] if name != "parents" else [-1, -1, -1, 1, 0]
        for name, values in TREE.items()
    }
    figure = beam_tree(**later, path=[1, 3], theme=DARK, first=1)
    assert [len(each.x) for each in figure.data] == [4, 0, 4, 5]  # no edge to the roots
    axis = figure.layout.xaxis
    assert (axis.range[0], list(axis.ticktext)) == (0.5, ["1", "2"])


LABELS = ("le", "<b>", "$x$")
VALUES = (0.75, -0.4375, 0.6875)


@pytest.mark.parametrize("limit", [None, 2.0])
@pytest.mark.parametrize("count", [0, 3])
def test_bars_go_down_with_what_is_written_beside_them(limit: float | None, count: int) -> None:
    labels, values, written = LABELS[:count], VALUES[:count], ["<1>", "2, was 3", ""][:count]
    figure = bar_chart(labels, values, theme=LIGHT, written=written, limit=limit)
    drawn, layout = figure.data[0], figure.layout
    assert (tuple(drawn.x), tuple(drawn.y)) == (values, tuple(range(count)))
    assert layout.yaxis.range == (count - 0.5, -0.5)
    assert list(layout.yaxis.ticktext) == ["le", "&lt;b&gt;", "&#36;x&#36;"][:count]
    texts = ["&lt;1&gt;", "2, was 3", ""][:count]
    assert list(drawn.text) == texts
    assert layout.margin.r >= 7 * max(map(len, written), default=0)
    # Beside signed parts, what is written stands in a column, not at the bars' ends.
    notes = [(note.y, note.text) for note in layout.annotations]
    assert drawn.textposition == ("none" if limit else "outside")
    assert notes == ([*enumerate(texts)] if limit else [])


def test_values_are_written_with_the_digits_that_their_scale_needs() -> None:
    """What is small is not nothing, and a small scale has more digits."""
    for values, limit, written in (
        ((0.91234, 0.5), None, ("0.912", "0.500")),
        ((1.5, 0.0006, 0.0004, 0.0), 2.0, ("+1.50", "+0.001", "&lt;0.001", "0")),
        ((0.0142, -0.00002), 0.02, ("+0.0142", "&gt;-0.0001")),
    ):
        figure = bar_chart(["a"] * len(values), values, theme=LIGHT, limit=limit)
        assert figure.data[0].text == written


def test_one_bar_may_be_marked(theme: Theme) -> None:
    low, high = theme.difference[1], theme.difference[-2]
    for marked in (None, 0, 2):
        bars = bar_chart(LABELS, VALUES, theme=theme, marked=marked).data[0]
        accent = [place for place, colour in enumerate(bars.marker.color) if colour == theme.accent]
        assert accent == ([] if marked is None else [marked])
        signed = bar_chart(LABELS, VALUES, theme=theme, limit=1.0, marked=marked)
        frames = [(each.y0, each.y1) for each in signed.layout.shapes if each.name == "mark"]
        assert frames == ([] if marked is None else [(marked - 0.5, marked + 0.5)])
        assert signed.data[0].marker.color == (high, low, high)
        assert signed.layout.xaxis.range[0] <= -1 < 1 <= signed.layout.xaxis.range[1]


@pytest.mark.parametrize("limit", [None, 2.0])
def test_the_whole_row_of_a_bar_gives_its_place_when_clicked(limit: float | None) -> None:
    figure = bar_chart(LABELS, VALUES, theme=LIGHT, limit=limit, clicks=LABELS)
    whole = figure.data[-1]
    low, high = figure.layout.xaxis.range
    assert list(whole.customdata) == ["0", "1", "2"]
    assert list(whole.y) == [0, 1, 2]
    assert [(whole.base, whole.base + length) for length in whole.x] == [(low, high)] * 3
    assert whole.marker.opacity == whole.unselected.marker.opacity == 0
    assert figure.data[0].unselected.marker.opacity == 1
    assert whole.hovertext[1] == "&lt;b&gt;"


def test_values_beyond_0_and_1_have_room_beside_their_bars() -> None:
    """Six signs of 7 pixels are a tenth of the 420 that a column has at least."""
    for values in ((1.25, -0.25), (-5.0, 7.0, -1.0), (1.5, 0.5), (190.0, 0.125)):
        low, high = bar_chart(LABELS[: len(values)], values, theme=LIGHT).layout.xaxis.range
        assert (high - max(values)) / (high - low) >= 0.1
        assert low == 0 if min(values) > 0 else (min(values) - low) / (high - low) >= 0.1


def test_each_dimension_has_a_bar_of_its_product_with_its_factors(theme: Theme) -> None:
    query, key = np.array([2, -1.5, 0.5]), np.array([0.25, 3, 0])
    [drawn] = contribution_bars(query * key, query=query, key=key, theme=theme).data
    np.testing.assert_array_equal(drawn.y, np.float32([0.5, -4.5, 0]))
    np.testing.assert_array_equal(drawn.customdata, np.float32([[2, 0.25], [-1.5, 3], [0.5, 0]]))
    assert "%{customdata[0]:.3r} × %{customdata[1]:.3r} = %{y:.3r}" in drawn.hovertemplate
    adds, takes = theme.series[:2]
    assert list(drawn.marker.color) == [adds, takes, adds]


def test_bars_are_the_same_whichever_is_chosen() -> None:
    """Else Streamlit and Plotly would draw them anew at every click."""
    given = {"labels": list("abcd"), "values": [0.5, -0.25, 1.0, 0.125], "limit": 1.0}
    figures = [bar_chart(**given, marked=marked, theme=LIGHT) for marked in (1, 3, None)]
    assert figures[0] != figures[1] != figures[2]
    *frames, none = map(take_frames, figures)
    assert none == ""
    assert figures[0] == figures[1] == figures[2]
    for frame, marked in zip(frames, (1, 3), strict=True):
        shares = re.findall(r"calc\((?:4px \+ )?([\d.]+) \* \(100% - 8px\)\)", frame)
        assert [float(share) for share in shares] == pytest.approx([marked / 4, 1 / 4])
        assert f"solid {LIGHT.accent}" in frame
