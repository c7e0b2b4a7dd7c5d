"""The page that stands by itself, as HTML; tests/browser has it as people see it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from headwise.model.interface import KINDS
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, KIND_NOTES
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.figures.mosaic import mosaic
from headwise.viz_app.figures.standalone import Part, standalone
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.figures.tokens import token_row
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.sentence import run_trace

if TYPE_CHECKING:
    from tests.viz_app.conftest import HtmlPage

ReadHtml = Callable[[str], "HtmlPage"]

HOSTILE = "</script><b onclick='x'>&amp; {{TITLE}} {{PLOTLY}} }} <!--<script>\u2028\"]]>"
LINKS = {"src", "href", "srcset", "action", "data", "poster"}


def data_of(page: HtmlPage) -> dict[str, Any]:
    """What the page's script reads."""
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    at = [attributes.get("id") for attributes in scripts].index("data")
    assert scripts[at]["type"] == "application/json"
    return json.loads(page.texts["script"][at])


def maps_of(page: HtmlPage, kind: str) -> Floats:
    """Maps (L, H, rows, columns), as the script reads them."""
    part = data_of(page)[kind]
    return np.frombuffer(base64.b64decode(part["maps"]), "<f4").reshape(part["shape"])


def page_of(text: str, *, theme: Theme = LIGHT) -> str:
    """A page all of whose texts are one, with maps (2, 3, 5, 7)."""
    maps = np.random.default_rng(3).random((2, 3, 5, 7), dtype=np.float32)
    large = attention_map(
        maps[0, 0],
        rows=[text] * 5,
        columns=[text] * 7,
        row_title=text,
        column_title=text,
        theme=theme,
    )
    part = Part(text, text, mosaic(maps, theme=theme, selected=(0, 0)), (5, 7), large, maps)
    return standalone(
        title=text,
        tokens=[token_row([text], theme=theme)],
        steps=[[text] * 5] * 2,
        parts={"cross": part},
        facts={text: text},
        theme=theme,
    )


def test_the_page_holds_plotly_once_and_loads_nothing(read_html: ReadHtml, trace: Trace) -> None:
    page = to_html(trace).decode()
    assert page.count(get_plotlyjs()) == 1
    shown = read_html(page)
    own = page.replace(get_plotlyjs(), "")  # it names hosts of maps, which nobody asks for
    assert "http" not in own
    assert not re.search(r"url\(|@import", "".join(shown.texts["style"]))
    assert [attributes for tag, attributes in shown.tags if LINKS & set(attributes)] == []
    assert [tag for tag, _ in shown.tags].count("script") == 3
    assert not {"link", "img", "iframe", "base"} & {tag for tag, _ in shown.tags}


def test_no_text_is_read_as_html(read_html: ReadHtml) -> None:
    harmless, shown = read_html(page_of("a")), read_html(page_of(HOSTILE))
    assert [(t, set(a)) for t, a in shown.tags] == [(t, set(a)) for t, a in harmless.tags]
    assert shown.texts["title"] == [HOSTILE]
    for element, times in {"h1": 1, "h2": 3, "bdi": 1, "td": 10, "dt": 1, "dd": 1, "p": 2}.items():
        expected = [
            text.replace("a", HOSTILE) if text.strip() == "a" else text
            for text in harmless.texts[element]
        ]
        assert shown.texts[element] == expected, element
        assert len(expected) == times
        assert HOSTILE in [text.strip() for text in expected]


def test_texts_inside_the_script_are_escaped(read_html: ReadHtml) -> None:
    page = page_of(HOSTILE)
    layout = data_of(read_html(page))["cross"]["large"]["layout"]
    for axis in ("xaxis", "yaxis"):
        assert unescape(layout[axis]["labelalias"]["0"]) == HOSTILE[:21] + "…"
    assert page.count("</script>") == page_of("a").count("</script>")


def test_a_sentence_like_a_placeholder_is_not_filled_in(
    read_html: ReadHtml, make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    sentence = "{{TITLE}} {{DATA}} </script> <b> & }}"
    trace = run_trace(make_speaker(max_length=50), tokenizers, sentence, "{{PLOTLY}}")
    page = to_html(trace).decode()
    shown = read_html(page)
    assert shown.texts["title"] == [sentence]
    assert sentence in shown.texts["dd"]
    assert "{{PLOTLY}}" in shown.texts["dd"]
    assert page.count(get_plotlyjs()) == 1
    assert set(data_of(shown)) == set(KINDS)


@pytest.mark.parametrize(
    "reading",
    [GridOptions(), GridOptions("words", "consumed", special=False)],
    ids=["tokens", "words"],
)
def test_the_page_holds_every_map_bit_for_bit(
    read_html: ReadHtml, trace: Trace, reading: GridOptions
) -> None:
    shown = read_html(to_html(trace, grid_options=reading).decode())
    assert list(data_of(shown)) == list(KINDS)
    for kind in KINDS:
        expected = make_grid(trace, kind, reading).apply(trace.attention[kind])
        maps = maps_of(shown, kind)
        assert maps.shape == expected.shape
        np.testing.assert_array_equal(maps, expected.astype(np.float32))
    if reading == GridOptions():
        np.testing.assert_array_equal(maps_of(shown, "cross"), trace.attention["cross"])


def test_each_kind_has_a_section_with_lists_of_layers_and_heads(
    read_html: ReadHtml, trace: Trace
) -> None:
    shown = read_html(to_html(trace).decode())
    assert [a["id"] for tag, a in shown.tags if tag == "section"] == list(KINDS)
    assert shown.texts["h2"][:3] == [KIND_NAMES[kind] for kind in KINDS]
    notes = [text for text in shown.texts["p"] if text.strip()]
    assert {KIND_NOTES[kind] for kind in KINDS} <= set(notes)
    lists = [(a["data-kind"], a["data-of"]) for tag, a in shown.tags if tag == "select"]
    assert lists == [(kind, of) for kind in KINDS for of in ("layer", "head")]
    layers, heads = trace.attention["cross"].shape[:2]
    options = [text.strip() for text in shown.texts["option"]]
    assert options == [str(i + 1) for n in (layers, heads) for i in range(n)] * 3


def test_colours_come_from_the_theme(read_html: ReadHtml, trace: Trace, theme: Theme) -> None:
    shown = read_html(to_html(trace, theme=theme).decode())
    [style] = shown.texts["style"]
    for name, colour in (
        ("text", theme.text),
        ("ground", theme.background),
        ("accent", theme.accent),
    ):
        assert f"--{name}:{colour}" in style
    for part in data_of(shown).values():
        assert part["large"]["layout"]["font"]["color"] == theme.text


def test_a_page_of_40_tokens_is_below_6_megabytes(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    model = make_speaker(n_encoder_layers=3, n_decoder_layers=3, n_heads=4, max_length=50)
    source = next(
        text
        for n in range(100)
        if len(tokenizers.encode_source(text := "the old dog sees a cat " * n + "dog" * 5)) >= 40
    )
    target = next(
        text
        for n in range(100)
        if len(tokenizers.encode_target(text := "el gato no ve al perro " * n + "perro")) >= 41
    )
    trace = run_trace(model, tokenizers, source, target)
    assert trace.attention["cross"].shape[:2] == (3, 4)
    assert min(trace.attention["cross"].shape[2:]) >= 40
    page = to_html(trace)
    assert len(page) < 6_000_000
    assert len(page) > len(get_plotlyjs())
