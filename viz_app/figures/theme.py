"""Every colour of the app, for light and dark, and what all Plotly figures have in common.

Scales are safe for colour-blind eyes: one hue from pale to deep for weights, orange to blue for
differences. Weights are always drawn on the fixed range 0 to 1; the scale gives small weights more
of its colours (by a square root), and its legend says so truthfully.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import plotly.graph_objects as go

Scale = tuple[tuple[float, str], ...]
Properties = dict[str, Any]  # properties of a part of a figure, as Plotly's JSON has them

CHECKED = False  # whether Plotly checks each property of a figure; tests set it

ALLOWED = 0.25  # where on the scale of weights the cells of a mask that are allowed are coloured


@dataclass(frozen=True)
class Theme:
    """A theme has all colours of the app, as ``#rrggbb``."""

    text: str
    muted: str
    line: str
    accent: str
    weights: tuple[str, ...]  # from 0 to 1, evenly spaced in the square root
    difference: tuple[str, ...]  # colours of differences from -1 over 0 to 1, evenly spaced
    masked: str  # cells that the mask forbids; not on either scale
    background: str  # the page; it shows between the maps of a mosaic
    on_weight: tuple[str, str]  # text on their shades, of which one has contrast
    series: tuple[str, ...]  # lines of a chart (Okabe and Ito 2008)


LIGHT = Theme(
    text="#1f2430",
    muted="#5c6370",
    line="#c9cdd6",
    accent="#a13a08",
    weights=("#ecf1f9", "#d3e2f4", "#9dc3e6", "#5b9bd0", "#2a6fb0", "#0e4687", "#06254f"),
    difference=("#8a3b00", "#d9822b", "#f7d9b5", "#f7f7f7", "#b9d3ee", "#3c7fc0", "#0b3c78"),
    masked="#dcdcdc",
    background="#ffffff",
    on_weight=("#000000", "#ffffff"),
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
)
DARK = Theme(
    text="#e8eaf0",
    muted="#a3a9b8",
    line="#444b5a",
    accent="#ffb04d",
    weights=("#19202f", "#123252", "#14557f", "#1f7fa3", "#4aabb5", "#9ad6bd", "#f6f7c4"),
    difference=("#ffb45e", "#c9731b", "#6b4117", "#171b24", "#1c4670", "#3f8fd0", "#a5d8ff"),
    masked="#3b3f48",
    background="#0e1117",
    on_weight=("#000000", "#ffffff"),
    series=("#56b4e9", "#e69f00", "#2fc296", "#e59ac4", "#f0e442", "#e8722e"),
)


def theme_named(name: str | None) -> Theme:
    """Return the dark theme for "dark", else the light one."""
    return DARK if name == "dark" else LIGHT


def other_theme(theme: Theme) -> Theme:
    """Return the theme that this one is not: a picture may be saved in either."""
    return LIGHT if theme is DARK else DARK


def page_colours(theme: Theme) -> dict[str, str]:
    """Return the colours that all HTML and all components use, by their names in styles."""
    named = {name: getattr(theme, name) for name in ("text", "muted", "line", "accent")}
    return named | {"ground": theme.background}


def page_style(theme: Theme) -> dict[str, str]:
    """Return the colours that the style of all pages uses: also those of the cells of a mask."""
    seen = {"allowed": weight_colour(theme, ALLOWED), "on-allowed": text_on_weight(theme, ALLOWED)}
    return page_colours(theme) | {"masked": theme.masked} | seen


def weight_scale(theme: Theme) -> Scale:
    """Return Plotly's colour scale of weights from 0 to 1."""
    last = len(theme.weights) - 1
    return tuple(((i / last) ** 2, colour) for i, colour in enumerate(theme.weights))


def by_root(name: str) -> str:
    """Return the name of what a scale of ``weight_scale`` shows, which is not linear."""
    return f"{name} (√ scale)"


def difference_scale(theme: Theme) -> Scale:
    """Return Plotly's colour scale of signed differences."""
    last = len(theme.difference) - 1
    return tuple((i / last, colour) for i, colour in enumerate(theme.difference))


