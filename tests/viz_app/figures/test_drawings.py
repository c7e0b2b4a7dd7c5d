from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from headwise.model.config import TransformerConfig
from headwise.model.interface import Description
from headwise.viz_app.figures.drawings import architecture_svg, describe_architecture
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def model(make_config: Callable[..., TransformerConfig]) -> Description:
    """With a norm before each sublayer and on top, and another number of layers in each stack."""
    description = make_config().description
    return replace(description, norm="pre", final_norm=True, n_encoder_layers=5)


def drawn(model: Description, theme: Theme = LIGHT) -> ElementTree.Element:
    return ElementTree.fromstring(architecture_svg(model, source=11, steps=1_200, theme=theme))


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


def test_it_is_said_in_words_and_drawn_in_the_theme(model: Description) -> None:
    said = describe_architecture(model, source=11, steps=1_200)
    assert said.startswith("Encoder: 11 source tokens become vectors, 1 × 11 × 14,")
    assert "5 × a layer of self-attention" in said
    assert "LayerNorm before it, and a norm on top" in said
    picture = drawn(model, DARK)
    assert picture.get("aria-label") == said
    colours = {text.get("fill") for text in picture.iter(f"{SVG}text")}
    assert colours == {DARK.text, DARK.muted}
