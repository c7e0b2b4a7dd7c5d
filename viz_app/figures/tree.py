"""Draws beam search as a tree: steps from the left, the likeliest candidate of each on top."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from headwise.viz_app.figures.theme import Theme, escape_plotly, new_figure
from headwise.viz_app.records.trace import shorten

_STEP, _ROW, _LETTER, _WIDTH = 84, 22, 7, 900  # pixels of steps, rows, letters, all
_LEFT = 0.34  # how far before its step a label begins, in steps


def beam_tree(
    parents: Sequence[int],
    *,
    steps: Sequence[int],
    labels: Sequence[str],
    notes: Sequence[str],
    outcomes: Sequence[str],
    path: Sequence[int],
    theme: Theme,
    first: int = 0,
) -> go.Figure:
    """Draw the hypotheses that a beam search looked at, with the path to one in the accent colour.

    Each has a parent, by its index, which is smaller, or -1 where none is drawn; its number of
    tokens after ``<s>``; the label of the last one; a note for the mouse; an outcome: kept, ended
    or dropped. ``path`` leads from the root to the chosen one, ``first`` is the leftmost step.
    Traces: edges to dropped hypotheses, to kept ones, of the path, then a text for each hypothesis
    in the order given.
    """
    last = max(steps)
    pixels = max(min(_STEP, _WIDTH / (last - first + 1)), 3 * _LETTER)
    longest = int((pixels - 2 * _LETTER) / _LETTER)
    shown = [shorten(label, longest) for label in labels]
    widest = dict.fromkeys(steps, 0)
    for step, label in zip(steps, shown, strict=True):
        widest[step] = max(widest[step], len(label))
    seen: dict[int, int] = {}
    rows = []
    for step in steps:
        rows.append(seen.get(step, 0))
        seen[step] = rows[-1] + 1
    chosen = set(path)
    colours = {"dropped": theme.line, "kept": theme.muted, "path": theme.accent}
    edges: dict[str, tuple[list[float | None], list[float | None]]] = {
        kind: ([], []) for kind in colours
    }
    for place, parent in enumerate(parents):
        if parent < 0:
            continue
        kind = "path" if place in chosen else "dropped" if outcomes[place] == "dropped" else "kept"
        xs, ys = edges[kind]
        # Level from behind its own text to behind the longest of its step, so that none is crossed.
        own, longest_end = (
            steps[parent] - _LEFT + (_LETTER * letters + 6) / pixels
            for letters in (len(shown[parent]), widest[steps[parent]])
        )
        xs += [own, longest_end, steps[place] - _LEFT - 0.04, None]
        ys += [rows[parent], rows[parent], rows[place], None]
    lines = [
        {"type": "scatter", "x": xs, "y": ys, "mode": "lines", "hoverinfo": "skip"}
        | {"line": {"color": colours[kind], "width": 2.5 if kind == "path" else 1}}
        for kind, (xs, ys) in edges.items()
    ]
    text_colours = {"dropped": theme.muted, "kept": theme.text, "ended": theme.text}
    ink = [
        theme.accent if place in chosen else text_colours[outcome]
        for place, outcome in enumerate(outcomes)
    ]
    texts = {
        **{"type": "scatter", "x": [step - _LEFT for step in steps], "y": rows, "mode": "text"},
        "text": [escape_plotly(label) for label in shown],
        "textposition": "middle right",
        "textfont": {"color": ink, "size": 12},
        "hovertext": [escape_plotly(note) for note in notes],
        "hoverinfo": "text",
    }
    most, width = max(rows) + 1, round(pixels * (last - first + 1)) + 30
    return new_figure(
        theme,
        [*lines, texts],
        {
            "height": _ROW * most + 40,
            "width": width,
            "margin": {"l": 6, "r": 6, "t": 28, "b": 8},
            "meta": {"readable": width},
            "xaxis": {
                "side": "top",
                "range": [first - 0.5, last + 0.6],
                "tickvals": [step - _LEFT for step in range(first, last + 1)],
                "ticklabelposition": "outside right",
                "ticktext": [str(step) if step else "start" for step in range(first, last + 1)],
            },
            "yaxis": {"range": [most - 0.4, -0.6], "visible": False},
        },
    )
