"""What is large, kept for all sessions together while it fits into one number of bytes.

What was used least recently goes first. Small results have caches of their own, bounded by entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import is_dataclass
from threading import Condition
from typing import Any, TypeVar

import numpy as np
import streamlit as st
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from model.checkpoint import Checkpoint

Result = TypeVar("Result")

MOST_BYTES = 512 * 2**20
"""Of all that is kept; the longest trace of ``en-es`` has 180 MiB."""
LEAST_BYTES = 2**20
"""As how many a small result counts: its arrays may be smaller than its lists of pieces."""


def kept(key: Hashable, compute: Callable[[], Result]) -> Result:
    """What was computed for a key, in whichever session, or is computed now.

    Of several threads that ask for the same at once, one computes; other keys do not wait for it.
    An error is not kept, nor a result of more than ``MOST_BYTES``.
    """
    result: Result = _shelf()(key, compute)
    return result


@st.cache_resource(show_spinner=False)
def _shelf() -> Callable[[Hashable, Callable[[], Any]], Any]:
    """The one of the process, even where Streamlit loads an edited module anew."""
    shelf: LRUCache[Hashable, Any] = LRUCache(MOST_BYTES, getsizeof=size_of)

    @cached(shelf, key=lambda key, _: key, condition=Condition())
    def get(key: Hashable, compute: Callable[[], Any]) -> Any:
        return compute()

    return get


def size_of(result: object) -> int:
    """Bytes of a record's arrays or a checkpoint's weights, each memory once, as the shelf counts.

    A view counts as the array that it is a view of, which it keeps alive.
    """
    if isinstance(result, Checkpoint):
        return max(LEAST_BYTES, sum(weight.nbytes for weight in result.model.parameters()))
    owners = map(_owner, _arrays(result))
    return max(LEAST_BYTES, sum({owner.ctypes.data: owner.nbytes for owner in owners}.values()))


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(result: object) -> Iterator[NDArray[Any]]:
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from _arrays(value)
    elif is_dataclass(result):
        yield from _arrays(vars(result))
