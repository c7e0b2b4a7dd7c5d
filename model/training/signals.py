"""Ctrl-C during a training is handled between two steps."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_between_steps() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; a second Ctrl-C exits at once.

    Only the main thread can handle Ctrl-C; in another thread nothing changes.
    """
    asked = threading.Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            sys.exit("\nstopped at once; --resume goes on from the state that was saved last")
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
