"""Compute a result once for all sessions of the process, log it, and keep it while there is room.

``cached`` is the only cache of the pages. Keys are plain values; where a result comes from files,
the key has their stamps, so that a replaced file is read again. Arrays and models are cached, never
figures. Bounds are in bytes: a bound on how many results there are would be none, since an account
of a sentence of 600 tokens takes a thousand times what one of ten takes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Condition
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeVar

import cachetools
import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.model.files import CheckpointError
from headwise.viz_app.session.log import Facts, log_timed
from headwise.viz_app.session.marks import marked
from headwise.viz_app.session.turns import SMALL, stop_if_unwanted, turns

Result = TypeVar("Result")
Stamp = tuple[int, int]
"""Time of a file's last change in nanoseconds, and its size in bytes."""

MOST_BYTES = 352 * 2**20
"""Most bytes of all large results together; the longest trace of ``en-es`` has 207 MiB, and the
maps of another checkpoint that is compared with it 141."""
SMALL_BYTES = 64 * 2**20
"""Most bytes of all small results together, which large ones do not drive out."""
MODEL_BYTES = 256 * 2**20
"""Most bytes of the weights of all models together; a larger one is kept alone."""


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


def cached(
    what: str,
    key: Hashable,
    compute: Callable[[], Result],
    *,
    model_bytes: int | None = None,
    facts: Callable[[Result], Facts] = lambda _: {},
    says: str = "",
    needs: int = 0,
) -> Result:
    """Return the result that is cached for a key, or compute, log and cache it.

    Of several threads that ask for one key at once, one computes, and the others wait for it; other
    keys do not wait. An error is not cached, nor a result of more than ``MOST_BYTES``. When a bound
    is reached, the result that was used least recently is dropped. A dict that is filled after it
    was returned is measured again whenever it is asked for.

    Args:
        what: the kind of result, as it is logged; each has keys of its own.
        key: what identifies the result among those of its kind.
        compute: makes the result.
        model_bytes: size of the weights, if the result is a model: to add up all of its objects
            takes half as long as to decode. Models share ``MODEL_BYTES``; one that is larger is
            kept alone. Others leave before it is loaded, so that memory need not hold both.
        facts: what is logged of a result, besides the time that it took.
        says: what the page says there, with the seconds, while it takes longer than half of one.
        needs: the most bytes that it takes while it is computed. If they are not free, it waits
            for others to end, and the page says so.

    Raises:
        OutOfMemoryError: if ``needs`` is more than there is.
        CrashedBeforeError: if it is large, and a process has ended while it computed the same.
    """

    def compute_and_log() -> Result:
        waiting = st.spinner(says, show_time=True) if says else nullcontext()
        mark = marked((what, key)) if needs > SMALL else nullcontext()
        with mark, waiting, log_timed(what) as logged:
            result = compute()
            logged |= facts(result)
        return result

    if model_bytes is not None:
        model: Result = _models().get((what, key), compute_and_log, size=model_bytes).result
        return model
    results, name = _results(), (what, key)
    # Also a large result that is there is taken in turn: else pages would hold many that the cache
    # has dropped since, while they wait for more.
    in_turn = in_memory(needs, lambda: name in results)
    with nullcontext() if results.has_small(name) else in_turn:
        result: Result = results.get(name, compute_and_log).result
    return result


@contextmanager
def in_memory(needs: int, is_there: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Have the turn and the memory for the ``with`` block; while they are waited for, say so.

    ``is_there`` says whether its result is in memory by now, so that it takes no more.
    """
    places: list[DeltaGenerator] = []
    said: list[int] = []

    def say(before: int) -> None:
        stop_if_unwanted()
        if said == [before]:
            return
        said[:] = [before]
        places[:] = places or [st.empty()]
        others = f"; {before} before this" if before else ""
        places[0].info(f"Waiting until there is memory for this{others}.")

    with ExitStack() as reserved:
        reserved.enter_context(
            turns().reserved(needs, is_there=is_there, on_wait=say, make_room=drop_large)
        )
        for place in places:
            place.empty()
        yield


def drop_large() -> bool:
    """Drop all large results; return whether there were any."""
    return _results().drop_large()


def drop_unused(everything: bool) -> bool:
    """Drop large results, or all, and all models but the last; return whether there were any.

    (So nobody who comes back waits for the model to be loaded again.)
    """
    dropped = [drop_large(), _models().drop_large(but=1)]
    return any([*dropped, everything and _results().drop_small()])


def is_cached(what: str, key: Hashable) -> bool:
    """Return whether ``cached`` has a result for a key, and need not compute it."""
    return any((what, key) in kept for kept in (_results(), _models()))


@st.cache_resource(show_spinner=False)
def _results() -> Kept:
    """Return the results that the process keeps.

    (A variable of this module would be made again when Streamlit loads an edited module.)
    """
    return Kept(MOST_BYTES, small=SMALL_BYTES)


@st.cache_resource(show_spinner=False)
def _models() -> Kept:
    """Return the models that the process keeps, of which the last one always fits."""
    return Kept(MODEL_BYTES, alone=True)


class Loader:
    """Loads what will be asked for next, in one thread for all sessions."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "loader")
        self.latest: Future[object] | None = None

    def load(self, function: Callable[[], object]) -> None:
        """Call a function, but not while another is called: it would come too late to be of use."""
        if self.latest is None or self.latest.done():
            self.latest = self._thread.submit(function)


@st.cache_resource(show_spinner=False)
def loader() -> Loader:
    """Return the loader of the process."""
    return Loader()


@st.cache_resource(show_spinner=False)
def _recipes() -> dict[int, Callable[[], Any]]:
    """Return, for each result in use that has a recipe, by its identity, what gives it again."""
    return {}


def note_recipe(result: object, recipe: Callable[[], Any]) -> None:
    """Note what gives a result again, for as long as the result is in use."""
    recipes = _recipes()
    if id(result) not in recipes:
        weakref.finalize(result, recipes.pop, id(result), None)
        recipes[id(result)] = recipe


def recipe_of(result: object) -> Callable[[], Any] | None:
    """Return what gives a result again, if that was noted.

    Whoever may need a large result later keeps this, and not the result, which would take its
    memory from others for as long.
    """
    return _recipes().get(id(result))


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file; a ``CheckpointError`` if the system does not give its status."""
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    return status.st_mtime_ns, status.st_size


def stamp_if_there(path: Path) -> Stamp | None:
    """Return the stamp of a file, or None if there is no such file."""
    try:
        return stamp_of(path)
    except CheckpointError:
        return None


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
