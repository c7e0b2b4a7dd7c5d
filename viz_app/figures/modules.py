"""The tree of a model's modules as nested HTML that can be folded; every text is escaped."""

from __future__ import annotations

from html import escape
from itertools import groupby

from headwise.viz_app.figures.theme import Theme
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter

_STYLE = """
.modules {{ color: {text}; font-size: .875rem; line-height: 1.45; }}
.modules details details, .modules table {{
  margin-left: .45rem; padding-left: .9rem; border-left: 1px solid {line}; min-width: 0;
}}
.modules summary {{
  display: grid; grid-template-columns: 1rem minmax(0, 1fr) 6rem; align-items: baseline;
  padding: .2rem 0; cursor: pointer; list-style: none;
}}
.modules summary::-webkit-details-marker {{ display: none; }}
.modules summary::before {{ content: "▸"; color: {muted}; }}
.modules details[open] > summary::before {{ content: "▾"; }}
.modules summary:focus-visible {{ outline: 2px solid {accent}; outline-offset: -2px; }}
.modules summary:hover {{ background: color-mix(in srgb, {line} 35%, transparent); }}
.modules code {{ color: {muted}; background: none; padding: 0; font-size: .75rem; }}
.modules small {{ color: {muted}; font-size: .8rem; }}
.modules .title {{ font-weight: 600; margin-right: .6rem; }}
.modules .formula {{ display: block; font-family: "Source Serif", serif; font-style: italic; }}
.modules .count, .modules td + td, .modules th + th {{
  text-align: right; font-variant-numeric: tabular-nums;
}}
.modules div.table {{
  margin-left: .45rem; padding-left: .9rem; border-left: 1px solid {line}; overflow-x: auto;
}}
.modules table {{
  table-layout: fixed; width: 100%; min-width: 38rem;
  border-collapse: collapse; margin: 0; border: 0; padding: 0;
}}
.modules th {{ color: {muted}; font-weight: 400; font-size: .75rem; text-align: left; }}
.modules th, .modules td {{ border: 0; border-bottom: 1px solid {line}; padding: .1rem 0; }}
.modules td {{ vertical-align: baseline; }}
.modules td:first-child {{ overflow-wrap: anywhere; }}
"""
_WIDTHS = ("auto", "9rem", "5rem", "5rem", "5rem", "6rem")
_HEADS = ("", "shape", "mean", "std. dev.", "mean norm", "parameters")


def module_tree_html(root: ModuleNode, *, theme: Theme, unfolded: int = 3) -> str:
    """Return a tree of modules with their parameter counts, and of hook points with statistics.

    The row of a hook point has its full name as ``data-hook``, that of a module as
    ``data-module``.

    Args:
        root: the whole model.
        theme: colours.
        unfolded: levels that are open at first.
    """
    style = _STYLE.format(text=theme.text, muted=theme.muted, line=theme.line, accent=theme.accent)
    return f'<div class="modules">{_details(root, unfolded)}<style>{style}</style></div>'


def _details(module: ModuleNode, unfolded: int) -> str:
    path = f"<code>{escape(module.path)}</code>" if module.path else ""
    formula = f'<span class="formula">{escape(module.formula)}</span>' if module.formula else ""
    opened = ' open=""' * (unfolded > 0)
    body = ""
    for is_row, children in groupby(module.children, _is_row):
        if is_row:
            rows = "".join(_row(child, module.path) for child in children)
            body += f'<div class="table"><table>{_HEAD}<tbody>{rows}</tbody></table></div>'
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
        numbers = [_number(n) for n in (seen.mean, seen.standard_deviation, seen.norm)]
        cells = [_shape(seen.shape), *numbers, ""]
    else:
        key, words = (
            "module",
            "; ".join(filter(None, [child.formula, *map(_shared, child.parameters)])),
        )
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
    if parameter.shared_with is None:
        return ""
    return f"tied to {parameter.shared_with}, counted there"


def _number(value: float) -> str:
    return f"{value:z,.3f}"
