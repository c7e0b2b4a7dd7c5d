"""``benchmarks/parts/pages.py`` and ``start.py``: what is drawn and received is what was asked."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks import chromium, shown, traffic, typed
from benchmarks.load_server import serving
from benchmarks.parts import start
from benchmarks.runs import sharp_run
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near

FIRST, SECOND = "a b c d e f", "g a b g e d"
TOKENS = 7


@pytest.fixture
def run(tmp_path: Path) -> TrainedRun:
    tokenizers = open_trained_run("copy").tokenizers
    shape = {"tokenizers": tokenizers, "n_layers": 2, "n_heads": 2}
    return sharp_run(tmp_path, TOKENS, **shape)


def traced(run: TrainedRun, sentence: str) -> Trace:
    return run_trace(load_weights(run, 0).model, run.tokenizers, sentence)


def test_translations_are_as_long_as_their_sentences(run: TrainedRun) -> None:
    for sentence in (FIRST, SECOND):
        trace = traced(run, sentence)
        assert len(trace.source) == len(trace.consumed) == TOKENS


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


def in_a_browser(drive: Callable[[Callable[[], object]], None]) -> None:
    """Drive browsers in a thread: other tests may have left a running loop in this one."""
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium on the path")

    def apart() -> None:
        with chromium.chromium() as launch:
            drive(launch)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(apart).result()


def test_a_sentence_is_drawn_and_its_bytes_are_counted(run: TrainedRun) -> None:
    def drive(launch: Callable[[], object]) -> None:
        checkpoints = {"HEADWISE_CHECKPOINTS": str(run.folder.parent)}
        with patch.dict(os.environ, checkpoints), serving() as server:
            page = typed.TypedPage(launch(), server.address, run, FIRST)
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

    in_a_browser(drive)


def test_seconds_are_counted_from_the_key_to_what_it_leads_to() -> None:
    def drive(launch: Callable[[], object]) -> None:
        page = launch().new_page()
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

    in_a_browser(drive)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # BertViz leaves its files open
def test_bertviz_is_given_the_same_arrays(run: TrainedRun) -> None:
    pytest.importorskip("bertviz")
    from benchmarks.peers.bertviz import lines_of, page_of

    trace = traced(run, FIRST)
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


def test_findings_say_what_was_not_drawn() -> None:
    pytest.importorskip("bertviz")
    from benchmarks.parts import pages

    message = traffic.Message("plotly_chart large", 30, False)
    measured = {
        tokens: pages.PageTimes(
            [typed.Drawn(seconds, 60 * tokens, (message, message)) for seconds in (0.1, 0.3, 0.9)],
            [1_000.0 * tokens],
            [3.0] if tokens < 100 else [float("inf")],
        )
        for tokens in (20, 50, 100, 200)
    }
    findings = pages.findings_of(measured, {"another head": 2_000_000})
    table, _, messages = findings.tables
    assert table.rows[0] == (20, 1_200, 20_000, 0.06, 0.3, near(0.84), 3.0, 1)
    assert table.rows[3][-2:] == ("not drawn in 60 s", 1)
    assert messages.rows == (("plotly_chart large", 60),)
    assert [rule.held for rule in findings.rules] == [False, False, True, True]
    assert findings.rules[1].value == 2_000_000


def test_times_of_imports_are_summed_by_package() -> None:
    log = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       120 |        120 |   torch._C\n"
        "a warning\n"
        "import time:     2000 |       2120 | torch\n"
        "import time:       500 |        500 | json\n"
    )
    times = start.times_of(log)
    assert times == near({"torch": 0.00212, "json": 0.0005})
