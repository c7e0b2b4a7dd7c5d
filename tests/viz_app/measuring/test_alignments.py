"""Word alignments written and read back, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.model.files import CheckpointError
from headwise.viz_app.measuring.alignments import (
    Alignments,
    Links,
    alignments_path,
    read_alignments,
    write_alignments,
)

ALIGNMENTS = Alignments(
    corpus="valid.jsonl",
    sha256="5ha",
    aligner="by hand",
    sentences={3: Links(2, 3, frozenset({(1, 2), (0, 0)})), 0: Links(1, 1, frozenset())},
)


def test_alignments_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_alignments(tmp_path) is None
    write_alignments(tmp_path, ALIGNMENTS)
    assert read_alignments(tmp_path) == ALIGNMENTS
    lines = alignments_path(tmp_path).read_text().splitlines()
    assert lines[1:] == ["[0,1,1,[]]", "[3,2,3,[[0,0],[1,2]]]"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":1', '"format_version":7', "format version 7, this program reads 1"),
        ("[3,2,3,[[0,0],[1,2]]]", "[3,2,3,[[0,0],[2,2]]]", "damaged .*between 2 and 3 words"),
        ("[3,2,3,[[0,0],[1,2]]]", "[3,2,3,[[0,0],", "damaged"),
        ("[0,1,1,[]]", "[0,1]", "damaged"),
        ("[0,1,1,[]]", "[0,1,1.0,[]]", r"damaged \(\[2\]: expected a valid integer, got 1.0\)"),
        ('"by hand"', "null", r"damaged \(aligner: expected a valid string, got None"),
        ('"sha256"', '"sha"', "damaged"),
    ],
)
def test_damaged_or_foreign_file_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    write_alignments(tmp_path, ALIGNMENTS)
    path = alignments_path(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(CheckpointError, match=rf"alignments\.jsonl: .*{message}"):
        read_alignments(tmp_path)


def test_empty_file_is_refused(tmp_path: Path) -> None:
    alignments_path(tmp_path).touch()
    with pytest.raises(CheckpointError, match=r"alignments\.jsonl: not alignments, or damaged"):
        read_alignments(tmp_path)
