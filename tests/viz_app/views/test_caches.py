"""The caches are bounded, the large results by bytes, and compute each result once."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch

from headwise.model import placement
from headwise.model.checkpoint import Checkpoint, TrainedRun, load_weights
from headwise.model.config import BOS
from headwise.model.decoding.beam import Beam
from headwise.model.interface import Head
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.attention import AttentionTrace, run_attention
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.views import caches
from headwise.viz_app.views.shared import cache
from headwise.viz_app.views.shared.cache import LEAST_BYTES, MOST_BYTES, cached, size_of
from tests.viz_app.views.driver import DOG

ROOT = Path(__file__).resolve().parents[3]


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


def test_every_cache_of_the_app_is_bounded() -> None:
    """The pages cache by ``cached`` alone; what it uses itself has a bound or no arguments."""
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "viz_app").rglob("*.py")}
    decorator = r"@(?:st\.cache|(?:functools\.)?(?:lru_)?cache\b)"
    pattern = rf"(?m)^ *{decorator}[^\n]*\n *def \w+\([^)]*\)"
    found = {name: caches for name, text in texts.items() if (caches := re.findall(pattern, text))}
    assert found.keys() == {"cache.py", "turns.py", "app.py"}
    for one in (each for calls in found.values() for each in calls):
        assert "max_entries=" in one or one.endswith("()")


def test_a_beam_of_another_target_language_is_searched_anew(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def search(model: Any, sources: Any, *, size: int, prefix: Any) -> list[Beam]:
        searched.append(tuple(prefix))
        return [Beam([], ())]

    monkeypatch.setattr(caches, "beam_search", search)
    for language in (7, 9, 7):
        monkeypatch.setattr(type(run.tokenizers), "prefix", (BOS, language))
        caches.beam_of(run, 60, DOG, 2)
    assert searched == [(BOS, 7), (BOS, 9)]


def test_a_checkpoint_is_read_once_however_many_ask_at_once(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(run: TrainedRun, step: int, dtype: torch.dtype) -> Checkpoint:
        read.append(step)
        return load_weights(run, step, dtype)

    monkeypatch.setattr(TrainedRun, "load", counted)
    together = Barrier(8)

    def ask(_: int) -> Checkpoint:
        together.wait()
        return caches.checkpoint_of(run, run.steps()[-1])

    with ThreadPoolExecutor(8) as threads:
        checkpoints = list(threads.map(ask, range(8)))
    assert read == [run.steps()[-1]]
    assert len({id(checkpoint.model) for checkpoint in checkpoints}) == 1


def test_a_translation_that_is_given_as_a_target_is_not_traced_again(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[object] = []

    def noted(*args: Any, **kwargs: Any) -> Trace:
        traced.append(args[3])
        return run_trace(*args, **kwargs)

    monkeypatch.setattr(caches, "run_trace", noted)
    own = caches.trace_of(run, 60, DOG)
    given = caches.trace_of(run, 60, DOG, own.target_ids)
    assert traced == [own.target_ids]
    assert (own.forced, given.forced) == (False, True)
    assert given.attention is own.attention
    without = caches.trace_of(run, 60, DOG, ablated=(Head("cross", 0, 0),))
    assert traced[1:] == [without.target_ids]  # perhaps another: of another model
    assert not without.forced


# By bytes


def test_only_a_large_model_computes_with_several_threads(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_THREADS", 2)
    placement.use_one_thread()
    try:
        caches.checkpoint_of(run, 60)
        assert torch.get_num_threads() == 1
        monkeypatch.setattr(placement, "_LARGE", run.parameters)
        caches.checkpoint_of(run, 20)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)  # as all tests do


def test_long_traces_are_cached_while_they_fit_together(
    run: TrainedRun, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = large(207).attention
    monkeypatch.setattr(caches, "run_trace", lambda *_, **__: replace(trace, attention=maps))
    monkeypatch.setattr(caches, "run_attention", lambda *_: large(141))
    made: list[weakref.ref[Any]] = []
    for number in range(24):
        made.append(weakref.ref(caches.trace_of(run, 60, f"{DOG} {number}")))
        made.append(weakref.ref(caches.attention_of(run, 60, DOG, (1, 4, number))))
    alive = [result for ref in made if (result := ref()) is not None]
    assert sum(map(size_of, alive)) <= MOST_BYTES
    assert len(alive) == 2
    assert alive[0] is caches.trace_of(run, 60, f"{DOG} 23")
    assert alive[-1] is caches.attention_of(run, 60, DOG, (1, 4, 23))


@pytest.fixture
def space_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 3 * LEAST_BYTES)


@pytest.mark.usefixtures("space_for_three")
def test_what_was_used_least_recently_goes_first() -> None:
    computed: list[str] = []

    def ask(key: str) -> object:
        def compute() -> object:
            computed.append(key)
            return object()

        return cached("test", key, compute)

    for key in "abc":
        ask(key)
    first = ask("a")
    ask("d")
    assert ask("a") is first
    ask("b")
    assert "".join(computed) == "abcdb"


@pytest.mark.usefixtures("space_for_three")
def test_what_does_not_fit_alone_is_not_cached_and_drops_nothing() -> None:
    small = cached("test", "small", object)
    ask = partial(cached, "test", "large", lambda: large(4))
    assert ask() is not ask()
    assert cached("test", "small", object) is small


def test_one_of_two_threads_computes_and_others_do_not_wait() -> None:
    begun, go_on = Event(), Event()

    def slow() -> object:
        begun.set()
        assert go_on.wait(30)
        return object()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cached, "test", "slow", slow)
        assert begun.wait(30)
        second = threads.submit(cached, "test", "slow", lambda: pytest.fail("computed twice"))
        assert cached("test", "other", lambda: "other") == "other"
        go_on.set()
        assert first.result() is second.result()


def test_an_error_is_not_cached() -> None:
    with pytest.raises(ZeroDivisionError):
        cached("test", "key", lambda: 1 / 0)
    assert cached("test", "key", lambda: "right") == "right"


def test_small_results_are_bounded_by_their_number_and_kinds_do_not_mix() -> None:
    ask = partial(cached, "small", entries=2)
    first = ask("a", object)
    assert cached("other", "a", object, entries=2) is not first
    ask("b", object)
    assert ask("a", object) is first
    ask("c", object)  # "b" was used least recently
    assert ask("a", object) is first
    assert ask("b", lambda: "again") == "again"


def test_a_result_is_logged_once_with_what_is_said_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headwise.viz_app")
    for _ in range(2):
        cached("sum", 3, lambda: 1 + 2, entries=1, facts=lambda result: {"result": result})
    [message] = caplog.messages
    assert re.fullmatch(r"sum: result 3, \d+ ms", message)


def test_what_takes_long_is_said_while_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    @contextmanager
    def spinner(text: str, *, show_time: bool) -> Iterator[None]:
        said.append((text, show_time))
        yield

    monkeypatch.setattr(cache.st, "spinner", spinner)
    for _ in range(2):
        assert cached("sum", 4, lambda: 4, entries=1, says="Adding") == 4
    assert said == [("Adding", True)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda run, trace: caches.trace_of(run, 60, DOG),
        lambda run, trace: caches.attention_of(run, 60, DOG, trace.target_ids),
        lambda run, trace: caches.layer_trace_of(run, trace, "cross", 1),
    ],
    ids=["trace", "attention", "layer"],
)
def test_all_that_is_large_is_bounded_by_bytes(
    ask: Callable[[TrainedRun, Trace], object],
    run: TrainedRun,
    trace: Trace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ask(run, trace) is ask(run, trace)
    monkeypatch.setattr(cache, "MOST_BYTES", 0)
    st.cache_resource.clear()
    assert ask(run, trace) is not ask(run, trace)


def test_models_are_bounded_by_bytes_but_one_is_always_kept(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = caches.checkpoint_of(run, 20)
    caches.checkpoint_of(run, 60)
    assert caches.checkpoint_of(run, 20) is first
    monkeypatch.setattr(cache, "MODEL_BYTES", 1)  # less than any model
    st.cache_resource.clear()
    first = caches.checkpoint_of(run, 20)
    assert caches.checkpoint_of(run, 20) is first
    caches.checkpoint_of(run, 60)
    assert caches.checkpoint_of(run, 20) is not first


def test_a_model_over_the_bound_leaves_before_the_next_is_loaded(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MODEL_BYTES", 1)
    held: list[bool] = []

    def load(run: TrainedRun, step: int, dtype: torch.dtype) -> Checkpoint:
        gc.collect()
        held.append(first() is not None)
        return load_weights(run, step, dtype)

    first = weakref.ref(caches.checkpoint_of(run, 20).model)
    assert first() is not None
    monkeypatch.setattr(TrainedRun, "load", load)
    caches.checkpoint_of(run, 60)
    assert held == [False]


def test_weights_of_a_short_type_are_what_the_pages_get(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_DTYPE", "bfloat16")
    model = caches.checkpoint_of(run, 60).model
    assert {tensor.dtype for _, tensor in model.named_parameters()} == {torch.bfloat16}
    assert caches.embedding_table(run, 60, "source").dtype == np.float32
    target = caches.translation_of(run, 60, DOG)
    assert caches.log_probability_of(run, 60, DOG, target).dtype == np.float32
    costs = caches.head_costs_of(run, 60, DOG, target)
    assert {cost.dtype for cost in costs.values()} == {np.dtype(np.float32)}
    monkeypatch.setenv("HEADWISE_DTYPE", "int8")
    st.cache_resource.clear()
    with pytest.raises(ValueError, match=r"dtype: expected one of float32, .*; got 'int8'"):
        caches.checkpoint_of(run, 60)


def test_a_layer_without_some_heads_is_another(run: TrainedRun, trace: Trace) -> None:
    whole = caches.layer_trace_of(run, trace, "cross", 1)
    without = replace(trace, ablated=(("cross", 1, 0),))
    assert caches.layer_trace_of(run, without, "cross", 1) is not whole


def test_each_memory_counts_once_and_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEAST_BYTES", 0)
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
    run: TrainedRun, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LEAST_BYTES", 0)
    checkpoint = load_weights(run, 60)
    layer = run_layer_trace(checkpoint.model, trace, "cross", 1)
    maps = run_attention(checkpoint.model, trace.source.ids, trace.target_ids)
    for record in (trace, layer, maps):
        assert 0 < sum(memory_of(record).values()) <= size_of(record)
    weights = {id(weight): weight.nbytes for weight in checkpoint.model.parameters()}
    assert size_of(checkpoint) == sum(weights.values())
