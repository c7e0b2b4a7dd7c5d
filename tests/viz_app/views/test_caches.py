"""What is kept in a process: bounded, the large by bytes, and computed once, however many ask."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch

from model.checkpoint import Checkpoint, Run, load_weights
from viz_app.attention_trace import AttentionTrace, run_attention
from viz_app.figures.theme import LIGHT
from viz_app.layer_trace import run_layer_trace
from viz_app.records import Trace
from viz_app.views import _caches, _session
from viz_app.views._caches import LEAST_BYTES, MOST_BYTES, kept, size_of

SENTENCE = "Where is the old dog?"
ROOT = Path(__file__).resolve().parents[3]
CACHES = {"cache_data", "cache_resource", "lru_cache", "cache"}
BOUNDS = {"max_entries", "maxsize"}


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Other tests of the process share the caches."""
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def large(number: int) -> AttentionTrace:
    """So many MiB, of which the system gives none before they are written to."""
    nothing = np.zeros(0, np.float32)
    return AttentionTrace({"cross": np.zeros((1, 1, number, 2**18), np.float32)}, nothing)


def name_of(decorator: ast.expr) -> str:
    """The last name of ``a.b.name`` and of ``a.b.name(…)``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def unbounded(source: str) -> list[str]:
    """Functions whose cache can grow without end: they have arguments, and it has no bound."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = node.args
        has_arguments = any(
            [given.args, given.posonlyargs, given.kwonlyargs, given.vararg, given.kwarg]
        )
        for decorator in node.decorator_list:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            bounded = any(
                k.arg in BOUNDS and isinstance(k.value, ast.Constant) and k.value.value is not None
                for k in keywords
            )
            if name_of(decorator) in CACHES and has_arguments and not bounded:
                found.append(node.name)
    return found


def test_every_cache_of_the_app_is_bounded() -> None:
    sources = {path: path.read_text("utf-8") for path in (ROOT / "viz_app").rglob("*.py")}
    assert sum("cache_resource(" in source for source in sources.values()) > 3
    assert {path.name: names for path, text in sources.items() if (names := unbounded(text))} == {}


@pytest.mark.parametrize(
    ("decorator", "arguments", "expected"),
    [
        ("@st.cache_data", "x", ["f"]),
        ("@st.cache_resource(show_spinner=False)", "x", ["f"]),
        ("@st.cache_resource(max_entries=None)", "*x", ["f"]),
        ("@cache", "*, x", ["f"]),
        ("@st.cache_resource(max_entries=8)", "x", []),
        ("@st.cache_resource(show_spinner=False)", "", []),
        ("@other", "x", []),
    ],
)
def test_an_unbounded_cache_is_seen(decorator: str, arguments: str, expected: list[str]) -> None:
    assert unbounded(f"{decorator}\ndef f({arguments}): ...") == expected


def test_a_checkpoint_is_read_once_however_many_ask_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(run: Run, step: int) -> Checkpoint:
        read.append(step)
        return load_weights(run, step)

    monkeypatch.setattr(_session, "load_weights", counted)
    together = Barrier(8)

    def ask(_: int) -> Checkpoint:
        together.wait()
        return _session.checkpoint_of(run, run.steps()[-1])

    with ThreadPoolExecutor(8) as threads:
        checkpoints = list(threads.map(ask, range(8)))
    assert read == [run.steps()[-1]]
    assert len({id(checkpoint.model) for checkpoint in checkpoints}) == 1


# By bytes


def test_long_traces_are_kept_while_they_fit_together(
    run: Run, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = large(180).attention
    monkeypatch.setattr(_session, "run_trace", lambda *_, **__: replace(trace, attention=maps))
    monkeypatch.setattr(_session, "run_attention", lambda *_: large(90))
    made: list[weakref.ref[Any]] = []
    for number in range(24):
        made.append(weakref.ref(_session.trace_of(run, 60, f"{SENTENCE} {number}")))
        made.append(weakref.ref(_session.attention_of(run, 60, SENTENCE, (1, 4, number))))
    alive = [result for ref in made if (result := ref()) is not None]
    assert sum(map(size_of, alive)) <= MOST_BYTES
    assert len(alive) == 3
    assert alive[-1] is _session.attention_of(run, 60, SENTENCE, (1, 4, 23))


@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_caches, "MOST_BYTES", 3 * LEAST_BYTES)


