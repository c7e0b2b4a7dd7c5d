"""The memory of the process: its budget, what is kept in it and what is given back."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.runtime.memory_session_storage import MemorySessionStorage

from headwise.model import budget as budgets
from headwise.model.budget import MEMORY, budget, parse_bytes
from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session import memory as module
from headwise.viz_app.session.cache import LARGE, cached, drop_unused, is_cached
from headwise.viz_app.session.caches import checkpoint_of, trace_of
from headwise.viz_app.session.panels import _lightened, _restored
from tests.viz_app.pages.driver import Start
from tests.viz_app.pages.test_turns import MIB, turns_of


def test_amounts_of_memory() -> None:
    texts = ["2GiB", "1536 MiB", "1.5g", "2147483648", "524288k"]
    assert [parse_bytes(text) // MIB for text in texts] == [2048, 1536, 1536, 2048, 512]


@pytest.mark.parametrize("text", ["", "2", "511MiB", "-2GiB", "2TiB", "2GiB 3", "nan", "٣g"])
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{MEMORY}: expected an amount of memory of at least 512"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"v2": str(2**31)}, 2**31),
        ({"v2": "max"}, 2**36),
        ({"v1": str(2**30)}, 2**30),
        ({"v1": "9223372036854771712"}, 2**36),  # what cgroup v1 says for none
        ({"v2": str(2**40)}, 2**36),  # more than the machine has
        ({"v2": "1000"}, 512 * MIB),
    ],
)
def test_the_budget_is_the_limit_of_the_container_or_what_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: dict[str, str], expected: int
) -> None:
    for name, content in limits.items():
        (tmp_path / name).write_text(content + "\n")
    monkeypatch.setattr(budgets, "_LIMITS", [str(tmp_path / name) for name in ("v2", "v1")])
    monkeypatch.setattr(budgets, "_of_machine", lambda: 2**36)
    monkeypatch.delenv(MEMORY, raising=False)
    assert budget() == expected
    monkeypatch.setenv(MEMORY, "3GiB")
    assert budget() == 3 * 2**30


def test_results_are_dropped_where_memory_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    monkeypatch.setattr("headwise.viz_app.session.cache.turns", lambda: turns)
    turns = turns_of(1000, lambda: 800 * MIB if is_cached("old", 1) else 0)
    cached("old", 1, lambda: np.zeros(LARGE))
    assert is_cached("old", 1)
    cached("new", 2, lambda: np.zeros(LARGE), needs=500 * MIB)
    assert (is_cached("old", 1), is_cached("new", 2)) == (False, True)
    st.cache_resource.clear()


def test_a_sentence_that_takes_too_much(start_page: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    monkeypatch.setattr("headwise.viz_app.session.turns.SMALL", 0)
    monkeypatch.setattr("headwise.viz_app.session.turns.budget", lambda: MIB)
    app = start_page("app", q="The dog sees a red house.")
    st.cache_resource.clear()
    [said] = app.errors
    assert "give a shorter sentence, or close other pages" in said


def live_traces() -> int:
    gc.collect()
    return sum(type(each) is Trace for each in gc.get_objects())


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("translate", {"target": "El perro ve."}),
        ("inside", {}),
        ("why", {}),
        ("model", {"section": "modules"}),
        ("training", {"training": "compare"}),
    ],
)
def test_an_open_page_holds_no_trace(start_page: Start, page: str, address: dict[str, str]) -> None:
    st.cache_resource.clear()
    before = live_traces()
    app = start_page(page, q="The dog sees a red house.", **address)
    st.cache_resource.clear()
    assert live_traces() == before
    assert app.run().errors == []


def test_a_panel_gets_its_trace_again(run: TrainedRun) -> None:
    st.cache_resource.clear()
    trace = trace_of(run, 60, "The dog.")
    forced = trace_of(run, 60, "The dog.", trace.target_ids)
    given = (trace, [forced, 3], "text")
    light = [_lightened(each) for each in given]
    assert not any(isinstance(each, Trace) for each in [light[0], *light[1]])
    assert _restored(light[0]) is trace  # while it is in use
    expected = [(each.source.ids, each.target_ids, each.forced) for each in (trace, forced)]
    maps = trace.attention["cross"].copy()
    del trace, forced, given
    st.cache_resource.clear()
    again = [_restored(light[0]), _restored(light[1])[0]]
    assert [(each.source.ids, each.target_ids, each.forced) for each in again] == expected
    assert again[0].attention["cross"].tobytes() == maps.tobytes()
    assert _restored(light[1])[1:] == [3]


def test_ended_sessions_are_dropped_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemorySessionStorage(ttl_seconds=0)
    session: Any = SimpleNamespace(session=SimpleNamespace(id="a"))
    storage.save(session)
    lock = threading.Lock()
    sessions = SimpleNamespace(_session_storage=storage, _storage_lock=lock)
    monkeypatch.setattr(module, "_sessions", lambda: sessions)
    monkeypatch.setattr(storage._cache, "_on_remove", lambda *_: held.append(lock.locked()))
    held: list[bool] = []
    assert module._drop_ended_sessions()
    assert held == [True]
    assert not module._drop_ended_sessions()


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note each time that memory is given back, and have a system that says what is used."""
    given: list[int] = []
    monkeypatch.setattr(module, "_drop_ended_sessions", lambda: False)
    monkeypatch.setattr(module, "give_back", lambda: given.append(1))
    monkeypatch.setattr(module, "used", lambda: 500 * MIB)
    return given


