from __future__ import annotations

import re

import pytest

from viz_app.figures.theme import DARK, LIGHT, weight_colour
from viz_app.figures.translations import Column, translation_table

COLUMNS = [Column("step", "number"), Column("translation", language="es"), Column("chrF", "score")]
ROWS = [[0, "", 3.14159], [2_000, "<b>sí</b> & no", 100.0], [3_000, None, None]]


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html)[1:]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", row)] for row in rows
    ]


def test_every_cell_is_shown_and_escaped() -> None:
    html = translation_table(COLUMNS, ROWS, theme=LIGHT)
    assert cells(html) == [
        ["0", "nothing", "3.1"],
        ["2,000", "&lt;b&gt;sí&lt;/b&gt; &amp; no", "100.0"],
        ["3,000", "", ""],
    ]
    assert 'lang="es"' in html
    assert "<b>sí" not in html


def test_the_row_in_use_and_exact_translations_are_marked() -> None:
    html = translation_table(COLUMNS, ROWS, theme=LIGHT, used=1, exact={(1, 1)})
    rows = re.findall(r"<tr.*?</tr>", html)[1:]
    assert ["class=used" in row for row in rows] == [False, True, False]
    assert ["✓" in row for row in rows] == [False, True, False]


def test_scores_are_shaded() -> None:
    html = translation_table(COLUMNS, ROWS, theme=DARK)
    assert f"background:{weight_colour(DARK, 1.0)}" in html
    assert f"background:{weight_colour(DARK, 0.0314159)}" in html


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected 3 cells, got 1$"):
        translation_table(COLUMNS, [[0]], theme=LIGHT)
