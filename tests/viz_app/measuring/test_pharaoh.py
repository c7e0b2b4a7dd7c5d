"""Lines of links written and read, and files that do not fit a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.model.training.data import DataError, Pair
from headwise.viz_app.measuring.alignments import format_links, parse_links, with_reference

PAIRS = [Pair("a b", "c d"), Pair("e", "f")]


def test_links_are_sorted_by_source_word_as_numbers() -> None:
    assert format_links({(10, 1), (2, 3), (0, 4), (2, 0)}) == "0-4 2-0 2-3 10-1"
    assert format_links(set()) == ""
    assert parse_links(" 0-4 2-0\t10-1\r\n") == {(0, 4), (2, 0), (10, 1)}
    assert parse_links("\n") == set()


@pytest.mark.parametrize("link", ["0?1", "0p1", "0-", "-1-2", "0-1-2", "one-two", "0−1", "١-٢"])
def test_anything_but_sure_links_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match=r"expected sure links such as 0-0 1-2, .*, got '"):
        parse_links(f"0-0 {link} 1-1")


def test_every_pair_gets_the_links_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_bytes(b"\xef\xbb\xbf0-1 1-0\r\n\n")
    assert list(with_reference("data", PAIRS, path)) == [
        (PAIRS[0], {(0, 1), (1, 0)}),
        (PAIRS[1], set()),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"0-0\n",
            r"links\.txt: expected a line for each pair of data, got more than 1 only in data",
        ),
        (b"0-0\n\n1-1\n", r"got more than 2 only in .*links\.txt"),
        (b"0-0\n0?0\n", r"links\.txt, line 2: expected sure links .*, got '0\?0'"),
        (b"0-0\n\xff\xfe\n", r"links\.txt, line 2: expected sure links"),
    ],
)
def test_reference_that_does_not_fit_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "links.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(with_reference("data", PAIRS, path))
