"""What all sessions share: caches, bounded and computed once."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import streamlit as st
import torch
from streamlit.runtime.scriptrunner import RerunData, RerunException

from headwise.model import placement
from headwise.model.checkpoint import Checkpoint, TrainedRun, load_weights
from headwise.model.config import BOS
from headwise.model.decoding.beam import Beam
from headwise.model.turned import Turned
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session import cache, caches, turns
from headwise.viz_app.session.cache import LARGE, MOST_BYTES, SMALL_BYTES, cached, size_of
from headwise.viz_app.trace.attention import AttentionTrace, run_attention
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.imports import DRAWN, ROOT
from tests.viz_app.pages.driver import DOG


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
    """The pages cache by ``cached`` alone; what it uses itself has no arguments, and is one."""
    texts = {Path(file).name: (ROOT / file).read_text("utf-8") for file in DRAWN}
    decorator = r"@(?:st\.cache|(?:functools\.)?(?:lru_)?cache\b)"
    pattern = rf"(?m)^ *{decorator}[^\n]*\n *def \w+\([^)]*\)"
    found = {name: caches for name, text in texts.items() if (caches := re.findall(pattern, text))}
    assert found.keys() == {"cache.py", "turns.py", "pages.py"}
    for one in (each for calls in found.values() for each in calls):
        assert "max_entries" not in one
        assert one.endswith("()")


@pytest.mark.parametrize("compute", [caches.trace_of, caches.translation_of])
def test_what_nobody_waits_for_is_dropped_within_a_pass(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch, compute: Callable[..., Any]
) -> None:
    """Streamlit ends a run where its state is read, if the session is gone or asks for another."""
    caches.checkpoint_of(run, 60)
    state = MagicMock()
    state.__contains__.side_effect = [True, True, True, RerunException(RerunData())]
    with monkeypatch.context() as patched:
        patched.setattr(st, "session_state", state)
        patched.setattr(turns, "get_script_run_ctx", lambda **_: object())
        with pytest.raises(RerunException):
            compute(run, 60, DOG)
        assert state.__contains__.call_count == 4
    assert not turns.turns()._pages
    assert compute(run, 60, DOG)


def test_a_beam_is_searched_by_language(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def search(model: Any, sources: Any, *, size: int, prefix: Any) -> list[Beam]:
        searched.append(tuple(prefix))
        return [Beam([], ())]

    monkeypatch.setattr(caches, "beam_search", search)
    for language in (7, 9, 7):
        monkeypatch.setattr(type(run.tokenizers), "prefix", (BOS, language))
        caches.beam_of(run, 60, DOG, 2)
    assert searched == [(BOS, 7), (BOS, 9)]


def test_a_checkpoint_is_read_by_one(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
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
    without = caches.trace_of(run, 60, DOG, turned=Turned.off([("cross", 0, 0)]))
    assert len(traced) == 2  # another model may write another translation
    assert not without.forced
    layers = [caches.layer_trace_of(run, trace, "cross", 1) for trace in (own, without)]
    assert layers[0] is not layers[1]


# By bytes


def test_only_a_large_model_has_threads(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_was_used_least_recently_makes_room_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 9 * 2**19)  # three, of which each counts 1.5 MiB
    computed: list[str] = []

    def ask(key: str, bytes_of: int = LARGE) -> object:
        def compute() -> object:
            computed.append(key)
            return np.zeros(bytes_of, np.uint8)

        return cached("test", key, compute)

    for key in "abc":
        ask(key)
    first = ask("a")
    ask("d")
    assert ask("a") is first
    ask("b")
    assert "".join(computed) == "abcdb"
    alone = partial(ask, "large", 5 * 2**20)  # does not fit alone, and drops nothing
    assert alone() is not alone()
    assert ask("a") is first


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


def test_small_results_are_kept_when_large_ones_drive_each_other_out() -> None:
    small = cached("small", "a", object)
    with pytest.raises(ZeroDivisionError):
        cached("small", "b", lambda: 1 / 0)  # an error is not cached
    assert cached("other", "a", object) is not small
    for number in range(4):
        cached("large", number, lambda: large(141))
    assert cached("small", "a", object) is small
    assert cached("small", "b", lambda: "again") == "again"


def kilobytes(number: int) -> list[str]:
    return [f"{number}.{place}".ljust(1_000) for place in range(100)]


@pytest.mark.parametrize(
    ("bound", "of_number"),
    [
        (MOST_BYTES, lambda number: ("account of a long sentence", large(33))),
        (SMALL_BYTES, lambda number: (f"kind {number}", kilobytes(number))),
        (SMALL_BYTES, lambda number: (f"key of {number}".ljust(100_000), ())),
    ],
)
def test_no_kind_or_number_of_results_takes_more_than_the_bound(
    bound: int, of_number: Callable[[int], tuple[str, Any]]
) -> None:
    """Neither few of any size nor many kinds, and whether arrays, objects or keys take memory."""
    made: list[tuple[str, int]] = []
    for number in range(16 if bound == MOST_BYTES else 800):
        what, result = of_number(number)
        made.append((what, size_of((what, result))))
        assert cached(what, number, lambda result=result: result) is result
    kept = [size for number, (what, size) in enumerate(made) if cache.is_cached(what, number)]
    assert sum(size for _, size in made) > 1.1 * bound
    assert 0.8 * bound < sum(kept) <= bound


def test_what_is_filled_later_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search has found so far is a dict, empty at first."""
    monkeypatch.setattr(cache, "MOST_BYTES", 8 * 2**20)
    for number in range(8):
        found: dict[int, Any] = cached("so far", number, dict)
        for batch in range(4):
            found = cached("so far", number, dict)
            assert len(found) == batch
            found[batch] = np.zeros(2**19, np.uint8)
        assert cached("so far", number, dict) is found
    assert [cache.is_cached("so far", number) for number in range(8)] == [False] * 5 + [True] * 3


