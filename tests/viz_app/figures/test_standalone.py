"""The page that stands by itself, as HTML; tests/browser has it as people see it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES, KIND_NOTES
from viz_app.figures.maps import attention_map
from viz_app.figures.mosaic import mosaic
from viz_app.figures.standalone import Part, standalone
from viz_app.figures.theme import DARK, LIGHT, Theme
from viz_app.figures.tokens import token_row
from viz_app.records import KINDS, Floats, Trace
from viz_app.report import to_html
from viz_app.trace import run_trace

HOSTILE = "</script><b onclick='x'>&amp; {{TITLE}} {{PLOTLY}} }} <!--<script>\u2028\"]]>"
LINKS = {"src", "href", "srcset", "action", "data", "poster"}


class Reader(HTMLParser):
    """Tags with their attributes, scripts by their ids, and texts by their elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        scripts = [attributes for tag, attributes in self.tags if tag == "script"]
        at = [attributes.get("id") for attributes in scripts].index("data")
        assert scripts[at]["type"] == "application/json"
        return json.loads(self.texts["script"][at])

    def maps(self, kind: str) -> Floats:
        """(L, H, rows, columns), as the script will have them."""
        part = self.data[kind]
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


def test_the_script_of_plotly_is_in_it_once_and_nothing_comes_from_elsewhere(
    trace: Trace,
) -> None:
    page = to_html(trace).decode()
    assert page.count(get_plotlyjs()) == 1
    shown = Reader(page)
    own = page.replace(get_plotlyjs(), "")  # it names hosts of maps, which nobody asks for
    assert "http" not in own
    assert not re.search(r"url\(|@import", "".join(shown.texts["style"]))
    assert [attributes for tag, attributes in shown.tags if LINKS & set(attributes)] == []
    assert [tag for tag, _ in shown.tags].count("script") == 3
    assert not {"link", "img", "iframe", "base"} & {tag for tag, _ in shown.tags}


def test_every_text_is_text() -> None:
    harmless, shown = Reader(page_of("a")), Reader(page_of(HOSTILE))
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


def test_texts_inside_the_script_come_back() -> None:
    page = page_of(HOSTILE)
    layout = Reader(page).data["cross"]["large"]["layout"]
    for axis in ("xaxis", "yaxis"):
        assert unescape(layout[axis]["labelalias"]["0"]) == HOSTILE[:21] + "…"
    assert page.count("</script>") == page_of("a").count("</script>")


def test_a_sentence_with_a_place_of_the_template_is_not_filled_in(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    sentence = "{{TITLE}} {{DATA}} </script> <b> & }}"
    trace = run_trace(make_speaker(max_length=50), tokenizers, sentence, "{{PLOTLY}}")
    page = to_html(trace).decode()
    shown = Reader(page)
    assert shown.texts["title"] == [sentence]
    assert sentence in shown.texts["dd"]
    assert "{{PLOTLY}}" in shown.texts["dd"]
    assert page.count(get_plotlyjs()) == 1
    assert set(shown.data) == set(KINDS)


@pytest.mark.parametrize(
    "reading", [Reading(), Reading("words", "consumed", special=False)], ids=["pieces", "words"]
)
def test_it_holds_every_map_to_the_last_bit(trace: Trace, reading: Reading) -> None:
    shown = Reader(to_html(trace, reading=reading).decode())
    assert list(shown.data) == list(KINDS)
    for kind in KINDS:
        expected = make_grid(trace, kind, reading).apply(trace.attention[kind])
        maps = shown.maps(kind)
        assert maps.shape == expected.shape
        np.testing.assert_array_equal(maps, expected.astype(np.float32))
    if reading == Reading():
        np.testing.assert_array_equal(shown.maps("cross"), trace.attention["cross"])


def test_it_has_a_section_a_kind_and_lists_of_layers_and_heads(trace: Trace) -> None:
    shown = Reader(to_html(trace).decode())
    assert [a["id"] for tag, a in shown.tags if tag == "section"] == list(KINDS)
    assert shown.texts["h2"][:3] == [KIND_NAMES[kind] for kind in KINDS]
    notes = [text for text in shown.texts["p"] if text.strip()]
    assert {KIND_NOTES[kind] for kind in KINDS} <= set(notes)
    lists = [(a["data-kind"], a["data-of"]) for tag, a in shown.tags if tag == "select"]
    assert lists == [(kind, of) for kind in KINDS for of in ("layer", "head")]
    layers, heads = trace.attention["cross"].shape[:2]
    options = [text.strip() for text in shown.texts["option"]]
    assert options == [str(i + 1) for n in (layers, heads) for i in range(n)] * 3


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_its_colours_are_those_of_the_theme(trace: Trace, theme: Theme) -> None:
    shown = Reader(to_html(trace, theme=theme).decode())
    [style] = shown.texts["style"]
    for name, colour in (("text", theme.text), ("ground", theme.gap), ("accent", theme.accent)):
        assert f"--{name}:{colour}" in style
    for part in shown.data.values():
        assert part["large"]["layout"]["font"]["color"] == theme.text


def test_forty_tokens_of_a_model_as_shipped_are_less_than_six_megabytes(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    model = make_speaker(n_layers=3, n_heads=4, max_length=50)
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
