"""What the app tells its terminal: what it did, on how much, and how long it took.

Never what people type, nor what was made of it: no sentence, piece or address, and of a problem its
class only, since what it says may quote a person.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

_LOG = logging.getLogger(__name__)


@contextmanager
def told(what: str, **facts: str | int) -> Iterator[dict[str, str | int]]:
    """Tell that something was done, and its milliseconds; facts may be added meanwhile."""
    began = time.perf_counter()
    yield facts
    taken = 1000 * (time.perf_counter() - began)
    said = "".join(f"{name} {value}, " for name, value in facts.items())
    _LOG.info("%s: %s%.0f ms", what, said, taken)


def tell_refusal(problem: Exception) -> None:
    """Tell the class of a problem that is shown to a person, and the function it comes from."""
    *_, (frame, _) = walk_tb(problem.__traceback__)
    place = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
    _LOG.info("refused: %s from %s", type(problem).__name__, place)
