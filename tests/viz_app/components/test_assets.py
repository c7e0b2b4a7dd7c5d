from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from headwise.viz_app.components import assets

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
