"""A trace as a page for people: what identifies it, and what the page says."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

from viz_app.analysis.grid import Reading
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.figures.theme import DARK
from viz_app.records import Trace
from viz_app.report import settings, to_html


class Texts(HTMLParser):
    """Texts of a page, by the element that they stand in."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.within: dict[str, list[str]] = {}
        self._open = ""
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.within.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.within[self._open][-1] += data

    @property
    def facts(self) -> dict[str, str]:
        return dict(zip(self.within["dt"], self.within["dd"], strict=True))


def test_settings_are_said_for_people(trace: Trace) -> None:
    assert settings(trace) == {
        "run": "tiny",
        "step": "60",
        "weights, sha256": "5ha",
        "target": "given",
        "heads switched off": "none",
    }


def test_settings_name_heads_that_were_off(trace: Trace) -> None:
    off = (("cross", 1, 2), ("encoder_self", 0, 0), ("decoder_self", 0, 1))
    said = settings(replace(trace, step=12_000, forced=False, switched_off=off))
    assert said["step"] == "12,000"
    assert said["target"] == "the model's own, greedy"
    assert said["heads switched off"] == "Cross 2.3, Encoder self 1.1, Decoder self 1.2"


def test_a_page_says_what_was_predicted_at_each_step(trace: Trace) -> None:
    cells = Texts(to_html(trace)).within["td"]
    steps = [cells[start : start + 5] for start in range(0, len(cells), 5)]
    predictions = trace.predictions
    assert [row[0] for row in steps] == piece_labels(trace.consumed)
    assert [row[1] for row in steps] == piece_labels(trace.predicted)
    assert [row[2] for row in steps] == [f"{np.exp(p):.3f}" for p in predictions.log_probability]
    assert [row[3] for row in steps] == [f"{rank:,}" for rank in predictions.rank]
    for t, row in enumerate(steps):
        likeliest = zip(trace.top_pieces[t], predictions.top_log_probability[t], strict=True)
        expected = [f"{piece_label(piece)} {np.exp(p):.2f}" for piece, p in likeliest][:5]
        assert row[4].split(" · ") == expected


def test_a_page_says_what_it_is(trace: Trace) -> None:
    reading = Reading(units="words", lead="consumed", special=False)
    shown = Texts(to_html(trace, reading=reading, theme=DARK))
    assert shown.facts == settings(trace) | {
        "source": trace.source_text,
        "translation": trace.target_text,
        "units": "words",
        "decoder rows by": "consumed",
        "special tokens": "left out",
    }
    assert Texts(to_html(trace)).facts["special tokens"] == "shown"
    assert shown.within["title"] == shown.within["h1"] == [trace.source_text]
    assert shown.within["bdi"] == [*piece_labels(trace.source), *piece_labels(trace.predicted)]
    assert DARK.gap in shown.within["style"][0]