def test_a_result_is_logged_once_and_what_takes_long_said_meanwhile(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []

    @contextmanager
    def spinner(text: str, *, show_time: bool) -> Iterator[None]:
        said.append((text, show_time))
        yield

    monkeypatch.setattr(cache.st, "spinner", spinner)
    caplog.set_level("INFO", "headwise.viz_app")
    told = {"facts": lambda result: {"result": result}, "says": "Adding"}
    for _ in range(2):
        assert cached("sum", 3, lambda: 1 + 2, **told) == 3
    [message] = caplog.messages
    assert re.fullmatch(r"sum: result 3, \d+ ms", message)
    assert said == [("Adding", True)]


def test_models_are_bounded_one_is_kept(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """One over the bound leaves before the next is loaded."""
    first = caches.checkpoint_of(run, 20)
    caches.checkpoint_of(run, 60)
    assert caches.checkpoint_of(run, 20) is first
    monkeypatch.setattr(cache, "MODEL_BYTES", 1)  # less than any model
    st.cache_resource.clear()
    first = caches.checkpoint_of(run, 20)
    assert caches.checkpoint_of(run, 20) is first
    model = weakref.ref(first.model)
    held: list[bool] = []

    def load(run: TrainedRun, step: int, dtype: torch.dtype) -> Checkpoint:
        gc.collect()
        held.append(model() is not None)
        return load_weights(run, step, dtype)

    del first
    monkeypatch.setattr(TrainedRun, "load", load)
    caches.checkpoint_of(run, 60)
    assert held == [False]


@pytest.mark.parametrize(
    ("known", "bound", "expected"),
    [
        ([60], cache.MODEL_BYTES, [60, 0]),  # one ahead
        ([], cache.MODEL_BYTES, []),  # weights that were not needed
        ([60], 1, [60]),  # no two models fit
    ],
)
def test_while_checkpoints_are_used_the_next_is_loaded(
    run: TrainedRun,
    monkeypatch: pytest.MonkeyPatch,
    known: list[int],
    bound: int,
    expected: list[int],
) -> None:
    loaded: list[int] = []

    def load(run: TrainedRun, step: int, dtype: torch.dtype) -> Checkpoint:
        loaded.append(step)
        return load_weights(run, step, dtype)

    monkeypatch.setattr(TrainedRun, "load", load)
    monkeypatch.setattr(cache, "MODEL_BYTES", bound)
    monkeypatch.setattr(caches, "_MOST_AHEAD", 2)
    for step in known:
        caches.checkpoint_of(run, step)
    for following in ([20, 0], [20]):
        caches.load_ahead(run, 60, following)
        if (latest := cache.loader().latest) is not None:
            latest.result()
    assert loaded == expected
    if 0 in loaded:
        caches.checkpoint_of(run, 0)
        assert loaded == expected


def test_while_one_is_loaded_ahead_no_other_waits_for_it() -> None:
    loader, go_on, loaded = cache.Loader(), Event(), list[int]()
    loader.load(lambda: go_on.wait(30))
    first = loader.latest
    loader.load(lambda: loaded.append(1))
    assert loader.latest is first
    go_on.set()
    assert first is not None
    assert first.result()
    loader.load(lambda: loaded.append(2))
    assert loader.latest is not None
    loader.latest.result()
    assert loaded == [2]


def test_pages_get_weights_of_a_short_type(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_DTYPE", "bfloat16")
    model = caches.checkpoint_of(run, 60).model
    assert {tensor.dtype for _, tensor in model.named_parameters()} == {torch.bfloat16}
    assert caches.embedding_table(run, 60, "source").dtype == np.float32
    target = caches.trace_of(run, 60, DOG).target_ids
    costs = caches.head_costs_of(run, 60, DOG, target)
    assert {cost.dtype for cost in costs.values()} == {np.dtype(np.float32)}
    monkeypatch.setenv("HEADWISE_DTYPE", "int8")
    st.cache_resource.clear()
    with pytest.raises(ValueError, match=r"dtype: expected one of float32, .*; got 'int8'"):
        caches.checkpoint_of(run, 60)


def test_each_memory_counts_once_and_as_a_whole() -> None:
    row = np.zeros((1000, 10), np.float32)[:1]
    other = np.zeros(700, np.float32)
    maps: Any = {"encoder_self": row, "decoder_self": row, "cross": other}
    assert 0 < size_of(AttentionTrace(maps, row[0])) - 42_800 < 2_000


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


def test_no_array_of_a_record_keeps_more_than_is_counted(run: TrainedRun, trace: Trace) -> None:
    checkpoint = load_weights(run, 60)
    layer = run_layer_trace(checkpoint.model, trace, "cross", 1)
    maps = run_attention(checkpoint.model, trace.source.ids, trace.target_ids)
    for record in (trace, layer, maps):
        assert 0 < sum(memory_of(record).values()) <= size_of(record)
    weights = {id(weight): weight.nbytes for weight in checkpoint.model.parameters()}
    modules = 12_000 * len([*checkpoint.model.modules()])  # as objects of Python
    assert 0 < size_of(checkpoint) - sum(weights.values()) < modules
