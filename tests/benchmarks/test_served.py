"""What the benchmarks ask of running servers is answered rightly, and wrong answers are noticed."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from playwright.sync_api import Browser
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks import chromium, load, traffic
from benchmarks.load_server import Server, serving
from benchmarks.load_session import Answer, Expected, apart, connected, faults_of
from benchmarks.models import sharp_run
from benchmarks.pages import TypedPage
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near

CATS, DOGS = "We saw three black cats on the white roof.", "Do you know those dogs?"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve the shipped runs."""
    with serving() as running:
        yield running


def test_two_sessions_are_answered_what_each_has_asked(server: Server) -> None:
    expected = Expected("copy")
    asked = [["c a f e b d g a c e", "b a d e"], ["g", "a b a b c d e f"]]

    async def one(number: int, address: str) -> list[Answer]:
        async with connected(number, expected.head(number), address) as session:
            first, second = asked[number]
            await session.open("copy", first)
            await session.type(second)
            await session.type_over(first, second, after=30)
            return list(session.answers)

    async def both(address: str) -> list[list[Answer]]:
        return await asyncio.gather(one(0, address), one(1, address))

    seen = apart(both(server.address))
    assert server.faults() == []
    for number, answers in enumerate(seen):
        first, second = asked[number]
        sentences = [answer.sentence for answer in answers]
        # The third, overtaken while its page is drawn, may or may not be drawn to the end.
        assert sentences in ([first, second, second], [first, second, first, second])
        for answer in answers:
            right = expected.answer(number, expected.head(number), answer.sentence)
            assert faults_of(answer, right) == []
        assert answers[1].translation == second  # what this run has learnt


def test_all_press_enter_at_the_same_moments(server: Server) -> None:
    expected = Expected("copy")
    sentences = (" ".join(letters) for letters in product("abcdefg", repeat=3))
    arguments = load.LoadArguments(minutes=2 / 60, together=0.5)
    stage = apart(load.drive(server.address, expected, 2, sentences, arguments))
    assert stage.faults == []
    assert stage.answers == 2 + 2 * len(stage.rounds)  # the first were opened by a link
    assert 1 <= len(stage.rounds) <= 5
    assert stage.p50 is not None
    assert max(stage.rounds) >= stage.p50


def test_another_sentences_answer_is_noticed() -> None:
    expected = Expected("en-es")
    head = ("cross", 2, 1)
    cats, dogs = (expected.answer(3, head, text) for text in (CATS, DOGS))
    assert faults_of(cats, expected.answer(3, head, CATS)) == []
    hurt, lost = cats.weights.copy(), cats.weights.copy()
    hurt[0, 0] += 1e-3
    lost[0, 0] = np.nan
    for wrong, faults in (
        (replace(dogs, sentence=CATS), ("translation ", "a map of ")),
        (expected.answer(3, ("cross", 2, 0), CATS), ("another map",)),
        (replace(cats, weights=hurt), ("another map, off by 0.001",)),
        (replace(cats, weights=lost), ("another map",)),
        (replace(cats, weights=None), ("no map",)),
        (replace(cats, problems=("KeyError: 1",)), ("KeyError",)),
    ):
        found = faults_of(wrong, cats)
        assert len(found) == len(faults)
        for one, told in zip(found, faults, strict=True):
            assert one.startswith(f"session 3, {CATS!r}: {told}")


@pytest.mark.parametrize(
    ("memory", "growth", "minutes", "faults"),
    [(2_000, 0.04, 5, 0), (2_100, 0, 5, 1), (900, 0.06, 5, 1), (900, 0.06, 1, 0), (None, 0, 5, 0)],
)
def test_memory_has_a_limit_and_levels_off(
    memory: float | None, growth: float, minutes: float, faults: int
) -> None:
    stage = load.Stage("5 sessions", memory=memory, growth=growth)
    assert len(load.memory_faults(stage, minutes)) == faults
    # Growth is that of the last third over the one before it.
    assert load.growth([1, 100, 50, 100, 100, 99]) == 0
    assert load.growth([1, 2, 100, 90, 110, 105]) == near(0.1, size=1)
    assert load.growth([7, 8]) == 0


# In a browser

FIRST, SECOND = "a b c d e f", "g a b g e d"
TOKENS = 7


@pytest.fixture
def run(tmp_path: Path) -> TrainedRun:
    tokenizers = open_trained_run("copy").tokenizers
    return sharp_run(tmp_path, TOKENS, tokenizers=tokenizers, n_layers=2, n_heads=2)


def traced(run: TrainedRun, sentence: str) -> Trace:
    return run_trace(load_weights(run, 0).model, run.tokenizers, sentence)


def test_messages_are_read() -> None:
    chart, over = ForwardMsg(), ForwardMsg()
    chart.delta.new_element.plotly_chart.id = "$$ID-0a1b-top-tokens"
    over.script_finished = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
    sent = [message.SerializeToString() for message in (chart, over)]
    messages = [traffic.read(data) for data in sent]
    assert [message.name for message in messages] == ["plotly_chart top-tokens", "script_finished"]
    assert [message.size for message in messages] == list(map(len, sent))
    assert [message.last for message in messages] == [False, True]
    over.script_finished = ForwardMsg.FINISHED_EARLY_FOR_RERUN
    assert not traffic.read(over.SerializeToString()).last


def test_a_sentence_is_drawn_and_its_bytes_are_counted(run: TrainedRun, browser: Browser) -> None:
    checkpoints = {"HEADWISE_CHECKPOINTS": str(run.folder.parent)}
    with patch.dict(os.environ, checkpoints), serving() as server:
        page = TypedPage(browser, server.address, run, FIRST)
        drawn = page.type(SECOND)
        names = {message.name for message in drawn.messages}
        assert names >= {"bidi_component large", "bidi_component mosaic", "script_finished"}
        assert drawn.received >= sum(message.size for message in drawn.messages) > 10_000
        clicked = page.choose("head", "2")
        assert 0 < clicked.received < drawn.received
        assert min(drawn.seconds, clicked.seconds) > 0
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
    from benchmarks.peers.bertviz import page_of

    trace = traced(run, FIRST)
    views = [json.loads(found) for found in re.findall(r"params = (\{.*\});", page_of(trace))]
    assert len(views) == 2
    for view in views:
        kinds = ("encoder_self", "decoder_self", "cross")
        for kind, given in zip(kinds, view["attention"], strict=True):
            np.testing.assert_array_equal(np.float32(given["attn"]), trace.attention[kind])
            assert [len(given[f"{side}_text"]) for side in ("left", "right")] == [TOKENS, TOKENS]
