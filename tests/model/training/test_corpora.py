from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest

from headwise.model.training import corpora
from headwise.model.training.corpora import copy_task, load_corpus, stream_corpus
from headwise.model.training.data import Corpus, DataError, Pair

pytestmark = pytest.mark.usefixtures("datasets_cache")

PAIRS = [Pair("Good night!", "¡Buenas noches!"), Pair("Where?", "¿Dónde?")]


def load(path: Path, *, source: str = "en", target: str = "es", **options: Any) -> Corpus:
    return load_corpus(str(path), source=source, target=target, **options)


def write(path: Path, *rows: object) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def write_columns(path: Path, **columns: list[Any]) -> Path:
    """Write a file in the format of its suffix; if possible, all fields are quoted."""
    if path.suffix == ".parquet":
        datasets.Dataset.from_dict(columns).to_parquet(path)
        return path
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".jsonl":
        return write(path, *(dict(zip(columns, row, strict=True)) for row in rows))
    separator, quote = {".csv": (",", '"'), ".tsv": ("\t", "")}[path.suffix]
    lines = [separator.join(f"{quote}{field}{quote}" for field in row) for row in [columns, *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# Any file

ENDINGS = [".jsonl", ".tsv", ".csv", ".parquet"]


@pytest.mark.parametrize("ending", [*ENDINGS, ".TSV"])
def test_each_kind_of_file_is_read(tmp_path: Path, ending: str) -> None:
    """Its columns are the languages, or those that are named; when it changes, it is read again."""
    es, en = [pair.target for pair in PAIRS], [pair.source for pair in PAIRS]
    path = write_columns(tmp_path / f"a{ending.lower()}", id=["1", "2"], es=es, en=en)
    path = path.rename(tmp_path / f"b{ending}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load(path) == Corpus(f"b{ending}", digest, PAIRS)
    assert load(path, source="es", target="en").pairs == [Pair(b, a) for a, b in PAIRS]
    assert load(path, columns=("id", "es")).pairs == list(map(Pair, "12", es))
    stream = stream_corpus(str(path), source="en", target="es")
    assert (stream.name, stream.sha256) == (f"b{ending}", digest)
    assert (list(stream.pairs), list(stream.pairs)) == (PAIRS, [])  # it is iterated once
    write_columns(tmp_path / f"a{ending.lower()}", en=["a"], es=["b"]).replace(path)
    assert load(path).pairs == [Pair("a", "b")]


@pytest.mark.parametrize(
    ("ending", "separator"), [(".tsv", "\t"), (".csv", ","), (".csv", ";"), (".csv", "\t")]
)
def test_columns_are_read_by_their_numbers(tmp_path: Path, ending: str, separator: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_text("".join(f"{n}{separator}a {n}{separator}b\n" for n in "12"))
    assert load(path, columns=("2", "3")).pairs == [Pair("a 1", "b"), Pair("a 2", "b")]
    assert load(path, columns=("3", "1")).pairs == [Pair("b", "1"), Pair("b", "2")]
    with pytest.raises(DataError, match=r"line 1: expected a column '4', got '1', '2', '3'; name"):
        load(path, columns=("1", "4"))
    named = write_columns(path, **{"2": ["a"], "1": ["b"]})  # numbers that are names are names
    assert load(named, columns=("1", "2")).pairs == [Pair("b", "a")]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_part_of_a_file(tmp_path: Path, ending: str) -> None:
    """Slices are those of ``datasets``, also for a file whose name looks like one."""
    texts = [str(n) for n in range(20)]
    path = write_columns(tmp_path / f"a[1]{ending}", en=texts, es=texts)
    whole = load(path)
    for part, expected in [("[:95%]", texts[:19]), ("[95%:]", texts[19:]), ("[-3:]", texts[-3:])]:
        corpus = load(Path(f"{path}{part}"))
        assert [pair.source for pair in corpus.pairs] == expected
        assert corpus.name == f"{path.name}{part}"
        assert len({corpus.sha256, whole.sha256, load(Path(f"{path}[:5]")).sha256}) == 3
    for part, message in [
        ("[a]", r"expected a slice such as \[:95%\], .* got \[a\]"),
        ("[20:]", r"none of the 20 pairs is in \[20:\]"),
        ("[:200%]", "expected a slice such as"),
    ]:
        with pytest.raises(DataError, match=message):
            load(Path(f"{path}{part}"))


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_null_is_an_empty_text(tmp_path: Path, ending: str) -> None:
    path = write_columns(tmp_path / f"a{ending}", en=["  a b\n", "c"], es=[None, "\td"])
    assert load(path).pairs == [Pair("a b", ""), Pair("c", "d")]


# Text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"en": "ñ", "es": "b"}\n\n{"en": "c", "es": "d"}\n'),
        ("a.tsv", "en\tes\nñ\tb\n\nc\td\n"),
        ("a.csv", "en,es\nñ,b\n\nc,d\n"),
    ],
)
def test_order_marks_and_line_ends_are_no_text(tmp_path: Path, name: str, content: str) -> None:
    """Blank lines are ignored too; the last line may or may not have a line end."""
    for text in (content, "\ufeff" + content, content.replace("\n", "\r\n"), content.rstrip()):
        (tmp_path / name).write_bytes(text.encode())
        assert load(tmp_path / name).pairs == [Pair("ñ", "b"), Pair("c", "d")]


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("a.tsv", '"a\tb"', Pair('"a', 'b"')),
        ("a.tsv", '"a, ""b""\t\'c', Pair('"a, ""b""', "'c")),
        ("a.tsv", "\tb", Pair("", "b")),
        # Unicode's ends of line
        ("a.tsv", "a\u2028b\x0bc\x85d\te", Pair("a\u2028b\x0bc\x85d", "e")),
        ("a.csv", '"a, b",c', Pair("a, b", "c")),
        ("a.csv", '"He said ""no"".",c', Pair('He said "no".', "c")),
        ("a.csv", '"two\nlines",c', Pair("two\nlines", "c")),
        ("a.csv", '"two\r\nlines\n\n",c', Pair("two\r\nlines", "c")),
        ("a.csv", 'a "b" c,d', Pair('a "b" c', "d")),
        ("a.csv", ",b", Pair("", "b")),
    ],
)
def test_quotes_are_text_in_tsv_and_delimit_a_field_in_csv(
    tmp_path: Path, name: str, row: str, expected: Pair
) -> None:
    path, separator = tmp_path / name, "\t" if name == "a.tsv" else ","
    path.write_bytes(f"en{separator}es\n{row}\nlast{separator}último\n".encode())
    assert load(path).pairs == [expected, Pair("last", "último")]


