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
NESTED = '{"translation": {"en": "a", "es": "b"}}\n'
TWO_FIELDS = "expected 2 fields as in the first line"


def refused(path: Path, content: str | bytes, columns: tuple[str, str] | None = None) -> str:
    """Return the error message for a file without its name."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as error:
        load_corpus(str(path), source="en", target="es", columns=columns)
    message = str(error.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


EMPTY = ": the file is empty; expected a pair of sentences a line"
NO_PAIRS = ": no pairs in it; expected rows with the columns 'en' and 'es'"
OTHER_KIND = ": expected a file that ends in .jsonl, .tsv, .csv, .parquet, got "
CSV = "expected fields between commas, those with quotes in quotes and theirs doubled "


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((f"a{ending}", "", EMPTY) for ending in (".jsonl", ".tsv", ".csv", ".parquet")),
        ("a.jsonl", "\n\n", NO_PAIRS),
        ("a.tsv", "en\tes\n", NO_PAIRS),
        ("a.tsv", "en\tes\n\n\t\n", NO_PAIRS),
        ("a.csv", "en,es", NO_PAIRS),
        ("a.csv", 'en,es\na,b\n"c,d\n', f", line 3: {CSV}(unexpected end of data)"),
        ("a.csv", 'en,es\na,b\n"c,d\n' + "e,f\n" * 9, f", line 3: {CSV}(unexpected end of data)"),
        ("a.csv", 'en,es\n"a"b,c\n', f", line 2: {CSV}(',' expected after '\"')"),
        # Lines are counted within fields too.
        ("a.csv", 'en,es\n"a\nb",c\nd\n', f", line 4: {TWO_FIELDS}, got 1"),
        ("a.txt", LINE, f"{OTHER_KIND}'.txt'"),
        (".tsv", LINE, f"{OTHER_KIND}'.tsv'"),
    ],
)
def test_a_file_without_pairs_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    assert refused(tmp_path / name, content) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LINE + "oops\n", r"line 2: expected a JSON object \(Expecting value"),
        (LINE + "\n" + '{"en": "a",\n"es": "b"}\n', r"line 3: expected a JSON object \("),
        (LINE[:-2], r"line 1: expected a JSON object \("),
        (LINE + "[1, 2]\n", r"line 2: expected a JSON object, got \[1, 2\]$"),
        (LINE + '{"en": "a"}\n', "line 2: expected a column 'es', got 'en'; name the right ones"),
        ("{}\n", "line 1: expected a column 'en', got none; name the right ones"),
        ('{"translation": "a"}\n', "line 1: expected a column 'en', got 'translation'"),
        ('{"en": 5, "es": "b"}\n', "line 1: expected two texts, got 5 and 'b'"),
        (NESTED + '{"translation": {"en": "c"}}', "line 2: expected a column 'es', got 'en'"),
        (NESTED + '{"translation": null}', "line 2: expected a column 'en', got 'translation'"),
        ("[" * 100_000, r"line 1: expected a JSON object \(.*recursion"),
        (LINE + r'{"en": "\ud800", "es": "b"}', "line 2: expected text, got half a character"),
    ],
)
def test_other_json_values_are_refused(tmp_path: Path, content: str, message: str) -> None:
    assert re.search(message, refused(tmp_path / "a.jsonl", content))


NAME_THEM = (
    "; name the right ones by --columns SOURCE TARGET, or by their numbers, --columns 1 2, if this "
    "line has no names"
)


@pytest.mark.parametrize(("ending", "separator"), [(".tsv", "\t"), (".csv", ",")])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("en es\na b\na", f", line 3: {TWO_FIELDS}, got 1"),
        ("en es\n\na b c", f", line 3: {TWO_FIELDS}, got 3"),
        ("en es en\na b c", ", line 1: a column stands there twice: ['en', 'es', 'en']"),
        ("The El\ncat gato", f", line 1: expected a column 'en', got 'The', 'El'{NAME_THEM}"),
        ("en|es\na|b", f", line 1: expected a column 'en', got 'en|es'{NAME_THEM}"),
    ],
)
def test_rows_unlike_the_header(
    tmp_path: Path, ending: str, separator: str, rows: str, message: str
) -> None:
    assert refused(tmp_path / f"a{ending}", rows.replace(" ", separator)) == message


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
        expected = f"expected UTF-8, got byte 0x{byte}; save the file as UTF-8"
        assert message == f", line {line}: {expected}"


def parquet(path: Path, **columns: list[Any]) -> bytes:
    datasets.Dataset.from_dict(columns).to_parquet(path)
    return path.read_bytes()


def test_a_column_file_that_is_broken_or_without_pairs_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    message = refused(path, parquet(path, en=[None, 5], es=["a", "b"]))
    assert message == ", row 2: expected two texts, got 5 and 'b'"
    assert refused(path, parquet(path, en=[], es=[])) == NO_PAIRS
    whole = parquet(path, en=["a"] * 50, es=["b"] * 50)
    damaged = whole[:20] + b"\xff" * 10 + whole[30:]
    for content in (LINE.encode(), whole[:-10], whole[: len(whole) // 2], damaged):
        message = refused(path, content)
        assert re.match(r": expected Parquet \(.+\); write the file anew$", message)


def test_one_column_for_both(tmp_path: Path) -> None:
    message = refused(tmp_path / "a.tsv", "", ("en", "en"))
    assert re.match(r": expected two columns, got 'en' twice; name .*--columns", message)


def test_a_missing_file_is_named_with_what_there_is(tmp_path: Path) -> None:
    message = r"no such file, and not one of the corpora .* \(opus_books, multi30k, copy\)"
    for name in (tmp_path / "no" / "such.jsonl", tmp_path):
        with pytest.raises(DataError, match=rf"^{re.escape(str(name))}: {message}"):
            load_corpus(str(name), source="en", target="es")
