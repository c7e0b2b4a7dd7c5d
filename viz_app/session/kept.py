"""Results of the process by their keys, bounded by the bytes that they take.

A bound on how many there are would be none: an account of a sentence of 600 tokens takes a thousand
times what one of ten takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from threading import Condition
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import cachetools
import numpy as np

LARGE = 2**17
"""Bytes from which on a result, with its key, is a large one."""
_LEAST = 3 * 2**19
"""Bytes that a large one counts at least: when it goes, its small arrays leave holes in the heap,
which had 400 of 900 MiB in holes after 700 sentences."""
_WALKED = 1_000
"""Items of a longer list that are looked at to know its size."""
_OF_A_TOKEN = 256
"""Bytes that a tokenizer in Rust or C++ keeps of a token."""
_PLAIN = {str, bytes, int, float, bool}
"""Kinds of objects without parts."""
_COLLECTIONS = (list, tuple, set, frozenset)
_OF_THE_PROGRAM = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""What results refer to, and the program has anyway."""


class Sized(NamedTuple):
    """A result, and the bytes that it takes together with its key."""

    result: Any
    size: int

    @property
    def counts(self) -> int:
        """The bytes that it counts among large ones."""
        return max(self.size, _LEAST)


class Kept:
    """Results by their keys, bounded in bytes: the small ones together, and the large ones.

    Large ones come and go; small ones may have taken long to compute, and are many.
    """

    def __init__(self, large: int, *, small: int = 0, alone: bool = False) -> None:
        """Set up bounds; with ``alone`` a result that is over the bound is kept, alone.

        Without a bound for small results, all are large.
        """
        self._large: cachetools.LRUCache[Hashable, Sized] = cachetools.LRUCache(
            large, getsizeof=lambda kept: min(kept.counts, large) if alone else kept.counts
        )
        self._small: cachetools.LRUCache[Hashable, Sized] = cachetools.LRUCache(
            small, getsizeof=lambda kept: kept.size
        )
        self._condition = Condition()
        self._computed: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        with self._condition:
            return key in self._small or key in self._large

    def has_small(self, key: Hashable) -> bool:
        """Return whether there is a small result for a key."""
        with self._condition:
            return key in self._small

    def get(self, key: Hashable, compute: Callable[[], Any], *, size: int | None = None) -> Sized:
        """Return the result for a key, computed by one thread while others that want it wait.

        Of one whose ``size`` is known before, large ones leave until there is room for it.
        """
        with self._condition:
            while key in self._computed:
                self._condition.wait()
            if kept := self._small.get(key) or self._large.get(key):
                return self._keep(key, kept.result) if isinstance(kept.result, dict) else kept
            self._computed.add(key)
            while self._large and self._large.currsize + (size or 0) > self._large.maxsize:
                self._large.popitem()
        try:
            return self._keep(key, compute(), size)
        finally:
            with self._condition:
                self._computed.remove(key)
                self._condition.notify_all()

    def _keep(self, key: Hashable, result: Any, size: int | None = None) -> Sized:
        kept = Sized(result, size_of((key, result)) if size is None else size)
        store = self._small if kept.size < min(LARGE, self._small.maxsize) else self._large
        with self._condition, suppress(ValueError):  # it is too large
            self._small.pop(key, None)
            self._large.pop(key, None)
            store[key] = kept
        return kept

    def drop_large(self, *, but: int = 0) -> bool:
        """Drop the large results but for some that were used last; return whether any went."""
        with self._condition:
            dropped = len(self._large) > but
            while len(self._large) > but:
                self._large.popitem()
        return dropped

    def drop_small(self) -> bool:
        """Drop the small results; return whether there were any."""
        with self._condition:
            dropped = bool(self._small)
            self._small.clear()
        return dropped


def size_of(result: object) -> int:
    """Return the bytes of a result, each memory counted once.

    These are its arrays or tensors, and the Python objects that it is made of. A view counts as the
    whole that it keeps alive; of a long list some items stand for all; what libraries in other
    languages keep of a vocabulary is estimated.
    """
    sizes: dict[int, float] = {}
    todo = [(result, 1.0)]
    while todo:
        each, times = todo.pop()
        if id(each) in sizes or isinstance(each, _OF_THE_PROGRAM):
            continue
        if isinstance(each, np.ndarray):
            sizes[id(each)] = times * object.__sizeof__(each)
            while isinstance(each.base, np.ndarray):
                each = each.base
            sizes[each.__array_interface__["data"][0]] = each.nbytes
            continue
        sizes[id(each)] = times * sys.getsizeof(each)
        if storage := getattr(each, "untyped_storage", None):  # a tensor
            sizes[storage().data_ptr()] = storage().nbytes()
        elif counted := getattr(each, "get_vocab_size", None) or getattr(
            each, "get_piece_size", None
        ):
            sizes[id(each)] += times * _OF_A_TOKEN * counted()
        parts = _parts_of(each)
        if len(parts) > _WALKED:
            times *= len(parts) / _WALKED
            parts = parts[:: len(parts) // _WALKED][:_WALKED]
        for part in parts:
            if type(part) in _PLAIN:  # as most are: it would take as long as to read them of a file
                sizes[id(part)] = times * sys.getsizeof(part)
            else:
                todo.append((part, times))
    return round(sum(sizes.values()))


def _parts_of(each: object) -> Sequence[object]:
    """Return the objects that an object is made of."""
    if isinstance(each, dict):
        return [*each, *each.values()]
    if isinstance(each, _COLLECTIONS):
        return [*each]
    if attributes := getattr(each, "__dict__", None):
        return [*attributes.values()]
    return [*each, *each.values()] if isinstance(each, Mapping) else ()