def test_what_is_kept_is_dropped_when_nobody_is_connected(
    monkeypatch: pytest.MonkeyPatch, run: TrainedRun, given_back: list[int]
) -> None:
    """The model that was used last stays: who comes back need not wait for it."""
    st.cache_resource.clear()
    connected = [1]
    manager = SimpleNamespace(num_active_sessions=lambda: connected[0])
    monkeypatch.setattr(module, "_sessions", lambda: manager)
    models = [weakref.ref(checkpoint_of(run, step).model) for step in (20, 60)]
    maps = weakref.ref(cached("maps", 1, lambda: np.zeros(2**20)))
    kept = cached("translated", 1, lambda: [3, 4])

    def alive() -> list[bool]:
        gc.collect()
        return [each() is not None for each in (*models, maps)]

    sweep = module.Sweep(drop_unused)
    sweep()
    assert (alive(), given_back) == ([True] * 3, [])
    connected[0] = 0
    for _ in range(2):  # the second one has nothing to give
        sweep()
        assert (alive(), given_back) == ([False, True, False], [1])
    connected[0] = 1  # who comes back within a minute finds the small results
    sweep()
    assert cached("translated", 1, list) is kept
    connected[0] = 0
    for _ in range(2):
        sweep()
        assert is_cached("translated", 1)
    sweep()
    assert not is_cached("translated", 1)
    assert (alive(), given_back) == ([False, True, False], [1, 1])


def test_memory_is_given_back_when_it_has_grown_whoever_is_connected(
    monkeypatch: pytest.MonkeyPatch, given_back: list[int]
) -> None:
    """Streamlit drops sessions by itself where many come, and then no sweep finds one."""
    monkeypatch.setattr(module, "_nobody_is_connected", lambda: False)
    has = [500]
    monkeypatch.setattr(module, "used", lambda: has[0] * MIB)
    sweep = module.Sweep(lambda _: False)
    for now, times in ((510, 0), (460, 0), (490, 0), (500, 1), (530, 1), (540, 2)):
        has[0] = now  # since 460, which it got to by itself, it has grown by 40 at 500
        sweep()
        assert len(given_back) == times


def test_the_system_says_how_much_the_process_has() -> None:
    if Path("/proc/self/statm").exists():
        before = budgets.used()
        with mmap(-1, 32 * MIB) as block:  # of its own: elsewhere what was freed may be used again
            block.write(os.urandom(64) * (MIB // 2))
            assert 20 * MIB < budgets.used() - before < 200 * MIB
