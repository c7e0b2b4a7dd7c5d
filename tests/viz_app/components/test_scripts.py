"""Scripts as the browser gets them, and what they are told of paper."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from headwise.viz_app.components import assets
from headwise.viz_app.components.printing import LETTERS, colours_on, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme

SCRIPTS = sorted(path.name for path in Path(assets.__file__).parent.glob("*.js"))


def imported(text: str) -> list[str]:
    """The texts of the modules that a script imports, each from a data: URL."""
    urls = re.findall(r'from "data:text/javascript;base64,([^"]+)"', text)
    return [base64.b64decode(url).decode() for url in urls]


def test_nested_imports_become_data_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_HERE", tmp_path)
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nimport { c } from "./c.js";\n')
    (tmp_path / "b.js").write_text('import { c } from "./c.js";\nexport const b = "ñ" + c;\n')
    (tmp_path / "c.js").write_text("export const c = 1;\n")
    b, c = imported(assets.script("a.js"))
    assert b.endswith('export const b = "ñ" + c;\n')
    assert imported(b) == [c] == ["export const c = 1;\n"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_is_sent_with_a_relative_import(name: str) -> None:
    scripts = [assets.script(name)]
    while scripts:
        text = scripts.pop()
        assert re.findall(r"""(?:from|import)\s*["']\.""", text) == []
        scripts += imported(text)


@pytest.mark.parametrize("millimetres", [85, 170])
def test_letters_have_seven_points_where_a_picture_is_printed_so_wide(millimetres: int) -> None:
    points = millimetres / 25.4 * 72
    assert 7 <= LETTERS * points / printed_width(millimetres) < 7.1


@pytest.mark.parametrize(("theme", "paper"), [(DARK, LIGHT), (LIGHT, DARK)])
def test_colours_become_those_of_the_paper_and_its_own_stay(theme: Theme, paper: Theme) -> None:
    colours = colours_on(paper, theme)
    assert colours[theme.text] == paper.text
    assert colours[theme.weights[3]] == paper.weights[3]
    assert colours[theme.series[1]] == paper.series[1]
    assert all(own == other for own, other in colours_on(paper, paper).items())
