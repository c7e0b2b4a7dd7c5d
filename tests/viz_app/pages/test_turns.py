"""Who draws or computes first, who is refused what, and what a process died of."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any
from unittest.mock import MagicMock

import pytest
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, RerunException

from headwise.viz_app.session import turns as module
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.marks import CACHE, CrashedBeforeError, marked
from headwise.viz_app.session.turns import SMALL, OutOfMemoryError, Turns
from tests.imports import ROOT

MIB = 2**20
SOON = 60.0
"""Seconds; spent only where something is broken."""
LONG, MODERATE = 500 * MIB, 100 * MIB
"""Bytes of such computations, of the 1,000 MiB of ``turns_of``."""


def turns_of(mebibytes: int = 1000, used: Callable[[], int] = lambda: 0, **settings: Any) -> Turns:
    """So much beside what is kept free; nobody loses patience."""
    settings = {"free": lambda: None, "every": 0.01, "patience": SOON} | settings
    return Turns(mebibytes * MIB + 4 * SMALL, used=used, **settings)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(int(1000 * SOON)):
        if holds():
            return
        Event().wait(0.001)
    raise AssertionError


class Page(Thread):
    """A page is drawn in a thread of its own, and ends when it is told to.

    It computes what it ``needs``, one after another, and is asked about after it has begun to wait.
    """

    def __init__(self, turns: Turns, *needs: int, order: list[Page] | None = None) -> None:
        super().__init__(daemon=True)
        self.has, self.leaves, self.may_end = Event(), Event(), Event()
        self.told: list[int] = []
        self.refused = ""
        self._turns, self._needs, self._order = turns, needs, order
        waiting = turns.waiting()
        self.start()
        until(lambda: self.has.is_set() or turns.waiting() > waiting)

    def run(self) -> None:
        with suppress(Left), self._turns.turn():
            try:
                for needed in self._needs:
                    with self._turns.reserved(needed, on_wait=self._tell):
                        pass
            except OutOfMemoryError as error:
                self.refused = str(error)
            if self._order is not None:
                self._order.append(self)
            self.has.set()
            assert self.may_end.wait(SOON)

    def _tell(self, before: int) -> None:
        self.told.append(before)
        if self.leaves.is_set():
            raise Left

    def end(self) -> None:
        self.may_end.set()
        self.join(SOON)
        assert not self.is_alive()


class Left(BaseException):
    """Whoever waits has asked for something else, as Streamlit says by such an exception."""


@pytest.mark.parametrize(("needs", "at_once"), [((), 2), ((MODERATE, LONG), 1)])
def test_of_a_size_who_comes_first_is_served_first(needs: tuple[int, ...], at_once: int) -> None:
    turns, order = turns_of(), list[Page]()
    pages = [Page(turns, *needs, order=order) for _ in range(6)]
    until(lambda: len(order) == at_once)
    until(lambda: turns.waiting() == 6 - at_once)
    for page in pages:
        assert page.has.wait(SOON)
        page.end()
    assert order == pages
    assert turns.waiting() == 0


def test_the_place_that_is_told_only_goes_down() -> None:
    turns = turns_of()
    first = Page(turns, LONG, LONG + MIB)
    pages = [Page(turns, LONG) for _ in range(5)]
    for place, page in enumerate(pages, start=1):
        until(lambda page=page, place=place: page.told[-1:] == [place])
    pages[1].leaves.set()
    pages[1].join(SOON)
    for place, page in enumerate(pages[2:], start=2):
        until(lambda page=page, place=place: page.told[-1] == place)
    for page in (first, pages[0], *pages[2:]):
        assert page.has.wait(SOON)
        page.end()
    assert all(page.told == sorted(page.told, reverse=True) for page in pages)
    assert not pages[1].has.is_set()


def test_what_takes_long_or_moves_often_holds_up_no_ordinary_page() -> None:
    turns, ends = turns_of(at_once=1, patience=0.05), Event()

    def move() -> None:
        while not ends.is_set():
            with turns.page():  # a panel, which needs no turn
                pass

    slow, moving = Page(turns), Thread(target=move, daemon=True)
    moving.start()
    others = [Page(turns) for _ in range(3)]
    assert all(page.has.wait(SOON) for page in others)
    ends.set()
    moving.join(SOON)
    for page in (slow, *others):
        page.end()


def test_moderate_pages_one_after_another_do_not_keep_memory_from_a_long_one() -> None:
    turns = turns_of()
    moderate = Page(turns, MODERATE)
    assert moderate.has.wait(SOON)
    long = Page(turns, 900 * MIB)  # does not fit beside it
    another = Page(turns, MODERATE)
    until(lambda: bool(long.told and another.told))
    moderate.end()
    assert long.has.wait(SOON)
    assert not another.has.is_set()
    long.end()
    assert another.has.wait(SOON)
    another.end()


def test_a_page_does_not_wait_for_what_it_has_and_gets_more_before_others_begin() -> None:
    taken = [0]
    turns = turns_of(used=lambda: taken[0])
    with turns.page():
        with turns.reserved(600 * MIB):
            taken[0] = 600 * MIB  # of which no one is to be counted twice
        another = Page(turns, LONG)
        moderate = Page(turns, MODERATE)
        with turns.page(), turns.reserved(600 * MIB):  # a part of the page
            pass
        moderate.end()
        with turns.reserved(900 * MIB):
            assert not another.has.is_set()
    taken[0] = 0
    assert another.has.wait(SOON)
    another.end()


def test_what_is_there_is_taken_in_turn_and_takes_no_memory() -> None:
    turns = turns_of(used=lambda: 900 * MIB)
    with turns.reserved(LONG, is_there=lambda: True):
        other = Page(turns, LONG)
        until(lambda: other.told[-1:] == [1])
    assert other.has.wait(SOON)
    assert other.refused
    other.end()


def test_what_can_never_fit_is_refused_after_room_was_made() -> None:
    taken = [900 * MIB]
    turns = turns_of(used=lambda: taken[0])
    message = "takes some 200 MiB of memory, and 100 are free"
    with pytest.raises(OutOfMemoryError, match=message), turns.reserved(200 * MIB):
        raise AssertionError
    with turns.reserved(200 * MIB, make_room=lambda: taken.__setitem__(0, 700 * MIB)):
        assert taken == [700 * MIB]
    with pytest.raises(KeyError), turns.reserved(200 * MIB):
        raise KeyError
    with turns.reserved(200 * MIB):  # an error has given it back
        pass
    with pytest.raises(OutOfMemoryError), turns.reserved(1001 * MIB):
        raise AssertionError


def test_who_is_first_waits_for_the_pages_that_are_drawn_then_and_for_no_others() -> None:
    drawn, taken = list[Page](), [900 * MIB]
    turns = turns_of(used=lambda: taken[0])
    drawn.append(Page(turns))
    for gives_back in (True, False):
        long = Page(turns, LONG)
        until(lambda long=long: bool(long.told))
        drawn.append(Page(turns))
        assert not long.has.is_set()
        taken[0] = 100 * MIB if gives_back else 900 * MIB
        drawn.pop(0).end()
        assert long.has.wait(SOON)
        assert bool(long.refused) is not gives_back
        long.end()
        taken[0] = 900 * MIB
    drawn.pop().end()


def test_of_pages_that_wait_for_each_other_one_is_refused() -> None:
    turns, both, ends = turns_of(), Barrier(2), list[str]()

    def draw(needed: int, more: int, there: bool) -> None:
        try:
            with turns.page():
                with turns.reserved(needed, is_there=lambda: there):
                    both.wait(SOON)
                with turns.reserved(more):
                    ends.append("drawn")
        except OutOfMemoryError:
            ends.append("refused")

    asked = [(600 * MIB, 950 * MIB, False), (MODERATE, MODERATE, True)]
    threads = [Thread(target=draw, args=each, daemon=True) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert "drawn" in ends
    assert len(ends) == 2


def test_who_is_gone_leaves_the_queue_and_a_turn_ends_with_an_error(
    overtaken: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = turns_of(at_once=1)
    first = Page(turns)
    with pytest.raises(RerunException), turns.turn():
        raise AssertionError
    assert turns.waiting() == 0
    first.end()
    with pytest.raises(KeyError), turns.turn():
        raise KeyError
    with turns.turn():
        pass
    assert overtaken.__contains__.call_count == 1


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """The state of a session that asks for something else: Streamlit says so where it is read."""
    state = MagicMock()
    state.__contains__.side_effect = RerunException(RerunData())
    monkeypatch.setattr(st, "session_state", state)
    monkeypatch.setattr(module, "get_script_run_ctx", lambda **_: object())
    return state


@pytest.fixture
def only_turn(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """The turns of the process: one at once, and half a second for a browser to draw."""
    only = turns_of(at_once=1)
    monkeypatch.setattr(module, "turns", lambda: only)
    monkeypatch.setattr(module, "PAUSE", 0.5)
    return only


def test_a_page_is_made_while_one_draws(only_turn: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_turn.turn():
        other = Page(only_turn)
        monkeypatch.setattr("time.sleep", lambda _: other.has.wait(SOON))
        module.let_browser_draw()
        assert other.has.is_set()
        other.end()


DIES = """
import os, sys, threading, time
from headwise.viz_app.session.marks import marked