@pytest.mark.usefixtures("room_for_three")
def test_what_was_used_least_recently_goes_first() -> None:
    computed: list[str] = []

    def ask(key: str) -> object:
        def compute() -> object:
            computed.append(key)
            return object()

        return kept((key,), compute)

    for key in "abc":
        ask(key)
    first = ask("a")
    ask("d")
    assert ask("a") is first
    ask("b")
    assert "".join(computed) == "abcdb"


@pytest.mark.usefixtures("room_for_three")
def test_what_does_not_fit_alone_is_not_kept_and_drives_nothing_out() -> None:
    small = kept("small", object)
    assert kept("large", lambda: large(4)) is not kept("large", lambda: large(4))
    assert kept("small", object) is small


def test_one_of_two_threads_computes_and_others_do_not_wait() -> None:
    begun, go_on = Event(), Event()

    def slow() -> object:
        begun.set()
        assert go_on.wait(30)
        return object()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(kept, "slow", slow)
        assert begun.wait(30)
        second = threads.submit(kept, "slow", lambda: pytest.fail("computed twice"))
        assert kept("other", lambda: "other") == "other"
        go_on.set()
        assert first.result() is second.result()


def test_an_error_is_not_kept() -> None:
    with pytest.raises(ZeroDivisionError):
        kept("key", lambda: 1 / 0)
    assert kept("key", lambda: "right") == "right"


@pytest.mark.parametrize(
    "ask",
    [
        lambda run, trace: _session.checkpoint_of(run, 60),
        lambda run, trace: _session.trace_of(run, 60, SENTENCE),
        lambda run, trace: _session.attention_of(run, 60, SENTENCE, trace.target_ids),
        lambda run, trace: _session.layer_trace_of(
            _session.Selection(run, 60, SENTENCE, LIGHT), trace, "cross", 1
        ),
    ],
    ids=["checkpoint", "trace", "attention", "layer"],
)
def test_all_that_is_large_is_kept_there(
    ask: Callable[[Run, Trace], object], run: Run, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(run, trace) is ask(run, trace)
    monkeypatch.setattr(_caches, "MOST_BYTES", 0)
    st.cache_resource.clear()
    assert ask(run, trace) is not ask(run, trace)


def test_a_layer_without_some_heads_is_another(run: Run, trace: Trace) -> None:
    selection = _session.Selection(run, 60, SENTENCE, LIGHT)
    whole = _session.layer_trace_of(selection, trace, "cross", 1)
    without = replace(trace, switched_off=(("cross", 1, 0),))
    assert _session.layer_trace_of(selection, without, "cross", 1) is not whole


def test_each_memory_counts_once_and_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_caches, "LEAST_BYTES", 0)
    row = np.zeros((1000, 10), np.float32)[:1]
    other = np.zeros(7, np.float32)
    maps: Any = {"encoder_self": row, "decoder_self": row, "cross": other}
    assert size_of(AttentionTrace(maps, row[0])) == 40_000 + 28


def memory_of(values: object) -> dict[int, int]:
    """Bytes of each memory below arrays, those of torch too, by its address."""
    if isinstance(values, dict):
        return {k: v for value in values.values() for k, v in memory_of(value).items()}
    if not isinstance(values, np.ndarray):
        return memory_of(vars(values)) if hasattr(values, "__dict__") else {}
    array: Any = values
    while isinstance(array.base, np.ndarray):
        array = array.base
    if not isinstance(array.base, torch.Tensor):
        return {array.ctypes.data: array.nbytes}
    storage = array.base.untyped_storage()
    return {storage.data_ptr(): storage.nbytes()}


def test_no_array_of_a_record_keeps_more_memory_than_is_counted(
    run: Run, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_caches, "LEAST_BYTES", 0)
    checkpoint = load_weights(run, 60)
    layer = run_layer_trace(checkpoint.model, trace, "cross", 1)
    maps = run_attention(checkpoint.model, trace.source.ids, trace.target_ids)
    for record in (trace, layer, maps):
        assert 0 < sum(memory_of(record).values()) <= size_of(record)
    weights = {id(weight): weight.nbytes for weight in checkpoint.model.parameters()}
    assert size_of(checkpoint) == sum(weights.values())
