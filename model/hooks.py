"""Hook points: named places in the model whose tensor can be read (capture) or replaced (edit).

A ``HookPoint`` is an identity module; its name is its module path, so ``named_modules`` is the only
list of names (the idea is TransformerLens'). Captures and edits are stored per thread, not on the
module: sessions that share one model cannot see each other's tensors, and no lock is needed.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Protocol

from torch import Tensor, nn

Edit = Callable[[Tensor], Tensor]
NamedEdit = Callable[[Tensor, str], Tensor]
"""An edit that is given the name of the hook point too."""


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


def matching_names(model: HasModules, patterns: Iterable[str]) -> list[str]:
    """Return the names that patterns such as ``decoder.*.weights`` stand for, each once, in order.

    ``*`` stands for any text, dots included, ``?`` for a character and ``[01]`` for one of some. A
    pattern that no hook point matches is a ValueError; a name without such signs is taken as it is.
    """
    known: list[str] = []
    found: dict[str, None] = {}
    for pattern in patterns:
        if not any(sign in pattern for sign in "*?["):
            found[pattern] = None
            continue
        known = known or hook_names(model)
        matches = [name for name in known if fnmatchcase(name, pattern)]
        if not matches:
            raise ValueError(f"no hook point matches {pattern!r}{_hint(pattern, known)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else "; hook_names lists them"


def _find(model: HasModules, names: Iterable[str]) -> dict[str, HookPoint]:
    found = {}
    for name in matching_names(model, [names] if isinstance(names, str) else names):
        try:
            point = attrgetter(name)(model)  # get_submodule takes twenty times as long
        except AttributeError:
            point = None
        if not isinstance(point, HookPoint):
            raise ValueError(f"no hook point named {name!r}{_hint(name, hook_names(model))}")
        found[name] = point
    return found


@contextmanager
def _used(
    kind: Literal["edits", "records"], opened: Sequence[tuple[HookPoint, Any]]
) -> Iterator[None]:
    """Use hook points in this thread; at the end each item is removed where it was last added."""
    for point, item in opened:
        getattr(_thread.uses.setdefault(point, _Uses()), kind).append(item)
    try:
        yield
    finally:
        for point, item in opened:
            uses = _thread.uses[point]
            items = getattr(uses, kind)  # two records can be equal while empty
            del items[max(index for index, one in enumerate(items) if one is item)]
            if not uses.edits and not uses.records:
                del _thread.uses[point]


@contextmanager
def capture(model: HasModules, names: Iterable[str]) -> Iterator[dict[str, list[Tensor]]]:
    """Record tensors at hook points while the calling thread runs the model.

    Names may be patterns, as for ``matching_names``. Yield for each hook point its tensors, in call
    order, after any edits. A name that is not that of a hook point is a ValueError.

    Where scores or weights are recorded, or edited, attention is computed step by step and not
    fused, which rounds differently: results move by some units of the last digit.
    """
    points = _find(model, names)
    seen: dict[str, list[Tensor]] = {name: [] for name in points}
    with _used("records", [(point, seen[name]) for name, point in points.items()]):
        yield seen


@contextmanager
def edit(model: HasModules, edits: Mapping[str, Edit | NamedEdit]) -> Iterator[None]:
    """Replace tensors at hook points while the calling thread runs the model.

    ``edits`` has by name, or by a pattern as for ``matching_names``, a function from the tensor to
    its replacement, of the same shape; a function of two arguments is given the name as well. A
    name that is not that of a hook point is a ValueError at once, another shape in the pass. If a
    key or value is replaced, a decoding cache stores the replacement.

    An empty mapping changes nothing, to the bit. An edit of scores or weights that returns what it
    is given moves results by some units of the last digit, since attention is then not fused.
    """
    opened: list[tuple[HookPoint, Edit]] = []
    for pattern, function in edits.items():
        takes_name = _takes_name(function)
        for name, point in _find(model, [pattern]).items():
            one: Any = function
            opened.append((point, partial(_with_name, one, name) if takes_name else one))
    with _used("edits", opened):
        yield


def call_before_layers(model: HasModules, function: Callable[[], None]) -> None:
    """Call a function before each layer, in the thread that runs it; an exception ends the pass."""

    def hook(*_: object) -> None:
        function()

    for _, module in model.named_modules():
        for layer in module if isinstance(module, nn.ModuleList) else ():
            layer.register_forward_pre_hook(hook)


def is_edited(model: HasModules) -> bool:
    """Return whether the calling thread replaces tensors at hook points of a model."""
    edited = [point for point, uses in _thread.uses.items() if uses.edits]
    return bool(edited) and any(module in edited for _, module in model.named_modules())


def _with_name(function: Any, name: str, x: Tensor) -> Tensor:
    return function(x, name)


def _takes_name(function: Edit | NamedEdit) -> bool:
    """Return whether a function can only be called with two arguments, not with one."""
    with suppress(TypeError, ValueError):  # functions of PyTorch have no signature
        signature = inspect.signature(function)
        try:
            signature.bind("tensor")
        except TypeError:
            return bool(signature.bind("tensor", "name").args)
    return False


def copy_without_hooks(model: nn.Module, *, shared: Iterable[Tensor] = ()) -> nn.Module:
    """Copy a model without hooks and gradients, and its weights but those that are shared.

    One that is on no device, or cannot be copied, is a ValueError.
    """
    memo: dict[int, Any] = {id(tensor): tensor for tensor in shared}
    for module in model.modules():
        for attribute, value in vars(module).items():
            if "_hooks" in attribute and isinstance(value, dict):
                memo[id(value)] = type(value)()  # what the copy has in its place
    if any(tensor.is_meta for tensor in model.parameters()):
        raise ValueError("expected a model whose weights are in memory, got some on no device")
    try:
        return copy.deepcopy(model, memo)
    except RuntimeError as error:
        raise ValueError(
            f"the model cannot be copied ({error!s:.200}); save it, and open the folder"
        ) from error
