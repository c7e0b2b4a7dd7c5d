"""Refuse files that are no parallel corpus: the error names file, line and what was expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import datasets
import pytest

from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError

pytestmark = pytest.mark.usefixtures("datasets_cache")

LINE = '{"en": "a", "es": "b"}\n'


def refused(path: Path, content: str | bytes) -> str:
    """Return the error message for a file without its name."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as error:
        load_corpus(str(path), source="en", target="es")
    message = str(error.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize("ending", [".jsonl", ".tsv", ".csv", ".parquet"])
def test_an_empty_file(tmp_path: Path, ending: str) -> None:
    message = refused(tmp_path / f"a{ending}", "")
    assert message == ": the file is empty; expected a pair of sentences a line"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", "\n\n"),
        ("a.tsv", "en\tes\n"),
        ("a.tsv", "en\tes\n\n\t\n"),
        ("a.csv", "en,es"),
        ("a.csv", "\ufeff"),
    ],
)
def test_no_pairs(tmp_path: Path, name: str, content: str) -> None:
    message = refused(tmp_path / name, content)
    assert message == ": no pairs in it; expected rows with the columns 'en' and 'es'"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LINE + "oops\n", r"line 2: expected a JSON object \(Expecting value"),
        (LINE + "\n" + '{"en": "a",\n"es": "b"}\n', r"line 3: expected a JSON object \("),
        (LINE[:-2], r"line 1: expected a JSON object \("),
        (LINE + "[1, 2]\n", r"line 2: expected a JSON object, got \[1, 2\]$"),
        (LINE + '"a"\n', 'line 2: expected a JSON object, got "a"$'),
        (LINE + '{"en": "a"}\n', "line 2: expected a column 'es', got 'en'; name the right ones"),
        ("{}\n", "line 1: expected a column 'en', got none; name the right ones"),
        ('{"translation": {"en": "a", "de": "b"}}\n', "a column 'es', got 'en', 'de'"),
        ('{"translation": "a"}\n', "line 1: expected a column 'en', got 'translation'"),
        ('{"en": 5, "es": "b"}\n', "line 1: expected two texts, got 5 and 'b'"),
        (LINE + '{"en": ["a"], "es": "b"}\n', r"line 2: expected two texts, got \['a'\] and 'b'"),
        (
            '{"translation": {"en": "a", "es": "b"}}\n{"translation": {"en": "c"}}\n',
            "line 2: expected a column 'es', got 'en'",
        ),
        (
            '{"translation": {"en": "a", "es": "b"}}\n{"translation": null}\n',
            "line 2: expected a column 'en', got 'translation'",
        ),
        ("[" * 100_000, r"line 1: expected a JSON object \(.*recursion"),
        (LINE + r'{"en": "\ud800", "es": "b"}', "line 2: expected text, got half a character"),
    ],
)
def test_other_json_values_are_refused(tmp_path: Path, content: str, message: str) -> None:
    assert re.search(message, refused(tmp_path / "a.jsonl", content))


@pytest.mark.parametrize(("ending", "separator"), [(".tsv", "\t"), (".csv", ",")])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["en es", "a b", "a"],
            ", line 3: expected 2 fields as in the first line, got 1",
        ),
        (
            ["en es", "", "a b c"],
            ", line 3: expected 2 fields as in the first line, got 3",
        ),
        (
            ["en es en", "a b c"],
            ", line 1: a column stands there twice: ['en', 'es', 'en']",
        ),
        (
            ["The El", "cat gato"],
            ", line 1: expected a column 'en', got 'The', 'El'; name the right ones by --columns "
            "SOURCE TARGET, or by their numbers, --columns 1 2, if this line has no names",
        ),
        (
            ["en|es", "a|b"],
            ", line 1: expected a column 'en', got 'en|es'; name the right ones by --columns "
            "SOURCE TARGET, or by their numbers, --columns 1 2, if this line has no names",
        ),
    ],
)
def test_rows_unlike_the_header(
    tmp_path: Path, ending: str, separator: str, rows: list[str], message: str
) -> None:
    content = "\n".join(rows).replace(" ", separator)
    assert refused(tmp_path / f"a{ending}", content) == message


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ('en,es\na,b\n"c,d\n', 3, "unexpected end of data"),
        ('en,es\na,b\n"c,d\n' + "e,f\n" * 9, 3, "unexpected end of data"),
        ('en,es\n"a"b,c\n', 2, "',' expected after '\"'"),
    ],
)
def test_unbalanced_quotes_are_refused(
    tmp_path: Path, content: str, line: int, reason: str
) -> None:
    assert refused(tmp_path / "a.csv", content) == (
        f", line {line}: expected fields between commas, those with quotes in quotes and theirs "
        f"doubled ({reason})"
    )


def test_lines_are_counted_within_fields_too(tmp_path: Path) -> None:
    message = refused(tmp_path / "a.csv", 'en,es\n"a\nb",c\nd\n')
    assert message == ", line 4: expected 2 fields as in the first line, got 1"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINE + '{"en": "ñ", "es": "b"}\n'),
        ("a.tsv", "en\tes\nñ\tb\n"),
        ("a.csv", "en,es\nñ,b\n"),
    ],
)
def test_text_in_another_encoding(tmp_path: Path, name: str, content: str) -> None:
    """Latin-1 is detected by its first non-ASCII letter, UTF-16 by its mark or its zeros."""
    for encoding, line, byte in (("latin-1", 2, "f1"), ("utf-16", 1, "ff"), ("utf-16-le", 1, "00")):
        message = refused(tmp_path / name, content.encode(encoding))
        assert (
            message == f", line {line}: expected UTF-8, got byte 0x{byte}; save the file as UTF-8"
        )


def parquet(path: Path, **columns: list[Any]) -> bytes:
    datasets.Dataset.from_dict(columns).to_parquet(path)
    return path.read_bytes()


def test_columns_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    message = refused(path, parquet(path, en=[None, 5], es=["a", "b"]))
    assert message == ", row 2: expected two texts, got 5 and 'b'"


def test_a_column_file_without_rows(tmp_path: Path) -> None:
    content = parquet(tmp_path / "whole.parquet", en=[], es=[])
    assert refused(tmp_path / "a.parquet", content).startswith(": no pairs in it; expected rows")


def test_a_broken_column_file(tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", en=["a"] * 50, es=["b"] * 50)
    damaged = whole[:20] + b"\xff" * 10 + whole[30:]
    for content in (LINE.encode(), whole[:-10], whole[: len(whole) // 2], damaged):
        message = refused(tmp_path / "a.parquet", content)
        assert re.match(r": expected Parquet \(.+\); write the file anew$", message)


@pytest.mark.parametrize(("name", "got"), [("a.txt", ".txt"), ("noend", "noend"), (".tsv", ".tsv")])
def test_a_file_of_another_kind(tmp_path: Path, name: str, got: str) -> None:
    message = refused(tmp_path / name, LINE)
    assert message == f": expected a file that ends in .jsonl, .tsv, .csv, .parquet, got '{got}'"


def test_one_column_for_both(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"a\.tsv: expected two columns, got 'en' twice; name .*--columns"
    ):
        load_corpus(str(tmp_path / "a.tsv"), source="en", target="es", columns=("en", "en"))


def test_a_missing_file_is_named_with_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such.jsonl"
    message = r"no such file, and not one of the corpora .* \(opus_books, multi30k, copy\)"
    for name in (path, tmp_path):
        with pytest.raises(DataError, match=rf"^{re.escape(str(name))}: {message}"):
            load_corpus(str(name), source="en", target="es")
