"""Ctrl-C in a whole training is tested in test_loop.py and test_processes.py."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwise.model.training.signals import interrupt_between_steps


def test_an_interrupt_sets_the_flag_and_a_second_one_exits() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupt_between_steps() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(SystemExit, match="stopped at once; --resume goes on"):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_in_another_thread_the_handler_is_not_changed() -> None:
    before = signal.getsignal(signal.SIGINT)

    def look() -> object:
        with interrupt_between_steps() as asked:
            assert not asked()
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(look).result() == before
