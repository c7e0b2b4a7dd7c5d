"""Compute a result once for all sessions of the process, log it, and keep it while there is room.

``cached`` is the only cache of the pages. Keys are plain values; where a result comes from files,
the key has their stamps, so that a replaced file is read again. Arrays and models are cached, never
figures.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.model.files import CheckpointError
from headwise.viz_app.session.kept import Kept
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
