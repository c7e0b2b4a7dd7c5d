from __future__ import annotations

import json
import re

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from headwise.viz_app.figures.theme import (
    DARK,
    LIGHT,
    Scale,
    Theme,
    difference_scale,
    escape_plotly,
    new_figure,
    text_on_weight,
    theme_named,
    weight_colour,
    weight_scale,
)

SHADES = np.linspace(0, 1, 1_001).tolist()


def channels(colour: str) -> np.ndarray:
    return np.array(list(bytes.fromhex(colour.removeprefix("#"))), dtype=float)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    share = channels(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    """Contrast ratio, WCAG 2.2."""
    dark, light = sorted([luminance(a), luminance(b)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("name", "theme"), [("dark", DARK), ("light", LIGHT), (None, LIGHT), ("sepia", LIGHT)]
)
def test_themes_by_name(name: str | None, theme: Theme) -> None:
    assert theme_named(name) is theme


# Scales


def test_every_colour_is_rrggbb(theme: Theme) -> None:
    values = [v if isinstance(v, tuple) else (v,) for v in vars(theme).values()]
    colours = [colour for group in values for colour in group]
    assert len(colours) == 6 + 7 + 7 + 2 + 6
    assert [colour for colour in colours if not re.fullmatch("#[0-9a-f]{6}", colour)] == []


@pytest.mark.parametrize("scale_of", [weight_scale, difference_scale])
def test_scales_rise_from_0_to_1(theme: Theme, scale_of: object) -> None:
    scale: Scale = scale_of(theme)
    places = [place for place, _ in scale]
    assert places[0] == 0
    assert places[-1] == 1
    assert (np.diff(places) > 0).all()
    go.Heatmap(colorscale=scale)  # raises on a scale that Plotly does not take


def test_a_larger_weight_has_more_contrast_to_the_background(theme: Theme) -> None:
    steps = np.diff([luminance(weight_colour(theme, weight)) for weight in SHADES])
    assert (steps * (1 if theme is DARK else -1) >= 0).all()


def test_a_weight_has_the_same_colour_in_text_and_in_maps(theme: Theme) -> None:
    for place, colour in weight_scale(theme):
        assert weight_colour(theme, place) == colour
    low, high = theme.weights[:2]
    middle = channels(weight_colour(theme, (0.5 / 6) ** 2))  # halfway in the square root
    assert np.abs(middle - (channels(low) + channels(high)) / 2).max() <= 0.5


def test_weights_out_of_range_are_clipped(theme: Theme) -> None:
    assert weight_colour(theme, -0.1) == theme.weights[0]
    assert weight_colour(theme, 1.1) == theme.weights[-1]


def test_no_difference_is_the_middle_of_its_scale(theme: Theme) -> None:
    assert difference_scale(theme)[3] == (0.5, theme.difference[3])


def test_masked_cells_look_like_no_weight_and_no_difference(theme: Theme) -> None:
    on_scale = [weight_colour(theme, weight) for weight in SHADES]
    distances = [np.abs(channels(colour) - channels(theme.masked)).max() for colour in on_scale]
    assert min(distances) > 15
    zeros = (theme.weights[0], theme.difference[3])
    assert all(np.abs(channels(z) - channels(theme.masked)).max() > 15 for z in zeros)


# Text


def test_text_has_contrast_on_every_shade(theme: Theme) -> None:
    worst = min(
        (contrast(text_on_weight(theme, weight), weight_colour(theme, weight)), weight)
        for weight in SHADES
    )
    assert worst[0] >= 4.5, f"contrast {worst[0]:.2f} at weight {worst[1]:.3f}"


@pytest.mark.parametrize("name", ["text", "muted"])
def test_text_has_contrast_on_the_page(theme: Theme, name: str) -> None:
    assert contrast(getattr(theme, name), theme.background) >= 4.5


def test_the_button_that_saves_a_figure_is_seen(theme: Theme) -> None:
    bar = new_figure(theme, []).layout.modebar
    assert contrast(bar.color, bar.bgcolor) >= 3
    assert contrast(bar.activecolor, bar.bgcolor) >= 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("niña", "niña"),
        ("<b>", "&lt;b&gt;"),
        ("&lt;", "&amp;lt;"),
        ("a & b", "a &amp; b"),
        ("$x$", "&#36;x&#36;"),
        ("%{z}", "%&#123;z}"),
        ("100 % {z}", "100 % {z}"),
        ("</s>", "&lt;/s&gt;"),
    ],
)
def test_literal_escapes_what_plotly_would_read(text: str, expected: str) -> None:
    assert escape_plotly(text) == expected


def test_a_new_figure_is_slim_and_cannot_be_zoomed(theme: Theme) -> None:
    figure = new_figure(theme, [])
    assert len(figure.to_json()) < 1_500
    assert figure.layout.xaxis.fixedrange
    assert figure.layout.yaxis.fixedrange
    assert figure.layout.dragmode is False
    assert figure.layout.font.color == theme.text


def test_properties_of_an_axis_are_added_to_those_of_all_figures(theme: Theme) -> None:
    figure = new_figure(theme, [], {"xaxis": {"title": {"text": "x"}, "visible": None}})
    assert figure.layout.xaxis.title.text == "x"
    assert figure.layout.xaxis.title.font.color == theme.muted
    assert figure.layout.xaxis.visible is None
    assert figure.layout.yaxis.title.text is None


def test_a_figure_that_is_not_checked_is_the_same(
    theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = np.random.default_rng(0).random((2, 3), dtype=np.float32)
    trace = {
        "type": "heatmap",
        "z": z,
        "colorscale": weight_scale(theme),
        "colorbar": {"len": 1, "tickvals": None},
    }
    layout = {"height": 80, "width": None, "xaxis": {"range": [0, 2], "title": None}}
    checked = new_figure(theme, [trace], layout)
    monkeypatch.setattr("headwise.viz_app.figures.theme.CHECKED", False)
    unchecked = new_figure(theme, [trace], layout)
    first, second = (json.loads(pio.to_json(each, validate=False)) for each in (checked, unchecked))
    for each in (first, second):
        del each["layout"]["template"]  # Plotly writes an empty one in another way
    assert first == second


def test_tests_have_plotly_check_all_figures(theme: Theme) -> None:
    with pytest.raises(ValueError, match="heigth"):
        new_figure(theme, [], {"heigth": 80})
