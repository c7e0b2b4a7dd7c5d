"""Scripts as the browser gets them, and what they are told of paper."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from headwise.viz_app.components import assets
from headwise.viz_app.components.printing import LETTERS, light_colours, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT

SCRIPTS = sorted(path.name for path in Path(assets.__file__).parent.glob("*.js"))


def imported(text: str) -> list[str]:
    """The texts of the modules that a script imports, each from a data: URL."""
    urls = re.findall(r'from "data:text/javascript;base64,([^"]+)"', text)
    return [base64.b64decode(url).decode() for url in urls]


def test_imports_become_data_urls_and_may_be_nested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_dark_colours_become_those_of_the_light_theme_and_light_ones_stay() -> None:
    colours = light_colours(DARK)
    assert colours[DARK.text] == LIGHT.text
    assert colours[DARK.weights[3]] == LIGHT.weights[3]
    assert colours[DARK.series[1]] == LIGHT.series[1]
    assert all(own == light for own, light in light_colours(LIGHT).items())