def weight_colour(theme: Theme, weight: float) -> str:
    """Return the colour of a weight from 0 to 1 on the scale, as ``#rrggbb``."""
    place = min(max(weight, 0.0), 1.0) ** 0.5 * (len(theme.weights) - 1)
    low = min(int(place), len(theme.weights) - 2)
    a, b = (bytes.fromhex(theme.weights[i][1:]) for i in (low, low + 1))
    return "#" + bytes(round(x + (y - x) * (place - low)) for x, y in zip(a, b, strict=True)).hex()


def text_on_weight(theme: Theme, weight: float) -> str:
    """Return which of the theme's two text colours has more contrast on ``weight_colour``."""
    ground = _luminance(weight_colour(theme, weight))

    def contrast(text: str) -> float:  # ratio of the two, as WCAG 2.2 has it
        light = _luminance(text)
        return (max(light, ground) + 0.05) / (min(light, ground) + 0.05)

    return max(theme.on_weight, key=contrast)


def _luminance(colour: str) -> float:
    """Compute the relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    channels = (value / 255 for value in bytes.fromhex(colour[1:]))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def new_figure(
    theme: Theme, data: Sequence[Properties], layout: Mapping[str, Any] | None = None
) -> go.Figure:
    """Make a figure in the theme: transparent, small margins, no zoom, no legend.

    It is made in one go of plain data, without Plotly's checks of each property, which take five
    times as long as the rest. (Tests make the same figures with them.) Traces, each with its
    ``type``, and the layout are as Plotly's JSON has them; the layout is added to what all figures
    and all axes have.
    """
    layout = layout or {}
    axis = {
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "fixedrange": True,
        "gridcolor": theme.line,
        "tickfont": {"color": theme.text, "size": 12},
        "title": {"font": {"color": theme.muted, "size": 12}},
    }
    common = {
        "template": {},  # a figure made without one first reads Plotly's own
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": theme.text, "size": 12, "family": "Source Sans, sans-serif"},
        "colorway": theme.series,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hoverlabel": {"font": {"size": 13}},
        "modebar": {"bgcolor": theme.background, "color": theme.muted, "activecolor": theme.text},
        "showlegend": False,
        "dragmode": False,
    }
    axes = ["xaxis", "yaxis", *(name for name in layout if name.startswith(("xaxis", "yaxis")))]
    shown = _given(_merged(common | dict.fromkeys(axes, axis), layout))
    if "pandas" in sys.modules:
        # Plotly uses it where it is loaded, also if another page's thread is only just loading it:
        # this waits until that has ended.
        import_module("pandas")
    return go.Figure([_given(trace) for trace in data], shown, _validate=CHECKED)


def _given(properties: Mapping[str, Any]) -> Properties:
    """Return properties without those that are None, which Plotly takes for not given."""
    return {
        name: _given(value) if isinstance(value, dict) else value
        for name, value in properties.items()
        if value is not None
    }


def _merged(properties: Mapping[str, Any], others: Mapping[str, Any]) -> Properties:
    """Return properties with others added; groups that both have are merged."""
    both = {
        name: _merged(properties[name], value)
        for name, value in others.items()
        if isinstance(value, dict) and isinstance(properties.get(name), dict)
    }
    return {**properties, **others, **both}


def note(markup: str, theme: Theme, **place: Any) -> Properties:
    """Return an annotation in small grey letters; the text is Plotly's markup."""
    font = {"color": theme.muted, "size": 12}
    return {"text": markup, "showarrow": False, "font": font, **place}


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def escape_plotly(text: str) -> str:
    """Escape text, so that Plotly reads no HTML, entity, formula or template in it."""
    return text.translate(_ESCAPED).replace("%{", "%&#123;")


def escape_lines(lines: Iterable[str]) -> str:
    """Escape texts, as ``escape_plotly`` does, and put each on a line of its own."""
    return "<br>".join(map(escape_plotly, lines))