def compute():
    with marked(("trace", "long")):
        begun.set()
        time.sleep(60)

begun = threading.Event()
with marked(("trace", "long")):
    pass
threading.Thread(target=compute, daemon=True).start()
begun.wait()
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
"""


def test_what_a_process_died_of_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    st.cache_resource.clear()
    monkeypatch.setenv(CACHE, str(tmp_path))
    stopped = subprocess.run([sys.executable, "-c", DIES, "stopped"], cwd=ROOT, check=True)
    assert stopped.returncode == 0
    with marked(("trace", "long")):  # it was told to stop, and died of nothing
        pass
    died = subprocess.run([sys.executable, "-c", DIES, "killed"], cwd=ROOT, check=False)
    assert died.returncode == -9

    def ask(key: str) -> str:
        return cached("trace", key, lambda: "computed", needs=SMALL + 1)

    with pytest.raises(CrashedBeforeError, match=r"ended while it computed this.*for 10 minutes"):
        ask("long")
    with pytest.raises(CrashedBeforeError):  # nor by the one after that
        ask("long")
    assert ask("another") == "computed"
    [mark] = (tmp_path / "computing").iterdir()  # that of the other is gone, and all locks
    os.utime(mark, (0, 0))
    assert ask("long") == "computed"
    assert [*(tmp_path / "computing").iterdir()] == []


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


def test_nobody_waits_behind_what_is_larger() -> None:
    turns = turns_of()
    long = [Page(turns, LONG) for _ in range(3)]
    moderate = [Page(turns, MODERATE) for _ in range(3)]
    assert all(page.has.wait(SOON) for page in (long[0], *moderate[:2]))
    assert not any(page.has.is_set() for page in (*long[1:], moderate[2]))
    for _ in range(4):
        ordinary = [Page(turns, SMALL) for _ in range(2)]
        assert all(page.has.wait(SOON) for page in ordinary)
        for page in ordinary:
            page.end()
    for page in (*moderate, *long):
        assert page.has.wait(SOON)
        page.end()


def test_what_another_process_computes_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    with marked("a"), marked("a"):  # another lock, as another process has
        assert len([*(tmp_path / "computing").iterdir()]) == 2
    with pytest.raises(KeyError), marked("a"):
        raise KeyError
    with marked("a"):  # an error is no death
        pass