# The hub


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write both corpora into folders laid out as on the hub, each with four training pairs."""
    sides = {"en": ["a", "b", "c", "d"], "es": ["e", "f", "g", "h"]}
    rows = [dict(zip(sides, row, strict=True)) for row in zip(*sides.values(), strict=True)]
    nested = {"id": datasets.Value("string"), "translation": datasets.Translation(["en", "es"])}
    books, flat = tmp_path / "opus_books", tmp_path / "multi30k"
    for folder in (books / "en-es", books / "en-fr", flat):
        folder.mkdir(parents=True)
    datasets.Dataset.from_dict(
        {"id": list("0123"), "translation": rows}, features=datasets.Features(nested)
    ).to_parquet(books / "en-es" / "train-00000-of-00001.parquet")
    write_columns(books / "en-fr" / "train-00000-of-00001.parquet", id=["0"])
    configurations = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train-*\n"
        for name in ("en-es", "en-fr")
    )
    (books / "README.md").write_text(f"---\nconfigs:\n{configurations}---\n")
    for split, count in (("train", 4), ("validation", 1)):
        part = {language: texts[:count] for language, texts in sides.items()}
        write_columns(flat / f"{split}.parquet", **part)
    for name, folder in (("opus_books", books), ("multi30k", flat)):
        monkeypatch.setitem(corpora.HUB_CORPORA, name, str(folder))
    return tmp_path


@pytest.mark.usefixtures("mirror")
@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("opus_books", "train", ["ea", "fb", "gc", "hd"]),
        ("opus_books:train[:50%]", "validation", ["ea", "fb"]),
        ("opus_books:train[75%:]", "train", ["hd"]),
        ("multi30k", "train", ["ea", "fb", "gc", "hd"]),
        ("multi30k", "validation", ["ea"]),
        ("multi30k:train[1:3]", "validation", ["fb", "gc"]),
        ("multi30k:train[:2]", "validation", ["ea", "fb"]),
    ],
)
def test_the_library_reads_schemas_of_the_hub(name: str, split: str, expected: list[str]) -> None:
    corpus, again = (load_corpus(name, source="es", target="en", split=split) for _ in range(2))
    assert corpus.pairs == [Pair(*texts) for texts in expected]
    assert corpus == again
    assert corpus.name == name
    other = load_corpus("multi30k:train[:2]", source="es", target="en")
    assert (corpus.sha256 == other.sha256) == (name == "multi30k:train[:2]")


def test_data_that_the_hub_does_not_have_is_named(mirror: Path) -> None:
    with pytest.raises(DataError, match=r"opus_books: could not load split 'validation' from the"):
        load_corpus("opus_books", source="en", target="es", split="validation")
    with pytest.raises(DataError, match=r"de-en.*en-es.*; check the connection or give a local"):
        load_corpus("opus_books", source="en", target="de")
    with pytest.raises(DataError, match=r"^multi30k, row 1: expected a column 'de', got 'en', "):
        load_corpus("multi30k", source="en", target="de")


def test_a_hub_out_of_reach_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def fail(*args: Any, **settings: Any) -> None:
        asked.append((*args, settings))
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    message = (
        r"bentrevett/multi30k: could not load split 'test' from the hub \(no route\); check the "
        r"connection or give a local file"
    )
    with pytest.raises(DataError, match=message):
        load_corpus("multi30k", source="en", target="de", split="test")
    with pytest.raises(DataError, match=r"^Helsinki-NLP/opus_books: could not load split 'train'"):
        load_corpus("opus_books", source="es", target="en")
    assert asked == [
        ("bentrevett/multi30k", None, {"split": "test"}),
        ("Helsinki-NLP/opus_books", "en-es", {"split": "train"}),
    ]


def test_a_stream_reads_no_further_than_it_is_used(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"en": "a", "es": "b"}, {"en": "c"})
    stream = stream_corpus(str(path), source="en", target="es")
    assert next(stream.pairs) == Pair("a", "b")
    with pytest.raises(DataError, match=r"line 2: expected a column 'es'"):
        next(stream.pairs)


# The copy task

SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}


@pytest.fixture(scope="module")
def splits() -> dict[str, list[str]]:
    return {name: copy_task(name) for name in SIZES}


def test_sequences_to_copy_are_of_symbols_and_never_repeated(splits: dict[str, list[str]]) -> None:
    """Neither in one split nor in two; all lengths are there, and symbols are alike often."""
    assert {name: len(texts) for name, texts in splits.items()} == SIZES
    texts = [text for split in splits.values() for text in split]
    assert len(set(texts)) == len(texts)
    assert all(re.fullmatch("[a-g]( [a-g]){0,9}", text) for text in texts)
    assert {len(text.split(" ")) for text in splits["train"]} == set(range(1, 11))
    counts = Counter(symbol for text in splits["train"] for symbol in text.split())
    assert sorted(counts) == list("abcdefg")
    assert max(counts.values()) < 1.05 * min(counts.values())


def test_the_sequences_are_those_of_earlier_versions(splits: dict[str, list[str]]) -> None:
    """A resumed training compares its data with what it began with."""
    assert splits["train"][:2] == ["f c b d c f c", "c g b a a a f g"]
    assert splits["test"][:2] == ["g a c g f", "a c d g a d f f e"]


@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("copy", "train", "train"),
        ("copy", "validation", "validation"),
        ("copy:test", "train", "test"),
        ("copy:train", "validation", "train"),
    ],
)
def test_the_copy_task_is_loaded_by_name(
    splits: dict[str, list[str]], name: str, split: str, expected: str
) -> None:
    texts = splits[expected]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    corpus = load_corpus(name, source="symbols", target="copy", split=split)
    assert corpus == Corpus(name, digest, [Pair(text, text) for text in texts])


@pytest.mark.parametrize("name", ["copy:dev", "copy:train[:5]"])
def test_an_unknown_split_of_the_copy_task_is_refused(name: str) -> None:
    message = r"copy: expected one of the splits train, validation, test, got '(dev|train\[:5\])'"
    with pytest.raises(DataError, match=message):
        load_corpus(name, source="symbols", target="copy")
