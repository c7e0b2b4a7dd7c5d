from __future__ import annotations

from typing import Any

from headwise.viz_app.figures.theme import DARK
from headwise.viz_app.figures.tree import beam_tree

TREE: dict[str, Any] = {
    "parents": [-1, 0, 0, 0, 2, 1],
    "steps": [0, 1, 1, 1, 2, 2],
    "labels": ["<s>", "el", "la", "un", "</s>", "perro"],
    "notes": ["a", "b", "c", "d", "e", "<b>f"],
    "outcomes": ["kept", "kept", "kept", "dropped", "ended", "dropped"],
}


def test_candidates_stand_in_the_order_of_their_step_with_edges_by_outcome_and_path() -> None:
    """Edges go from behind the parent's text to just before the child's.

    They leave their row only behind all texts of the step.
    """
    dropped, kept, path, texts = beam_tree(**TREE, path=[4, 2, 0], theme=DARK).data
    assert list(texts.y) == [0, 0, 1, 2, 0, 1]
    assert [round(x + 0.34) for x in texts.x] == TREE["steps"]
    assert list(texts.text) == ["&lt;s&gt;", "el", "la", "un", "&lt;/s&gt;", "perro"]
    assert texts.hovertext[5] == "&lt;b&gt;f"
    ends = [
        [
            (round(line.x[i] - 0.01), line.y[i], round(line.x[i + 2] + 0.38), line.y[i + 2])
            for i in range(0, len(line.x), 4)
            if line.y[i] == line.y[i + 1]
        ]
        for line in (dropped, kept, path)
    ]
    assert ends == [[(0, 0, 1, 2), (1, 0, 2, 1)], [(0, 0, 1, 0)], [(0, 0, 1, 1), (1, 1, 2, 0)]]
    assert path.x[0] > path.x[4] - 0.95  # «<s>» is longer than «la»
    longer = beam_tree(
        **TREE | {"labels": ["<s>", "ella", "la", "un", "</s>", "perro"]},
        path=[4, 2, 0],
        theme=DARK,
    )
    assert longer.data[2].x[4] == path.x[4]
    assert longer.data[2].x[5] > path.x[5]
    accented = [colour == DARK.accent for colour in texts.textfont.color]
    assert accented == [True, False, True, False, True, False]
    assert path.line.color == DARK.accent


def test_long_searches_have_short_labels() -> None:
    """Their width stays, until letters would not fit."""
    texts = {name: [text] * 31 for name, text in (("labels", "comprado"), ("notes", ""))}
    given = {"outcomes": ["kept"] * 31, "path": [], "theme": DARK}
    figure = beam_tree(range(-1, 30), steps=range(31), **texts, **given)
    assert figure.layout.width == figure.layout.meta["readable"] <= 930
    assert set(figure.data[3].text) == {"c…"}


def test_a_search_can_be_drawn_from_a_later_step() -> None:
    later: dict[str, Any] = {
        name: values[1:] if name != "parents" else [-1, -1, -1, 1, 0]
        for name, values in TREE.items()
    }
    figure = beam_tree(**later, path=[1, 3], theme=DARK, first=1)
    dropped, kept, path, texts = figure.data
    assert [len(line.x) for line in (dropped, kept, path)] == [4, 0, 4]  # none to the roots
    assert len(texts.x) == 5
    axis = figure.layout.xaxis
    assert axis.range[0] == 0.5
    assert list(axis.ticktext) == ["1", "2"]
