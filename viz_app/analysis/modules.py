"""The tree of a model's modules, from their names, its parameters and what hook points saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from viz_app.analysis.formulas import Variant, describe_module, describe_point
from viz_app.module_records import Module, Parameter, Point
from viz_app.records import HookSummary


def counted_once(
    tensors: Iterable[tuple[str, tuple[int, ...], int]],
) -> tuple[Parameter, ...]:
    """Parameters from their names, shapes and identities; those of one identity are tied."""
    first: dict[int, str] = {}
    parameters = []
    for name, shape, identity in tensors:
        shared = first.get(identity)
        first.setdefault(identity, name)
        parameters.append(Parameter(name, shape, shared))
    return tuple(parameters)


def module_tree(
    names: Sequence[str],
    parameters: Sequence[Parameter],
    summary: Sequence[HookSummary],
    variant: Variant,
) -> Module:
    """The modules that hold a parameter or a hook point, in the order of ``names``.

    The norm inside a residual connection is no level of its own: the residual has what it holds.

    Args:
        names: paths of all modules, the root ``""`` first, a module before what it holds.
        parameters: all, tied ones at each of their places.
        summary: of all hook points.
        variant: decides the formulas.

    Raises:
        ValueError: if a parameter or a hook point belongs to no module.
    """
    own: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        own.setdefault(parameter.name.rpartition(".")[0], []).append(parameter)
    points = {seen.name: Point(seen, describe_point(seen.name, variant)) for seen in summary}
    if strange := sorted({*own, *points} - set(names)):
        raise ValueError(f"expected parameters and hook points of the modules, got {strange[0]}")
    below: dict[str, list[str]] = {}
    for name in names:
        if name:
            below.setdefault(name.rpartition(".")[0], []).append(name)
    return _build("", below, own, points, variant)


def _build(
    path: str,
    below: Mapping[str, Sequence[str]],
    own: Mapping[str, Sequence[Parameter]],
    points: Mapping[str, Point],
    variant: Variant,
) -> Module:
    children: list[Module | Point] = []
    for name in below.get(path, ()):
        if name in points:
            children.append(points[name])
            continue
        part = _build(name, below, own, points, variant)
        if name.endswith("_residual.norm"):
            children += part.children
        elif part.children or part.parameters:
            children.append(part)
    text = describe_module(path, variant)
    return Module(
        path=path,
        title=text.title,
        what=text.what,
        formula=text.formula,
        parameters=tuple(own.get(path, ())),
        children=tuple(children),
    )
