"""``benchmarks/parts/pages.py``: what is drawn and received is what was asked."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from playwright.sync_api import Browser
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks import chromium, shown, traffic, typed
from benchmarks.load_server import serving
from benchmarks.runs import sharp_run
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace

FIRST, SECOND = "a b c d e f", "g a b g e d"
TOKENS = 7


@pytest.fixture
def run(tmp_path: Path) -> TrainedRun:
    tokenizers = open_trained_run("copy").tokenizers
    shape = {"tokenizers": tokenizers, "n_layers": 2, "n_heads": 2}
    return sharp_run(tmp_path, TOKENS, **shape)


def traced(run: TrainedRun, sentence: str) -> Trace:
    return run_trace(load_weights(run, 0).model, run.tokenizers, sentence)


def test_messages_are_read_from_frames() -> None:
    chart, text, over = ForwardMsg(), ForwardMsg(), ForwardMsg()
    chart.delta.new_element.plotly_chart.id = "$$ID-0a1b-top-tokens"
    chart.delta.new_element.plotly_chart.spec = "ä" * 500
    text.delta.new_element.markdown.body = "words"
    over.script_finished = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
    sent = [message.SerializeToString() for message in (chart, text, over)]
    frames = [{"opcode": 2, "payloadData": base64.b64encode(data).decode()} for data in sent]
    messages = [traffic.read(traffic.payload_of(frame)) for frame in frames]
    names = ["plotly_chart top-tokens", "markdown", "script_finished"]
    assert [message.name for message in messages] == names
    assert [message.size for message in messages] == list(map(len, sent))
    assert messages[0].size > 1_000
    assert [message.last for message in messages] == [False, False, True]
    over.script_finished = ForwardMsg.FINISHED_EARLY_FOR_RERUN
    assert not traffic.read(over.SerializeToString()).last
    assert traffic.payload_of({"opcode": 1, "payloadData": "é"}) == b"\xc3\xa9"


def test_a_sentence_is_drawn_and_its_bytes_are_counted(run: TrainedRun, browser: Browser) -> None:
    checkpoints = {"HEADWISE_CHECKPOINTS": str(run.folder.parent)}
    with patch.dict(os.environ, checkpoints), serving() as server:
        page = typed.TypedPage(browser, server.address, run, FIRST)
        drawn = page.type(SECOND)
        names = [message.name for message in drawn.messages]
        assert {"plotly_chart large", "plotly_chart mosaic", "script_finished"} <= {*names}
        assert drawn.received >= sum(message.size for message in drawn.messages) > 10_000
        assert drawn.seconds > 0
        for sentence in (FIRST, SECOND):
            expected = shown.given(traced(run, sentence), ("cross", 1, 0), {})
            assert page.page.evaluate(shown.SHOWN, expected) == (sentence == SECOND)
            expected["before"] = page.page.evaluate(shown.PICTURES)
            assert not page.page.evaluate(shown.SHOWN, expected)
        clicked = page.choose("head", "2", ("cross", 1, 1))
        assert 0 < clicked.received < drawn.received
        page.scroll_to_steps()
        assert 0 < page.received_for("next") < drawn.received
        assert server.faults() == []
        page.page.context.close()


def test_seconds_are_counted_from_the_key_to_what_it_leads_to(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<input><p>before</p>")
    page.evaluate(
        """() => document.querySelector('input').addEventListener('keydown', () => setTimeout(
            () => { document.querySelector('p').textContent = 'after'; }, 300))"""
    )
    condition = "text => document.querySelector('p').textContent === text"
    chromium.watch(page, condition, "after")
    page.locator("input").press("Enter")
    assert chromium.drawn_after(page) > 0.3
    chromium.watch(page, condition, "before")
    page.locator("input").press("Enter")
    with pytest.raises(TimeoutError, match="not drawn"):
        chromium.drawn_after(page, patience=0.05)
    page.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # BertViz leaves its files open
def test_bertviz_is_given_the_same_arrays(run: TrainedRun) -> None:
    pytest.importorskip("bertviz")
    from benchmarks.peers.bertviz import lines_of, page_of

    trace = traced(run, FIRST)
    assert len(trace.source) == len(trace.consumed) == TOKENS
    page = page_of(trace)
    views = [json.loads(found) for found in re.findall(r"params = (\{.*\});", page)]
    assert len(views) == 2
    for view in views:
        for kind, given in zip(
            ("encoder_self", "decoder_self", "cross"), view["attention"], strict=True
        ):
            np.testing.assert_array_equal(np.float32(given["attn"]), trace.attention[kind])
            assert [len(given[f"{side}_text"]) for side in ("left", "right")] == [TOKENS, TOKENS]
    assert lines_of(trace) == (2 * 2 + 2) * TOKENS * TOKENS
