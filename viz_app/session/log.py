"""Write to the terminal what the app did, on how much, and how long it took.

Nothing that people type is written, nor what was made of it: no sentence, token or address. Of an
error that a person can cause only the class is written, since its message may quote them. Control
characters, which a terminal would obey, are written as what they are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from headwise.viz_app.analysis.labels import make_visible

Facts = dict[str, str | int]
"""Name → value, as they are logged."""

_LOG = logging.getLogger(__name__)


@contextmanager
def log_timed(what: str, **facts: str | int) -> Iterator[Facts]:
    """Log that the work of a ``with`` block was done, and its milliseconds.

    The block may add facts to those given. Nothing is logged if it raises.
    """
    began = time.perf_counter()
    yield facts
    taken = 1000 * (time.perf_counter() - began)
    written = "".join(f"{name} {make_visible(str(value))}, " for name, value in facts.items())
    _LOG.info("%s: %s%.0f ms", what, written, taken)


def log_refusal(problem: Exception) -> None:
    """Log the class of an error that is shown to a person, and the function that raised it."""
    *_, (frame, _) = walk_tb(problem.__traceback__)
    place = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
    _LOG.info("refused: %s from %s", type(problem).__name__, place)


def log_failure(problem: Exception) -> None:
    """Log an error that nobody can have caused but the program, with its traceback."""
    _LOG.error("failed", exc_info=problem)
