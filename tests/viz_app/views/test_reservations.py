"""Who waits for memory, in which order, who is told what, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from headwise.viz_app.views.shared.reservations import SMALL, Memory, OutOfMemoryError
from headwise.viz_app.views.shared.turns import Turns

MIB = 2**20
SOON = 120.0
"""Seconds; spent only where something is broken."""


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


def test_a_page_keeps_what_it_has_reserved_and_gets_more_before_others_begin() -> None:
    memory = memory_of(1000)
    with memory.page():
        with memory.reserved(400 * MIB):
            pass
        another = Taker(memory, 700 * MIB)  # it would fit, if the page gave back what it has
        assert another.waits.wait(SOON)
        with memory.page(), memory.reserved(900 * MIB):  # a part of the page
            assert not another.has.is_set()
        with memory.reserved(100 * MIB):
            assert not another.has.is_set()
    assert another.has.wait(SOON)
    another.end()
    assert memory._reserved == 0


def test_a_page_that_has_something_of_the_cache_comes_before_those_that_have_nothing() -> None:
    memory = memory_of(1000)
    first = Taker(memory, 900 * MIB)
    assert first.has.wait(SOON)
    second = Taker(memory, 600 * MIB)
    assert second.waits.wait(SOON)
    waits, inside, may_end = Event(), Event(), Event()

    def draw() -> None:
        with memory.page():
            memory.hold(50 * MIB)
            with memory.reserved(600 * MIB, on_wait=lambda _: waits.set()):
                inside.set()
                assert may_end.wait(SOON)

    page = Thread(target=draw, daemon=True)
    page.start()
    assert waits.wait(SOON)
    first.end()
    assert inside.wait(SOON)
    assert not second.has.is_set()
    may_end.set()
    page.join(SOON)
    assert second.has.wait(SOON)
    second.end()
    memory.hold(50 * MIB)  # of no page
    assert memory._reserved == 0


def test_pages_that_wait_for_each_other_are_refused_in_turn() -> None:
    memory = memory_of(1000)
    both, ends = Barrier(2), []

    def draw() -> None:
        try:
            with memory.page():
                with memory.reserved(400 * MIB):
                    both.wait(SOON)
                with memory.reserved(700 * MIB):
                    ends.append("drawn")
        except OutOfMemoryError:
            ends.append("refused")

    threads = [Thread(target=draw, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert sorted(ends) == ["drawn", "refused"]


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
