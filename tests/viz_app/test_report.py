"""A trace as a page for people: what identifies it, and what the page says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from headwise.viz_app.analysis.grid import GridOptions
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.figures.theme import DARK
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import provenance, to_html

if TYPE_CHECKING:
    from tests.viz_app.conftest import HtmlPage

ReadHtml = Callable[[str], "HtmlPage"]


def facts_of(page: HtmlPage) -> dict[str, str]:
    """The list of facts that the page ends with."""
    return dict(zip(page.texts["dt"], page.texts["dd"], strict=True))


def test_settings_identify_a_trace(trace: Trace) -> None:
    assert provenance(trace) == {
        "run": "tiny",
        "step": "60",
        "weights, sha256": "5ha",
        "target": "given",
        "heads switched off": "none",
    }


def test_settings_name_the_heads_switched_off(trace: Trace) -> None:
    off = (("cross", 1, 2), ("encoder_self", 0, 0), ("decoder_self", 0, 1))
    said = provenance(replace(trace, step=12_000, forced=False, ablated=off))
    assert said["step"] == "12,000"
    assert said["target"] == "the model's own, greedy"
    assert said["heads switched off"] == "Cross 2.3, Encoder self 1.1, Decoder self 1.2"


def test_a_page_says_what_was_predicted_at_each_step(read_html: ReadHtml, trace: Trace) -> None:
    cells = read_html(to_html(trace).decode()).texts["td"]
    steps = [cells[start : start + 5] for start in range(0, len(cells), 5)]
    predictions = trace.predictions
    assert [row[0] for row in steps] == token_labels(trace.consumed)
    assert [row[1] for row in steps] == token_labels(trace.predicted)
    assert [row[2] for row in steps] == [f"{np.exp(p):.3f}" for p in predictions.log_probability]
    assert [row[3] for row in steps] == [f"{rank:,}" for rank in predictions.rank]
    for t, row in enumerate(steps):
        likeliest = zip(trace.top_tokens[t], predictions.top_log_probability[t], strict=True)
        expected = [f"{token_label(token)} {np.exp(p):.2f}" for token, p in likeliest][:5]
        assert row[4].split(" · ") == expected


def test_a_page_lists_its_settings_and_sentences(read_html: ReadHtml, trace: Trace) -> None:
    reading = GridOptions(units="words", rows_by="consumed", special=False)
    shown = read_html(to_html(trace, grid_options=reading, theme=DARK).decode())
    assert facts_of(shown) == provenance(trace) | {
        "source": trace.source_text,
        "translation": trace.target_text,
        "units": "words",
        "decoder rows by": "consumed",
        "special tokens": "left out",
    }
    assert facts_of(read_html(to_html(trace).decode()))["special tokens"] == "shown"
    assert shown.texts["title"] == shown.texts["h1"] == [trace.source_text]
    assert shown.texts["bdi"] == [*token_labels(trace.source), *token_labels(trace.predicted)]
    assert DARK.background in shown.texts["style"][0]
