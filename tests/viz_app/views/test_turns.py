"""Few pages are made at once, in order, and nobody waits for a long one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from time import monotonic, sleep

import pytest

from headwise.viz_app.views.shared.turns import Turns

SOON = 30.0
"""Seconds; spent only where something is broken."""


class Page(Thread):
    """A page begins in a thread of its own, and ends when it is told to."""

    def __init__(self, turns: Turns, note: Callable[[], None] = lambda: None) -> None:
        super().__init__(daemon=True)
        self.begun, self.may_end = Event(), Event()
        self._turns, self._note = turns, note
        self.start()

    def run(self) -> None:
        with self._turns.turn():
            self._note()
            self.begun.set()
            assert self.may_end.wait(SOON)

    def end(self) -> None:
        self.may_end.set()
        self.join(SOON)


def test_so_many_are_made_at_once_and_the_next_when_one_has_ended() -> None:
    turns = Turns(2, patience=SOON)
    pages = [Page(turns) for _ in range(2)]
    assert all(page.begun.wait(SOON) for page in pages)
    third = Page(turns)
    assert not third.begun.wait(0.05)
    pages[0].end()
    assert third.begun.wait(SOON)
    for page in (pages[1], third):
        page.end()


def test_who_waits_longest_is_next() -> None:
    turns, order = Turns(1, patience=SOON), list[int]()
    first = Page(turns)
    assert first.begun.wait(SOON)
    waiting = []
    until = monotonic() + SOON
    for number in range(5):
        waiting.append(Page(turns, partial(order.append, number)))
        while turns.waiting() <= number:
            assert monotonic() < until
            sleep(0.001)
    for page in (first, *waiting):
        page.end()
    assert order == [0, 1, 2, 3, 4]


def test_nobody_waits_long_for_a_long_computation() -> None:
    turns = Turns(1, patience=0.05)
    long = Page(turns)
    assert long.begun.wait(SOON)
    others = [Page(turns) for _ in range(3)]
    assert all(page.begun.wait(SOON) for page in others)
    for page in (long, *others):
        page.end()


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns(1, patience=SOON)
    with pytest.raises(KeyError), turns.turn():
        raise KeyError
    with turns.turn():
        pass
