"""Ctrl-C as a question."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_between_steps() -> Iterator[Callable[[], bool]]:
    """Make of Ctrl-C a question to ask between steps; a second one stops at once."""
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
