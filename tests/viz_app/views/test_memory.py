"""The memory of the process: its budget, who waits for it, and what is told and refused."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit.runtime.memory_session_storage import MemorySessionStorage

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import trace_of
from headwise.viz_app.views.shared import memory as module
from headwise.viz_app.views.shared.cache import _cache, cached, drop_large
from headwise.viz_app.views.shared.marks import CACHE, DiedOfError, marked
from headwise.viz_app.views.shared.memory import (
    MEMORY,
    SMALL,
    Memory,
    OutOfMemoryError,
    budget,
    parse_bytes,
)
from headwise.viz_app.views.shared.panels import _lightened, _restored
from headwise.viz_app.views.shared.turns import Turns
from tests.imports import ROOT
from tests.viz_app.views.driver import Start

MIB = 2**20
SOON = 30.0
"""Seconds; spent only where something is broken."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GiB", 2 * 2**30),
        ("1536 MiB", 1536 * MIB),
        ("1.5g", 1536 * MIB),
        ("2147483648", 2**31),
        ("524288k", 512 * MIB),
        *(
            (bad, None)
            for bad in ("", "2", "511MiB", "-2GiB", "2TiB", "two", "2GiB 3", "nan", "٣g")
        ),
    ],
)
def test_amounts_of_memory(text: str, expected: int | None) -> None:
    if expected is not None:
        assert parse_bytes(text) == expected
        return
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
        ({}, 2**36),
    ],
)
def test_the_budget_is_the_limit_of_the_container_or_what_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: dict[str, str], expected: int
) -> None:
    for name, content in limits.items():
        (tmp_path / name).write_text(content + "\n")
    monkeypatch.setattr(module, "_LIMITS", [str(tmp_path / name) for name in ("v2", "v1")])
    monkeypatch.setattr(module, "_of_machine", lambda: 2**36)
    monkeypatch.delenv(MEMORY, raising=False)
    assert budget() == expected
    monkeypatch.setenv(MEMORY, "3GiB")
    assert budget() == 3 * 2**30


class Taker(Thread):
    """Reserves memory in a thread of its own, until it is told to give it back."""

    def __init__(self, memory: Memory, needed: int) -> None:
        super().__init__(daemon=True)
        self.has, self.waits, self.may_end = Event(), Event(), Event()
        self.told: list[int] = []
        self._memory, self._needed = memory, needed
        self.start()

    def _note(self, before: int) -> None:
        self.told.append(before)
        self.waits.set()

    def run(self) -> None:
        with self._memory.reserved(self._needed, on_wait=self._note):
            self.has.set()
            assert self.may_end.wait(SOON)

    def end(self) -> None:
        self.may_end.set()
        self.join(SOON)


def memory_of(mebibytes: int, used: Callable[[], int] = lambda: 0, **settings: Any) -> Memory:
    """So much beside what is kept free."""
    settings = {"free": lambda: None, "every": 0.01, "patience": 0.0} | settings
    return Memory(mebibytes * MIB + 4 * SMALL, used=used, **settings)


def test_what_does_not_fit_beside_others_waits_in_order_and_small_ones_never_do() -> None:
    memory = memory_of(1000)
    first = Taker(memory, 600 * MIB)
    assert first.has.wait(SOON)
    second = Taker(memory, 500 * MIB)
    assert second.waits.wait(SOON)
    third = Taker(memory, 100 * MIB)  # it would fit, and has its place behind the second
    assert third.waits.wait(SOON)
    assert (second.told[0], third.told[0], memory.waiting()) == (0, 1, 2)
    with memory.reserved(SMALL):
        assert not second.has.is_set()
    first.end()
    assert second.has.wait(SOON)
    assert third.has.wait(SOON)
    for each in (second, third):
        each.end()
    assert memory.waiting() == 0


def test_what_can_never_fit_is_refused_after_room_was_made() -> None:
    taken = [900 * MIB]
    memory = memory_of(1000, lambda: taken[0])
    message = "takes some 200 MiB of memory, and 100 are free"
    with pytest.raises(OutOfMemoryError, match=message), memory.reserved(200 * MIB):
        raise AssertionError
    with memory.reserved(200 * MIB, make_room=lambda: taken.__setitem__(0, 700 * MIB)):
        assert taken == [700 * MIB]
    with pytest.raises(KeyError), memory.reserved(200 * MIB):
        raise KeyError
    with memory.reserved(200 * MIB):  # an error has given it back
        pass


def test_what_is_first_waits_for_pages_that_are_being_drawn() -> None:
    taken = iter([900, 900, 900, 900, 900])
    memory = memory_of(1000, lambda: next(taken, 100) * MIB, patience=SOON)
    with memory.reserved(500 * MIB):
        pass
    with pytest.raises(OutOfMemoryError), memory.reserved(1001 * MIB):  # never, so at once
        raise AssertionError


def test_whoever_stops_waiting_leaves_the_queue() -> None:
    memory = memory_of(1000)
    first = Taker(memory, 900 * MIB)
    assert first.has.wait(SOON)

    def stop(_: int) -> None:
        raise KeyboardInterrupt  # as Streamlit does when a person has typed something else

    with pytest.raises(KeyboardInterrupt), memory.reserved(500 * MIB, on_wait=stop):
        raise AssertionError
    assert memory.waiting() == 0
    first.end()


