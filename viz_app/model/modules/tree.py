"""Building the tree of a model's modules, parameters and hook points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwise.model.interface import Description
from headwise.viz_app.analysis.formulas import describe_module, describe_point
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary


def mark_tied_parameters(
    tensors: Iterable[tuple[str, tuple[int, ...], int]],
) -> tuple[Parameter, ...]:
    """Make parameters from names, shapes and identities; equal identities mark tied tensors."""
    first: dict[int, str] = {}
    parameters = []
    for name, shape, identity in tensors:
        shared = first.setdefault(identity, name)
        parameters.append(Parameter(name, shape, shared if shared != name else None))
    return tuple(parameters)


def build_module_tree(
    names: Sequence[str],
    parameters: Sequence[Parameter],
    summary: Sequence[HookSummary],
    model: Description,
) -> ModuleNode:
    """Build the tree of the modules that have a parameter or a hook point, in order of ``names``.

    Names are the paths of all modules, parents first, from the root ``""``. A residual connection
    has the children of its norm. ValueError if a parameter or a hook point belongs to no module.
    """
    own: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        own.setdefault(parameter.name.rpartition(".")[0], []).append(parameter)
    points = {seen.name: HookPointNode(seen, describe_point(seen.name, model)) for seen in summary}
    if strange := sorted({*own, *points} - set(names)):
        raise ValueError(f"expected parameters and hook points of the modules, got {strange[0]}")
    below: dict[str, list[str]] = {}
    for name in names:
        if name:
            below.setdefault(name.rpartition(".")[0], []).append(name)

    def build(path: str) -> ModuleNode:
        children: list[ModuleNode | HookPointNode] = []
        for name in below.get(path, ()):
            if name in points:
                children.append(points[name])
                continue
            part = build(name)
            if name.endswith("_residual.norm"):
                children += part.children
            elif part.children or part.parameters:
                children.append(part)
        text = describe_module(path, model)
        return ModuleNode(
            path=path,
            title=text.title,
            what=text.what,
            formula=text.formula,
            parameters=tuple(own.get(path, ())),
            children=tuple(children),
        )

    return build("")
