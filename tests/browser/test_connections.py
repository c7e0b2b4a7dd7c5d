"""A page is reloaded or closed while the app computes for it, or its replica is killed.

Replicas are behind HAProxy, as ``deploy/haproxy.cfg`` has it.
"""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.load_server import Server
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search
from headwise.viz_app.records.trace import Trace
from tests.browser.driver import App, NewApp, Traced
from tests.deploy.replicas import Replicas, serving_replicas

FIRST, SECOND = "The dog sleeps.", "Where is my book?"
CONNECTION = ".stApp[data-test-connection-state='{}']"


@pytest.fixture
def replicas(haproxy: str) -> Iterator[Replicas]:
    """Fresh ones, since a test kills one."""
    with serving_replicas(2) as running:
        yield running


def sessions_of(server: Server) -> int:
    """How many sessions are connected."""
    with urllib.request.urlopen(f"{server.address}/_stcore/metrics", timeout=60) as answer:
        counted = re.search(rb"^active_sessions (\d+)", answer.read(), re.MULTILINE)
    assert counted is not None
    return int(counted[1])


def kill(server: Server) -> None:
    """End it at once, as a lack of memory would; it tells nobody."""
    server.process.kill()
    server.process.wait()


def only_server(replicas: Replicas) -> tuple[Server, Server]:
    """The server that has the only session, and the other one."""
    [serving] = [server for server in replicas.servers if sessions_of(server)]
    [other] = [server for server in replicas.servers if server is not serving]
    return serving, other


def forgive_lost_connection(app: App) -> None:
    """Take back what a page complains of when its server is gone; all else stays."""
    lost = (
        "WebSocket onclose",
        "Cannot send rerun backMessage when disconnected",
        "Failed to load resource: net::",  # a font that was on its way
        "Failed to load resource: the server responded with a status of 502",  # the proxy's answer
    )
    app.complaints[:] = [said for said in app.complaints if not any(part in said for part in lost)]


@pytest.mark.release
def test_a_page_comes_back_when_its_replica_is_killed(
    replicas: Replicas, new_app: NewApp, run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[3]
    app = new_app(replicas.address)
    app.open(run="en-es", step=step)
    serving, other = only_server(replicas)
    app.type(FIRST)
    app.expect_text("translation", trace_at(step, FIRST).target_text)
    with app.page.expect_websocket():  # where it is back at once, no other state may be seen
        kill(serving)
    app.page.locator(CONNECTION.format("CONNECTED")).wait_for()
    app.expect_address(q=FIRST, step=str(step))
    assert sessions_of(other) == 1
    # A click on a part of the page, of which the other replica had known nothing.
    app.choose(head="2")
    app.expect_field("sentence", FIRST)
    app.expect_drawn("large", trace_at(step, FIRST).attention["cross"][-1, 1])
    app.type(SECOND)
    second = trace_at(step, SECOND)
    app.expect_text("translation", second.target_text)
    app.expect_address(q=SECOND, step=str(step), head="2")
    assert other.faults() == []
    log = replicas.log.read_text()
    assert f"step={step}" not in log  # nothing of the address, which has the sentence
    assert "GET /_stcore/stream" in log
    forgive_lost_connection(app)


@pytest.mark.parametrize("key", [pytest.param("Enter", marks=pytest.mark.release), "End"])
def test_what_is_typed_while_no_replica_answers_is_not_lost(
    replicas: Replicas, new_app: NewApp, traced: Traced, key: str
) -> None:
    app = new_app(replicas.address)
    app.open(run="en-es", q=FIRST)
    app.expect_field("sentence", FIRST)
    serving, _ = only_server(replicas)
    serving.process.send_signal(signal.SIGSTOP)  # keeps its connections, answers nothing
    field = app.page.locator(".st-key-sentence textarea")
    field.fill(SECOND)
    field.press(key)  # without Enter, the browser enters it when the field is blocked
    kill(serving)
    app.expect_text("translation", traced(SECOND).target_text)
    app.expect_address(q=SECOND)
    forgive_lost_connection(app)


@pytest.mark.release
def test_what_is_drawn_again_is_sent_again(app: App) -> None:
    """By its hash alone, a browser that has dropped it meanwhile would lose its connection."""
    received = app.frames("framereceived")
    app.open(run="en-es")
    for title in ("Heads", "Translate", "Heads"):
        app.go_to(title)
        app.rest()
    kinds = {ForwardMsg.FromString(frame).WhichOneof("type") for frame in received}
    assert "delta" in kinds
    assert "ref_hash" not in kinds


# A page that is reloaded or closed leaves a sound server behind

LONG = "I know that you know that I know that he does not know what she says about it. " * 2
LONGER = "Nobody knows where they were when we came home and why the door was not open. " * 2


def begin(app: App, sentence: str) -> None:
    """Ask for a translation and come back once the app has taken the sentence.

    The address changes as the app sets out to compute; nothing waits for the end of it.
    """
    app.type(sentence.strip())
    taken = "text => new URL(location).searchParams.get('q') === text"
    app.page.wait_for_function(taken, arg=sentence.strip())


def expect_translation(
    app: App, run: TrainedRun, trace_at: Callable[..., Trace], sentence: str
) -> None:
    step, sentence = run.steps()[-1], sentence.strip()
    source = run.tokenizers.encode_source(sentence)
    [beam] = beam_search(load_weights(run, step).model, [source], size=8)
    trace = trace_at(step, sentence, tuple(beam.hypotheses[0].target))
    app.expect_text("translation", trace.target_text)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    app.expect_field("sentence", sentence)
    expect(app.page.locator(".stAlert")).to_have_count(0)


@pytest.mark.release
def test_page_is_reloaded_and_closed_while_the_app_computes(
    new_app: NewApp, run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    """The log of the server, which must not have a traceback, is looked at when it ends."""
    app, other = new_app(), new_app()
    app.open(q="I am hungry.", decoding="beam", beam=8)
    app.page.locator(".st-key-large .heat_map image").wait_for()
    begin(app, LONG)
    app.page.reload()
    begin(app, LONGER)  # while the server may still be at the first
    app.page.close()
    other.open(q=LONGER.strip(), decoding="beam", beam=8)
    expect_translation(other, run, trace_at, LONGER)
    other.type(LONG.strip())
    expect_translation(other, run, trace_at, LONG)
