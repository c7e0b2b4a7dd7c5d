"""Ctrl-C in a whole training: see test_training.py and test_processes.py."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from model.signals import interrupt_between_steps


def test_an_interrupt_is_a_question_and_a_second_one_an_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupt_between_steps() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(SystemExit, match="stopped at once; --resume goes on"):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_in_another_thread_nothing_is_taken_over() -> None:
    before = signal.getsignal(signal.SIGINT)

    def look() -> object:
        with interrupt_between_steps() as asked:
            assert not asked()
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(look).result() == before
