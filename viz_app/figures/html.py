"""Draws HTML: tokens in a row, as a padded batch, in the lens; and what a model is made of.

The modules are a tree that can be folded; a model's settings stand beside others. Every text is
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.figures.theme import (
    Theme,
    by_root,
    difference_scale,
    text_on_weight,
    weight_colour,
    weight_scale,
)
from headwise.viz_app.records.model import HookPointNode, ModuleNode
from headwise.viz_app.records.trace import Floats

_TOKEN = (
    "display:inline-block;padding:1px 6px;margin:2px 3px 2px 0;border-radius:4px;"
    "border:1px solid {border};background:{background};color:{colour}"
)
_WITH_NUMBER = "display:inline-flex;flex-direction:column;align-items:center;vertical-align:top"
_NUMBER = "font-size:.7rem;line-height:1;margin-right:3px;"
_MOST_COLUMNS, _FIRST = 16, 4  # of wider batches, those without padding at both ends only


def token_colours(theme: Theme, probability: float | None) -> dict[str, str]:
    """Return the ``background`` of a token and the ``colour`` of its text, as CSS has them."""
    if probability is None:
        return {"background": "transparent", "colour": theme.text}
    return {
        "background": weight_colour(theme, probability),
        "colour": text_on_weight(theme, probability),
    }


def language_tag(language: str) -> str:
    """Return a language as HTML names it (BCP 47), such as ``eng-Latn`` of ``eng_Latn``.

    What is no code, as of a task with symbols, becomes ``zxx``: no language.
    """
    tag = language.replace("_", "-")
    return tag if re.fullmatch(r"([a-zA-Z]{2,3}(-[a-zA-Z0-9]+)*)?", tag) else "zxx"


def folded_text(text: str) -> str:
    """Return a text as HTML that a style may fold to a few lines: a click shows all of it."""
    return f'<details class="folded"><summary><bdi>{escape(text)}</bdi></summary></details>'


def token_row(
    labels: Sequence[str],
    *,
    theme: Theme,
    probabilities: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    selected: int | None = None,
    language: str = "",
) -> str:
    """Return tokens in reading order as HTML.

    Probabilities shade the tokens and stand below them as numbers, ``titles`` are shown when the
    mouse rests on a token, ``selected`` is framed, and the code of the language is for screen
    readers and fonts.
    """
    tokens = []
    for index, label in enumerate(labels):
        weight = probabilities[index] if probabilities is not None else None
        border = theme.accent if index == selected else theme.line
        style = _TOKEN.format(border=border, **token_colours(theme, weight))
        title = f' title="{escape(titles[index])}"' if titles is not None else ""
        token = f'<bdi style="{style}"{title}>{escape(label)}</bdi>'
        if weight is not None:
            number = escape(short_probability(weight))
            below = f'<small style="{_NUMBER}color:{theme.muted}">{number}</small>'
            token = f'<span style="{_WITH_NUMBER}">{token}{below}</span>'
        tokens.append(token)
    return (
        f'<div class="tokens" lang="{language_tag(language)}" dir="auto" '
        f'style="line-height:1.7;font-size:1.05rem">{"".join(tokens)}</div>'
    )


def short_probability(probability: float) -> str:
    """Write a probability with two digits after the point."""
    return f"{probability:.2f}" if probability >= 0.005 else "<.01"


def scale_legend(theme: Theme, name: str, *, masked: bool = False, signed: bool = False) -> str:
    """Return what shades of a scale mean, as HTML: a bar from 0 to 1, and the colour of masks.

    A ``signed`` scale is that of differences, from -1 to 1.
    """
    scale = difference_scale(theme) if signed else weight_scale(theme)
    stops = ",".join(f"{colour} {100 * at:.0f}%" for at, colour in scale)
    bar = (
        f"display:inline-block;width:5rem;height:.6rem;border:1px solid {theme.line};"
        f"background:linear-gradient(to right,{stops})"
    )
    said, least = (name, "−1") if signed else (by_root(name), "0")
    square = f"display:inline-block;width:.7rem;height:.7rem;background:{theme.masked}"
    grey = f' · <span style="{square}"></span> masked'
    return (
        f'<span style="font-size:.85rem;color:{theme.muted}">{said}: '
        f'<span style="white-space:nowrap">{least} <span style="{bar}"></span> 1</span>'
        f"{grey if masked else ''}</span>"
    )


def padding_rows(
    tokens: Sequence[Sequence[str]],
    allowed: NDArray[np.bool_],
    *,
    rows: Sequence[str],
    language: str = "",
) -> str:
    """Return a padded batch as an HTML table; masked cells have a dashed border and ``×``.

    ``tokens`` has a label for each key, for each row; ``allowed`` is the padding mask, bool (rows,
    keys); ``rows`` say what each row is. Of many columns, most of those without padding are left
    out; a cell ``… n more`` says so.
    """
    padded = np.asarray(~allowed.all(axis=0))
    few, last = len(padded) <= _MOST_COLUMNS, int(np.flatnonzero(~padded)[-1])
    kept = [few or bool(pads) or at < _FIRST or at == last for at, pads in enumerate(padded)]
    body = ""
    for name, labels, seen in zip(rows, tokens, allowed, strict=True):
        cells = ""
        for shown, columns in groupby(range(len(labels)), kept.__getitem__):
            if not shown:
                cells += f'<td class="more">… {len([*columns])} more</td>'
                continue
            for at in columns:
                kind, title, sign = ("masked", "masked", " ×")
                if seen[at]:
                    kind, title, sign = ("allowed", "may attend", "")
                label = f"<bdi>{escape(labels[at])}</bdi>{sign}"
                cells += f'<td class="{kind}" title="{title}">{label}</td>'
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    named = f"Padding mask, {len(rows)} row{'s' * (len(rows) > 1)}"
    table = f'<table lang="{language_tag(language)}"><tbody>{body}</tbody></table>'
    return region("padding", named, table)


def region(name: str, label: str, table: str) -> str:
    """Return a table as a part of a page that keys can scroll; the style of pages has its class."""
    return f'<div class="{name}" tabindex="0" role="region" aria-label="{label}">{table}</div>'


def lens_table(
    labels: Sequence[Sequence[str]],
    probabilities: Floats,
    *,
    actual: NDArray[np.bool_],
    notes: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    theme: Theme,
    language: str = "",
) -> str:
    """Return a table as HTML, a row for each step and a column for each layer.

    A cell has the likeliest token, shaded by its probability on the scale of attention weights, all
    (T, C); where it is the one that is ``actual`` it is framed, with ``✓``. The mouse reads
    notes.
    """
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in (row_title, *columns))
    body = ""
    for row, name in enumerate(rows):
        body += f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>'
        for column in range(len(columns)):
            p, hit = float(probabilities[row, column]), bool(actual[row, column])
            kind = ' class="actual"' * hit
            body += (
                f'<td{kind} title="{escape(notes[row][column])}" '
                f'style="background:{weight_colour(theme, p)};color:{text_on_weight(theme, p)}">'
                f"{'✓ ' if hit else ''}<bdi>{escape(labels[row][column])}</bdi></td>"
            )
        body += "</tr>"
    sums = "".join(f"<td>{hits} of {len(rows)}</td>" for hits in actual.sum(axis=0))
    table = (
        f'<table lang="{language_tag(language)}"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{body}</tbody><tfoot><tr><th scope="row">✓ at so many positions</th>{sums}</tr>'
        "</tfoot></table>"
    )
    return region("lens", "The lens", table)


_WIDTHS = ("auto", "9rem", "5rem", "5rem", "5rem", "6rem")
_HEADS = ("part", "shape", "mean", "std. dev.", "mean norm", "parameters")


def module_tree_html(root: ModuleNode, *, unfolded: int = 3) -> str:
    """Return a tree of modules with their parameter counts, and of hook points with statistics.

    The row of a hook point has its full name as ``data-hook``, that of a module as ``data-module``.
    At first, ``unfolded`` levels are open.
    """
    return f'<div class="modules">{_details(root, unfolded)}</div>'


def _details(module: ModuleNode, unfolded: int) -> str:
    path = f"<code>{escape(module.path)}</code>" if module.path else ""
    formula = f'<span class="formula">{escape(module.formula)}</span>' if module.formula else ""
    opened = ' open=""' * (unfolded > 0)
    body = ""
    # A child with nothing to fold is a row of a table.
    for is_row, children in groupby(
        module.children, lambda child: not getattr(child, "children", ())
    ):
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
        tied = [p.shared_with for p in child.parameters if p.shared_with is not None]
        said = [*filter(None, [child.formula]), *(f"tied to {one}, counted there" for one in tied)]
        words = "; ".join(said)
        shapes = " + ".join(_shape(parameter.shape) for parameter in child.parameters)
        cells = [shapes, "", "", "", f"{child.total:,}"]
    columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return (
        f'<tr data-{key}="{escape(child.path)}"><td title="{escape(child.path)}">'
        f"<code>{escape(name)}</code> <small>{escape(words)}</small></td>{columns}</tr>"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)


def comparison_table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str], str]]) -> str:
    """Return a table as HTML that marks ``≠`` what differs from the value in the first column.

    A row has a label, below which its note unfolds, and a value for each column.
    """
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["setting", *columns])
    body = ""
    for label, (own, *others), note in rows:
        cells = f'<td class="own">{escape(own)}</td>'
        for value in others:
            kind, sign = ("same", "") if value == own else ("other", "≠ ")
            cells += f'<td class="{kind}">{sign}{escape(value)}</td>'
        mark = "≠ " if any(value != own for value in others) else ""
        about = f"<details><summary>{mark}{escape(label)}</summary>{escape(note)}</details>"
        body += f'<tr><th scope="row">{about}</th>{cells}</tr>'
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return region("comparison", "Presets", table)