def test_who_waits_for_memory_lets_others_make_their_pages() -> None:
    turns = Turns(1, patience=SOON)
    inside, may_end = Event(), Event()

    def wait_inside() -> None:
        with turns.turn(), turns.stand_aside():
            inside.set()
            assert may_end.wait(SOON)

    thread = Thread(target=wait_inside, daemon=True)
    thread.start()
    assert inside.wait(SOON)
    with turns.turn():
        may_end.set()
    thread.join(SOON)
    assert turns._taken == 0


def test_results_are_dropped_where_memory_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    kept = [800 * MIB]
    monkeypatch.setattr("headwise.viz_app.views.shared.cache.memory", lambda: memory)
    memory = memory_of(1000, lambda: kept[0] if ("old", 1) in large.cache else 0)
    large: Any = _cache("large", None)
    cached("old", 1, lambda: SimpleNamespace())
    assert ("old", 1) in large.cache
    cached("new", 2, lambda: SimpleNamespace(), needs=500 * MIB)
    assert [*large.cache] == [("new", 2)]
    st.cache_resource.clear()


def test_a_page_says_that_a_sentence_takes_too_much(
    start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    st.cache_resource.clear()
    monkeypatch.setattr("headwise.viz_app.views.shared.memory.SMALL", 0)
    monkeypatch.setattr("headwise.viz_app.views.shared.memory.budget", lambda: 512 * MIB)
    monkeypatch.setattr(Memory, "_used", lambda _: 511 * MIB, raising=False)
    monkeypatch.setattr(Memory, "_fits", lambda *_: False)
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
        ("translate", {}),
        ("translate", {"target": "El perro ve."}),
        ("inside", {}),
        ("why", {}),
        ("architecture", {}),
        ("training", {"training": "compare"}),
    ],
)
def test_an_open_page_holds_no_trace_beside_the_cache(
    start_page: Start, page: str, address: dict[str, str]
) -> None:
    st.cache_resource.clear()
    before = live_traces()
    app = start_page(page, q="The dog sees a red house.", **address)
    assert app.errors == []
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


def test_ended_sessions_are_dropped_when_their_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = MemorySessionStorage(ttl_seconds=0)
    session: Any = SimpleNamespace(session=SimpleNamespace(id="a"))
    storage.save(session)
    monkeypatch.setattr(module, "_sessions", lambda: SimpleNamespace(_session_storage=storage))
    assert module._drop_ended_sessions()
    assert not module._drop_ended_sessions()


def test_what_is_kept_is_dropped_when_nobody_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    connected, given_back = [1], []
    manager = SimpleNamespace(num_active_sessions=lambda: connected[0])
    monkeypatch.setattr(module, "_sessions", lambda: manager)
    monkeypatch.setattr(module, "_drop_ended_sessions", lambda: False)
    monkeypatch.setattr(module, "give_back", lambda: given_back.append(True))
    large: Any = _cache("large", None)
    cached("old", 1, lambda: SimpleNamespace())
    module.sweep(drop_large)
    assert (len(large.cache), given_back) == (1, [])
    connected[0] = 0
    for _ in range(2):  # the second one has nothing to give
        module.sweep(drop_large)
        assert (len(large.cache), given_back) == (0, [True])


DIES = """
import os
from headwise.viz_app.views.shared.marks import marked

with marked(("trace", "long")):
    pass
with marked(("trace", "long")):
    os.kill(os.getpid(), 9)
"""


def test_what_a_process_died_of_is_not_taken_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    st.cache_resource.clear()
    monkeypatch.setenv(CACHE, str(tmp_path))
    died = subprocess.run([sys.executable, "-c", DIES], cwd=ROOT, check=False)
    assert died.returncode == -9

    def ask(key: str) -> str:
        return cached("trace", key, lambda: "computed", entries=2, needs=SMALL + 1)

    with pytest.raises(DiedOfError, match=r"ended while it computed this.*for 10 minutes"):
        ask("long")
    with pytest.raises(DiedOfError):  # nor by the one after that
        ask("long")
    assert ask("another") == "computed"
    [mark] = (tmp_path / "computing").iterdir()  # that of the other is gone, and all locks
    os.utime(mark, (0, 0))
    assert ask("long") == "computed"
    assert [*(tmp_path / "computing").iterdir()] == []


def test_what_another_process_computes_now_is_computed_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    with marked("a"), marked("a"):  # another lock, as another process has
        assert len([*(tmp_path / "computing").iterdir()]) == 2
    with pytest.raises(KeyError), marked("a"):
        raise KeyError
    with marked("a"):  # an error is no death
        pass


@pytest.mark.parametrize("where", ["a file", "read-only", "full"])
def test_without_a_folder_for_marks_everything_is_computed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    if where == "a file":
        (tmp_path / "computing").touch()
    else:  # root may write anywhere, and no disk of a test is full
        error = {"read-only": errno.EROFS, "full": errno.ENOSPC}[where]

        def refuse(*_: object, **__: object) -> None:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(Path, "mkdir" if where == "read-only" else "touch", refuse)
    with marked("a"):
        pass
    with pytest.raises(KeyError), marked("a"):
        raise KeyError


def test_the_system_says_how_much_the_process_has() -> None:
    if Path("/proc/self/statm").exists():
        before = module.used()
        block = bytearray(os.urandom(64)) * (MIB // 2)
        assert 20 * MIB < module.used() - before < 200 * MIB
        del block
