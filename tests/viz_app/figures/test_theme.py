"""Colours, and what all figures have in common: how they are made, and how cells are selected."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import plotly.io as pio
import pytest

from headwise import viz_app
from headwise.viz_app.figures.matrix import Target, selectable_cells, vertical_line
from headwise.viz_app.figures.theme import (
    DARK,
    LIGHT,
    Theme,
    difference_scale,
    escape_plotly,
    new_figure,
    page_style,
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


def test_themes_have_names_and_all_their_colours_are_rrggbb(theme: Theme) -> None:
    assert [theme_named(name) for name in ("dark", "light", None)] == [DARK, LIGHT, LIGHT]
    colours = [colour for value in vars(theme).values() for colour in np.atleast_1d(value)]
    assert [colour for colour in colours if not re.fullmatch("#[0-9a-f]{6}", colour)] == []


def test_the_style_of_all_pages_has_its_colours_from_the_theme(theme: Theme) -> None:
    given = page_style(theme)
    style = (Path(viz_app.__file__).parent / "frame/frame.css").read_text("utf-8")
    named, own = (set(re.findall(rule, style)) for rule in (r"var\(--([\w-]+)", r"--([\w-]+):"))
    assert named - own - {"field", "page", "high"} <= given.keys()
    assert contrast(given["on-allowed"], given["allowed"]) >= 4.5
    assert given["masked"] == theme.masked


# Scales


def test_a_weight_has_the_same_colour_in_text_and_in_maps(theme: Theme) -> None:
    for place, colour in weight_scale(theme):
        assert weight_colour(theme, place) == colour
    low, high = theme.weights[:2]
    middle = channels(weight_colour(theme, (0.5 / 6) ** 2))  # halfway in the square root
    assert np.abs(middle - (channels(low) + channels(high)) / 2).max() <= 0.5
    assert weight_colour(theme, -0.1) == theme.weights[0]
    assert weight_colour(theme, 1.1) == theme.weights[-1]
    assert difference_scale(theme)[3] == (0.5, theme.difference[3])


# Contrast


def test_text_and_marks_have_contrast(theme: Theme) -> None:
    for name in ("text", "muted"):
        assert contrast(getattr(theme, name), theme.background) >= 4.5
    bar = new_figure(theme, []).layout.modebar
    assert contrast(bar.color, bar.bgcolor) >= 3
    assert contrast(bar.activecolor, bar.bgcolor) >= 3


def test_shades_have_contrast_to_their_text_and_large_weights_to_the_page(theme: Theme) -> None:
    shades = [weight_colour(theme, weight) for weight in SHADES]
    worst = min(
        (contrast(text_on_weight(theme, weight), shade), weight)
        for weight, shade in zip(SHADES, shades, strict=True)
    )
    assert worst[0] >= 4.5, f"contrast {worst[0]:.2f} at weight {worst[1]:.3f}"
    distances = [np.abs(channels(shade) - channels(theme.masked)).max() for shade in shades]
    assert min(distances) > 15  # masked cells look like no weight
    steps = np.diff([luminance(shade) for shade in shades])
    assert (steps * (1 if theme is DARK else -1) >= 0).all()


# Figures


def test_what_plotly_would_read_is_escaped() -> None:
    texts = ["niña", "<b>", "a<br>b", "a\nb", "&lt;", "a & b", "$x$", "%{z}", "100 % {z}"]
    assert [escape_plotly(text) for text in texts] == [
        *("niña", "&lt;b&gt;", "a&lt;br&gt;b", "a\nb", "&amp;lt;"),
        *("a &amp; b", "&#36;x&#36;", "%&#123;z}", "100 % {z}"),
    ]


def test_a_new_figure_is_slim_and_cannot_be_zoomed(theme: Theme) -> None:
    layout = new_figure(theme, [], {"xaxis": {"title": {"text": "x"}, "visible": None}}).layout
    assert (layout.xaxis.fixedrange, layout.yaxis.fixedrange, layout.dragmode) == (
        True,
        True,
        False,
    )
    assert (layout.xaxis.title.text, layout.xaxis.title.font.color) == ("x", theme.muted)
    assert len(new_figure(theme, []).to_json()) < 1_500


def test_an_unchecked_figure_is_the_same(theme: Theme, monkeypatch: pytest.MonkeyPatch) -> None:
    z, bar = np.random.default_rng(0).random((2, 3), dtype=np.float32), {"len": 1, "tickvals": None}
    trace = {"type": "heatmap", "z": z, "colorscale": weight_scale(theme), "colorbar": bar}
    layout = {"height": 80, "width": None, "xaxis": {"range": [0, 2], "title": None}}
    checked = new_figure(theme, [trace], layout)
    monkeypatch.setattr("headwise.viz_app.figures.theme.CHECKED", False)
    unchecked = new_figure(theme, [trace], layout)
    first, second = (json.loads(pio.to_json(each, validate=False)) for each in (checked, unchecked))
    for each in (first, second):
        del each["layout"]["template"]  # Plotly writes an empty one in another way
    assert first == second


# Selecting


def test_cells_have_invisible_targets_also_when_selected_and_frames_in_the_accent_colour() -> None:
    targets = [Target(0, 1, "a", "first"), Target(2, 3, "b", "second")]
    given = {"limits": (0, 1), "scale": weight_scale(DARK), "theme": DARK}
    drawn = selectable_cells(np.zeros((4, 3), np.float32), targets, **given, selected="b")
    shapes = [*drawn[2], vertical_line(3, theme=DARK)]
    figure = new_figure(DARK, drawn[:2], {"shapes": shapes})
    markers = figure.data[1]
    assert (list(markers.x), list(markers.y)) == ([0, 2], [1, 3])
    assert (list(markers.customdata), list(markers.text)) == (["a", "b"], ["first", "second"])
    opacities = {part.marker.opacity for part in (markers, markers.selected, markers.unselected)}
    assert opacities == {0}
    places = [(shape.x0, shape.x1, shape.y0, shape.y1) for shape in figure.layout.shapes]
    assert places == [(1.5, 2.5, 2.5, 3.5), (3, 3, 0, 1)]
    assert {shape.line.color for shape in figure.layout.shapes} == {DARK.accent}


WHILE_PANDAS_LOADS = """
import sys, threading
from headwise.viz_app.figures.theme import LIGHT, new_figure
sys.path.insert(0, sys.argv[1])
loading = threading.Thread(target=__import__, args=["pandas"])
loading.start()
while "pandas" not in sys.modules:
    pass
new_figure(LIGHT, [{"type": "bar", "x": [1, 2]}])
"""


def test_a_figure_waits_for_pandas_that_another_thread_is_loading(tmp_path: Path) -> None:
    """Plotly would look for its classes, which are not there yet."""
    slow = "import time; time.sleep(1); Series = Index = DataFrame = type('Any', (), {})"
    (tmp_path / "pandas.py").write_text(slow)
    command = [sys.executable, "-c", WHILE_PANDAS_LOADS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
