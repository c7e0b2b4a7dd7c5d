"""A trace as a page that stands by itself, as HTML; tests/browser has it as people see it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from headwise.model.interface import KINDS
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import Turned
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import part_label, token_label, token_labels
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.html import token_row
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.figures.standalone import Drawing, Part, Table, standalone
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.report import provenance, to_html
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.word.account import run_account
from headwise.viz_app.why.word.effects import run_whole_effects
from headwise.viz_app.why.word.report import account_to_html
from tests.floats import rounding
from tests.viz_app.pages.driver import array

if TYPE_CHECKING:
    from tests.viz_app.conftest import HtmlPage

ReadHtml = Callable[[str], "HtmlPage"]

READINGS = (GridOptions(), GridOptions(units="words", rows_by="consumed", special=False))
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


def page_of(text: str) -> str:
    """A page all of whose texts are one, with maps (2, 3, 5, 7)."""
    maps = np.random.default_rng(3).random((2, 3, 5, 7), dtype=np.float32)
    labels = {"rows": [text] * 5, "columns": [text] * 7, "row_title": text, "column_title": text}
    large = attention_map(maps[0, 0], **labels, theme=LIGHT)
    drawn = mosaic(maps, rows=[text] * 5, columns=[text] * 7, theme=LIGHT)
    part = Part(text, text, drawn, (5, 7), large, maps)
    return standalone(
        title=text,
        tokens=[token_row([text], theme=LIGHT)],
        parts={"cross": part, "drawing": Drawing(text, text, large)},
        table=Table(text, [text] * 5, [[text] * 5] * 2),
        facts={text: text},
        theme=LIGHT,
    )


# What identifies a trace, and what a page says


def test_settings_identify_a_trace(trace: Trace) -> None:
    expected = {"run": "tiny", "checkpoint": "60", "weights, sha256": "5ha", "target": "given"}
    assert provenance(trace) == expected | {"heads switched off": "none"}
    off = dict.fromkeys((("cross", 1, 2), ("encoder_self", 0, 0), ("decoder_self", 0, 1)), 0.0)
    rows = [(("cross", 0, 1), 2, 4), (("encoder_self", 0, 1), 0, None)]
    turned = Turned.of(off | {("cross", 0, 0): 1.5}, rows)
    said = provenance(replace(trace, step=12_000, forced=False, turned=turned))
    assert (said["checkpoint"], said["target"]) == ("12,000", "the model's own, greedy")
    assert said["heads switched off"] == "Cross 2.3, Encoder self 1.1, Decoder self 1.2"
    assert said["heads turned"] == "Cross 1.1 × 1.5"
    assert said["rows pinned"] == "Cross 1.2 row 3 onto key 5, Encoder self 1.2 row 1 onto the mean"


def test_a_page_says_what_was_predicted_at_each_step_with_its_settings(
    read_html: ReadHtml, trace: Trace, theme: Theme
) -> None:
    shown = read_html(to_html(trace, grid_options=READINGS[1], theme=theme).decode())
    cells, predictions = shown.texts["td"], trace.predictions
    steps = [cells[start : start + 5] for start in range(0, len(cells), 5)]
    assert [row[0] for row in steps] == token_labels(trace.consumed)
    assert [row[1] for row in steps] == token_labels(trace.predicted)
    assert [row[2] for row in steps] == [f"{np.exp(p):.3f}" for p in predictions.log_probability]
    assert [row[3] for row in steps] == [f"{rank:,}" for rank in predictions.rank]
    for t, row in enumerate(steps):
        likeliest = zip(trace.top_tokens[t], predictions.top_log_probability[t], strict=True)
        expected = [f"{token_label(token)} {np.exp(p):.2f}" for token, p in likeliest][:5]
        assert row[4].split(" · ") == expected
    facts = dict(zip(shown.texts["dt"], shown.texts["dd"], strict=True))
    assert facts == provenance(trace) | {
        "source": trace.source_text,
        "translation": trace.target_text,
        "units": "words",
        "decoder rows by": "consumed",
        "special tokens": "left out",
    }
    assert shown.texts["title"] == shown.texts["h1"] == [trace.source_text]
    assert shown.texts["bdi"] == [*token_labels(trace.source), *token_labels(trace.predicted)]
    colours = f"--text:{theme.text};--muted:{theme.muted};--line:{theme.line}"
    colours += f";--accent:{theme.accent};--ground:{theme.background}"
    assert colours in shown.texts["style"][0]
    for part in data_of(shown).values():
        assert part["large"]["layout"]["font"]["color"] == theme.text


def test_the_page_holds_every_map_bit_for_bit(read_html: ReadHtml, trace: Trace) -> None:
    tokens, words = (read_html(to_html(trace, grid_options=r).decode()) for r in READINGS)
    for kind in KINDS:
        np.testing.assert_array_equal(maps_of(tokens, kind), trace.attention[kind])
        expected = make_grid(trace, kind, READINGS[1]).apply(trace.attention[kind])
        np.testing.assert_array_equal(maps_of(words, kind), expected.astype(np.float32))


def test_pictures_of_an_account(read_html: ReadHtml, trace: Trace, trained: Transformer) -> None:
    account = run_account(trained, trace, 3, None)
    words = ("<b>a", "{{TITLE}}")
    effects = run_whole_effects(trained, trace, 3, None)
    page = account_to_html(trace, account, effects, words=words, smallest=0.2, feed_forward=2)
    shown = read_html(page.decode())
    figures = {key: part["figure"] for key, part in data_of(shown).items()}

    def bars(key: str, axis: str = "x") -> np.ndarray:
        return array(figures[key]["data"][0][axis])

    bound = rounding(np.float32, 40.0)
    np.testing.assert_allclose(bars("parts").sum(), account.difference, atol=40 * bound)
    assert (np.abs(bars("parts")[:-1]) >= 0.2).all()
    np.testing.assert_allclose(bars("waterfall", "y")[-1], account.difference, atol=40 * bound)
    for kind in ("cross", "decoder_self"):
        cells = account.parts.heads[kind]
        drawn = array(figures[kind]["data"][0]["z"])
        np.testing.assert_allclose(drawn[:-2, :-2], cells.reshape(6, -1), atol=bound)
        np.testing.assert_allclose(drawn[-1, -1], cells.sum(), atol=bound)
    cross = account.parts.heads["cross"].sum()
    np.testing.assert_allclose(bars("encoder").sum(), cross, atol=40 * bound)
    neurons = account.parts.neurons[1].sum()
    np.testing.assert_allclose(bars("neurons").sum(), neurons, atol=40 * bound)
    assert shown.texts["title"] == ["Why “<b>a”, and not “{{TITLE}}”?"]
    cells = shown.texts["td"]
    rows = {cells[at]: cells[at + 1 : at + 3] for at in range(0, len(cells), 3)}
    values = [float(rows[part_label(name)][0]) for name, _ in account.named()]
    assert sum(values) == pytest.approx(account.difference, abs=5e-5 * len(values) + 40 * bound)
    assert rows["Token"][1] == ""
    assert float(rows["Cross 2.1"][1]) == pytest.approx(effects["decoder"]["cross.2.1"], abs=1e-4)
    encoder = account.from_encoder.sums()["feed_forward.1"], effects["encoder"]["feed_forward.1"]
    assert [*map(float, rows["Encoder feed-forward 1"])] == pytest.approx(encoder, abs=1e-4)
    facts = dict(zip(shown.texts["dt"], shown.texts["dd"], strict=True))
    assert facts["asked"] == "“<b>a” against “{{TITLE}}” at token 4"
    assert "the divisor of the last norm is held" in facts["direct effect"]
    assert "No training met that zero." in facts["whole effect"]
    assert provenance(trace).items() <= facts.items()
    assert page.decode().count(get_plotlyjs()) == 1


# Safety


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


def test_no_text_is_read_as_html_or_ends_the_script(read_html: ReadHtml) -> None:
    harmless, shown = read_html(page_of("a")), read_html(page_of(HOSTILE))
    assert [(t, set(a)) for t, a in shown.tags] == [(t, set(a)) for t, a in harmless.tags]
    assert shown.texts["title"] == [HOSTILE]
    for element, times in {
        "h1": 1,
        "h2": 4,
        "th": 5,
        "bdi": 1,
        "td": 10,
        "dt": 1,
        "dd": 1,
        "p": 3,
    }.items():
        expected = [
            text.replace("a", HOSTILE) if text.strip() == "a" else text
            for text in harmless.texts[element]
        ]
        assert shown.texts[element] == expected, element
        assert len(expected) == times
        assert HOSTILE in [text.strip() for text in expected]
    data = data_of(shown)
    for figure in (data["cross"]["large"], data["drawing"]["figure"]):
        for axis in ("xaxis", "yaxis"):
            assert unescape(figure["layout"][axis]["labelalias"]["0"]) == HOSTILE[:21] + "…"
    assert page_of(HOSTILE).count("</script>") == page_of("a").count("</script>")


def test_a_page_of_40_tokens_is_below_6_megabytes(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    model = make_speaker(n_encoder_layers=3, n_decoder_layers=3, n_heads=4, max_length=50)
    source, target = "dog" * 8, "perro" * 5
    while len(tokenizers.encode_source(source)) < 40:
        source += " dog"
    while len(tokenizers.encode_target(target)) < 41:
        target += " perro"
    trace = run_trace(model, tokenizers, source, target)
    assert trace.attention["cross"].shape == (3, 4, 40, 40)
    assert len(get_plotlyjs()) < len(to_html(trace)) < 6_000_000


def test_a_sentence_like_a_placeholder_is_not_filled_in(
    read_html: ReadHtml, make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    sentence = "{{TITLE}} {{DATA}} </script> <b> & }}"
    trace = run_trace(make_speaker(max_length=50), tokenizers, sentence, "{{PLOTLY}}")
    page = to_html(trace).decode()
    shown = read_html(page)
    assert shown.texts["title"] == [sentence]
    assert {sentence, "{{PLOTLY}}"} <= set(shown.texts["dd"])
    assert page.count(get_plotlyjs()) == 1
    assert list(data_of(shown)) == list(KINDS)
