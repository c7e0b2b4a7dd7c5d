"""What a model is made of, as HTML: the tree of its modules, and its settings beside others.

The tree can be folded. Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from headwise.viz_app.figures.tokens import region
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter

_WIDTHS = ("auto", "9rem", "5rem", "5rem", "5rem", "6rem")
_HEADS = ("part", "shape", "mean", "std. dev.", "mean norm", "parameters")


def module_tree_html(root: ModuleNode, *, unfolded: int = 3) -> str:
    """Return a tree of modules with their parameter counts, and of hook points with statistics.
    The row of a hook point has its full name as ``data-hook``, that of a module as ``data-module``.
    At first, ``unfolded`` levels are open."""
    return f'<div class="modules">{_details(root, unfolded)}</div>'


def _details(module: ModuleNode, unfolded: int) -> str:
    path = f"<code>{escape(module.path)}</code>" if module.path else ""
    formula = f'<span class="formula">{escape(module.formula)}</span>' if module.formula else ""
    opened = ' open=""' * (unfolded > 0)
    body = ""
    for is_row, children in groupby(module.children, _is_row):
        if is_row:
            rows = "".join(_row(child, module.path) for child in children)
            body += (
                f'<div class="table" tabindex="0"><table>{_HEAD}<tbody>{rows}</tbody></table></div>'
            )
        else:
            body += "".join(
                _details(child, unfolded - 1) for child in children if isinstance(child, ModuleNode)
            )
    return (
        f'<details{opened} data-module="{escape(module.path)}"><summary><span>'
        f'<span class="title">{escape(module.title)}</span>{path} '
        f"<small>{escape(module.what)}</small>{formula}</span>"
        f'<span class="count" title="parameters">{module.total:,}</span></summary>{body}</details>'
    )


def _is_row(child: ModuleNode | HookPointNode) -> bool:
    """Whether a child is a row of the table, with nothing to fold."""
    return isinstance(child, HookPointNode) or not child.children


_HEAD = (
    "<colgroup>"
    + "".join(f'<col style="width:{width}"/>' for width in _WIDTHS)
    + "</colgroup><thead><tr>"
    + "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    + "</tr></thead>"
)


def _row(child: ModuleNode | HookPointNode, parent: str) -> str:
    name = child.path.removeprefix(parent)
    if isinstance(child, HookPointNode):
        seen = child.summary
        key, words = "hook", child.meaning
        numbers = [f"{n:z,.3f}" for n in (seen.mean, seen.standard_deviation, seen.norm)]
        cells = [_shape(seen.shape), *numbers, ""]
    else:
        key = "module"
        words = "; ".join(filter(None, [child.formula, *map(_shared, child.parameters)]))
        shapes = " + ".join(_shape(parameter.shape) for parameter in child.parameters)
        cells = [shapes, "", "", "", f"{child.total:,}"]
    columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return (
        f'<tr data-{key}="{escape(child.path)}"><td title="{escape(child.path)}">'
        f"<code>{escape(name)}</code> <small>{escape(words)}</small></td>{columns}</tr>"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)


def _shared(parameter: Parameter) -> str:
    tied = parameter.shared_with
    return "" if tied is None else f"tied to {tied}, counted there"


def comparison_table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str], str]]) -> str:
    """Return a table as HTML that marks ``≠`` what differs from the value in the first column.
    A row has a label, below which its note unfolds, and a value for each column."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["setting", *columns])
    body = "".join(_compared(*row) for row in rows)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return region("comparison", "Presets", table)


def _compared(label: str, values: Sequence[str], note: str) -> str:
    own, *others = values
    cells = f'<td class="own">{escape(own)}</td>'
    for value in others:
        kind, sign = ("same", "") if value == own else ("other", "≠ ")
        cells += f'<td class="{kind}">{sign}{escape(value)}</td>'
    mark = "≠ " if any(value != own for value in others) else ""
    about = f"<details><summary>{mark}{escape(label)}</summary>{escape(note)}</details>"
    return f'<tr><th scope="row">{about}</th>{cells}</tr>'
