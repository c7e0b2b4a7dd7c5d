"""Hook points: named places in the model whose tensor can be read (capture) or replaced (edit).

A ``HookPoint`` is an identity module; its name is its module path, so ``named_modules`` is the only
list of names (the idea is TransformerLens'). Captures and edits are stored per thread, not on the
module: sessions that share one model cannot see each other's tensors, and no lock is needed.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

from torch import Tensor, nn

Edit = Callable[[Tensor], Tensor]


class HasModules(Protocol):
    """Anything that has ``named_modules``, such as any PyTorch module."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield path and module of all modules."""


@dataclass
class _Uses:
    """The edits and records of one thread at one hook point."""

    edits: list[Edit] = field(default_factory=list)
    records: list[list[Tensor]] = field(default_factory=list)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.uses: dict[HookPoint, _Uses] = {}


_thread = _Thread()


class HookPoint(nn.Module):
    """An identity module whose tensor a thread can record (``capture``) or replace (``edit``)."""

    @property
    def in_use(self) -> bool:
        """Return whether this thread captures or edits here, or PyTorch hooks are registered."""
        return self in _thread.uses or bool(
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
        )

    def __call__(self, x: Tensor) -> Any:
        """Return the input directly if not in use; a pass calls about a hundred hook points."""
        return super().__call__(x) if self.in_use else x

    def forward(self, x: Tensor) -> Tensor:
        """Apply the thread's edits in the order they were opened, then record the tensor."""
        uses = _thread.uses.get(self)
        if uses is None:
            return x
        for edit_function in uses.edits:
            edited = edit_function(x)
            if not isinstance(edited, Tensor):
                raise ValueError(f"an edit must return a tensor, got {type(edited).__name__}")
            if edited.shape != x.shape:
                raise ValueError(
                    f"an edit must keep the shape: expected {tuple(x.shape)}, "
                    f"got {tuple(edited.shape)}"
                )
            x = edited
        for record in uses.records:
            record.append(x)
        return x


def hook_names(model: HasModules) -> list[str]:
    """Return the names of all hook points of a model, in the order of its modules."""
    return [name for name, module in model.named_modules() if isinstance(module, HookPoint)]


def _find(model: HasModules, names: Iterable[str]) -> dict[str, HookPoint]:
    found = {}
    for name in names:
        try:
            point = attrgetter(name)(model)  # get_submodule takes twenty times as long
        except AttributeError:
            point = None
        if not isinstance(point, HookPoint):
            near = difflib.get_close_matches(name, hook_names(model), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; hook_names() lists them"
            raise ValueError(f"no hook point named {name!r}{hint}")
        found[name] = point
    return found


def _release(point: HookPoint, uses: _Uses) -> None:
    if not uses.edits and not uses.records:
        del _thread.uses[point]


def _remove(items: list[Any], item: object) -> None:
    """Remove the last occurrence of this very object (two records can be equal while empty)."""
    for index in reversed(range(len(items))):
        if items[index] is item:
            del items[index]
            return


@contextmanager
def capture(model: HasModules, names: Iterable[str]) -> Iterator[dict[str, list[Tensor]]]:
    """Record tensors at hook points while the calling thread runs the model.

    Yield for each name its tensors, in call order, after any edits. A name that is not that of a
    hook point is a ValueError.
    """
    points = _find(model, names)
    seen: dict[str, list[Tensor]] = {name: [] for name in points}
    for name, point in points.items():
        _thread.uses.setdefault(point, _Uses()).records.append(seen[name])
    try:
        yield seen
    finally:
        for name, point in points.items():
            uses = _thread.uses[point]
            _remove(uses.records, seen[name])
            _release(point, uses)


@contextmanager
def edit(model: HasModules, edits: Mapping[str, Edit]) -> Iterator[None]:
    """Replace tensors at hook points while the calling thread runs the model.

    ``edits`` has by name a function from the tensor to its replacement, of the same shape. A name
    that is not that of a hook point is a ValueError at once, another shape in the pass. If a key or
    value is replaced, a decoding cache stores the replacement. Without edits, results are
    bit-identical.
    """
    edits = dict(edits)
    points = _find(model, edits)
    for name, point in points.items():
        _thread.uses.setdefault(point, _Uses()).edits.append(edits[name])
    try:
        yield
    finally:
        for name, point in points.items():
            uses = _thread.uses[point]
            _remove(uses.edits, edits[name])
            _release(point, uses)
