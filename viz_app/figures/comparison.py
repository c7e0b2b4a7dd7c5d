"""A table that compares values of one column with those of others; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headwise.viz_app.figures.theme import Theme

_STYLE = """
.comparison {{ overflow-x: auto; color: {text}; font-size: .85rem; line-height: 1.35; }}
.comparison:focus-visible {{ outline: 2px solid {accent}; }}
.comparison table {{ border-collapse: collapse; width: 100%; min-width: 46rem; margin: 0; }}
.comparison th, .comparison td {{
  border: 0; border-bottom: 1px solid {line}; padding: .3rem .5rem; text-align: left;
  vertical-align: baseline;
}}
.comparison thead th {{ color: {muted}; font-weight: 400; }}
.comparison tbody th {{ font-weight: 400; white-space: nowrap; }}
.comparison td.own {{ font-weight: 600; background: color-mix(in srgb, {line} 30%, transparent); }}
.comparison td.same {{ color: {muted}; }}
.comparison td.other {{ color: {accent}; font-weight: 600; white-space: nowrap; }}
.comparison td.note {{ color: {text}; min-width: 12rem; }}
@media (max-width: 640px) {{ .comparison td.note {{ min-width: 22rem; }} }}
"""


def comparison_table(
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str], str]],
    *,
    theme: Theme,
    notes: str,
) -> str:
    """Return a table as HTML that marks ``≠`` what differs from the value in the first column.

    Args:
        columns: names of the columns.
        rows: label, a value for each column, and a note.
        theme: colours.
        notes: title of the column of notes.

    Raises:
        ValueError: if a row does not have a value for each column.
    """
    for label, values, _ in rows:
        if len(values) != len(columns):
            raise ValueError(f"{label}: expected {len(columns)} values, got {len(values)}")
    style = _STYLE.format(text=theme.text, muted=theme.muted, line=theme.line, accent=theme.accent)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["", *columns, notes])
    body = "".join(_row(*row) for row in rows)
    return (
        '<div class="comparison" tabindex="0" role="region" aria-label="Presets"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table><style>{style}</style></div>"
    )


def _row(label: str, values: Sequence[str], note: str) -> str:
    own, *others = values
    cells = f'<td class="own">{escape(own)}</td>'
    for value in others:
        kind, sign = ("same", "") if value == own else ("other", "≠ ")
        cells += f'<td class="{kind}">{sign}{escape(value)}</td>'
    mark = "≠ " if any(value != own for value in others) else ""
    return (
        f'<tr><th scope="row">{mark}{escape(label)}</th>{cells}'
        f'<td class="note">{escape(note)}</td></tr>'
    )
