"""docs/finding-your-way.md names files and definitions that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.imports import ROOT

GUIDE = (ROOT / "docs" / "finding-your-way.md").read_text("utf-8")
TABLE = GUIDE.partition("## To change something")[2].partition("## Before")[0]
ROWS = re.findall(r"^\| (.+?) \| (.+) \|$", TABLE, re.M)[1:]
ENDINGS = (".py", ".js", ".css", ".json", ".txt")


def places_of(cell: str) -> Iterator[str]:
    """Paths, of which those after the first may leave out its folder, as ``beside it`` says."""
    folder = ROOT
    for written in re.findall(r"`([\w/.-]+(?:/|\.(?:py|js|css|txt)))`", cell):
        found = [base / written for base in (ROOT, folder, ROOT / "viz_app", ROOT / "model")]
        path = next((path for path in found if path.exists()), None)
        assert path is not None, written
        folder = path if path.is_dir() else path.parent
        yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(("change", "cell"), ROWS, ids=[change[:40] for change, _ in ROWS])
def test_what_the_guide_names_is_there(change: str, cell: str) -> None:
    paths = [ROOT / path for path in places_of(cell)]
    assert paths
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
    text = "\n".join(file.read_text("utf-8") for file in files)
    names = re.findall(r"`@?(?:\*\*)?(-*\w+(?:\.\w+)?)(?:_…|\(.*?\))?`", cell)
    assert [n for n in names if not n.endswith(ENDINGS) and n.rpartition(".")[2] not in text] == []


def test_the_guide_is_read() -> None:
    assert len(ROWS) > 30
