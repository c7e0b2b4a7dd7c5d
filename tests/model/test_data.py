from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data import (
    Corpus,
    DataError,
    Pair,
    bucketed,
    encode_pairs,
    load_corpus,
    pad,
    references_by_source,
    sorted_batches,
)
from model.tokenizer import Tokenizer, TokenizerPair

pytestmark = pytest.mark.usefixtures("datasets_cache")

PAIRS = [Pair("Good night!", "¡Buenas noches!"), Pair("Where?", "¿Dónde?")]


def load(path: Path, *, source: str = "en", target: str = "es") -> Corpus:
    return load_corpus(str(path), source=source, target=target)


def write(path: Path, *rows: object) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


# Local files


@pytest.mark.parametrize(
    ("file", "count", "first"),
    [
        ("train.jsonl", 48, Pair("The cat sleeps.", "El gato duerme.")),
        ("valid.jsonl", 12, Pair("The cat runs.", "El gato corre.")),
    ],
)
def test_both_schemas_are_read(data_folder: Path, file: str, count: int, first: Pair) -> None:
    corpus = load(data_folder / file)
    assert (len(corpus.pairs), corpus.pairs[0]) == (count, first)
    assert corpus.name == file
    assert corpus.sha256 == hashlib.sha256((data_folder / file).read_bytes()).hexdigest()


@pytest.mark.parametrize("file", ["train.jsonl", "valid.jsonl"])
def test_languages_may_be_swapped(data_folder: Path, file: str) -> None:
    forth = load(data_folder / file)
    back = load(data_folder / file, source="es", target="en")
    assert back.pairs == [Pair(pair.target, pair.source) for pair in forth.pairs]


def test_space_around_a_sentence_is_dropped_and_nothing_stands_for_null(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"en": "  a b\n", "es": None}, {"en": "c", "es": "\td"})
    assert load(path).pairs == [Pair("a b", ""), Pair("c", "d")]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"en": "a", "es": "b"})
    load(path)
    write(path, {"en": "a", "es": "b"}, {"en": "c", "es": "d"})
    assert load(path).pairs == [Pair("a", "b"), Pair("c", "d")]


LINE = '{"en": "a", "es": "b"}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty; expected one JSON object a line"),
        ("\n\n", "not JSON lines in UTF-8"),
        (LINE + "oops\n", "not JSON lines in UTF-8 .*row 1"),
        ('{"en": "a", "fr": "b"}\n', r"no language 'es'; this corpus has \['en', 'fr'\]"),
        ('{"translation": {"en": "a", "de": "b"}}\n', r"no language 'es'; .* \['de', 'en'\]"),
        ('{"translation": "a"}\n', "no language 'en'"),
        ("[1, 2]\n", "no language 'en'"),
        ('{"en": 5, "es": "b"}\n', "row 1: expected two texts, got 5 and 'b'"),
        (LINE + '{"en": ["a"], "es": "b"}\n', r"row 2: expected two texts, got \['a'\] and 'b'"),
        (
            '{"translation": {"en": "a", "es": "b"}}\n{"translation": {"en": "c"}}\n',
            "row 2",
        ),
        (
            '{"translation": {"en": "a", "es": "b"}}\n{"translation": null}\n',
            "row 2",
        ),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        load(path)
    assert str(path) in str(error.value)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE.encode() + '{"en": "ñ", "es": "b"}\n'.encode("latin-1"))
    with pytest.raises(DataError, match="not JSON lines in UTF-8"):
        load(path)


def test_a_missing_file_is_named_with_what_there_is(tmp_path: Path) -> None:
    message = r"no/such\.jsonl: no such file, and not one of .* \(opus_books, multi30k\)"
    with pytest.raises(DataError, match=message):
        load(tmp_path / "no" / "such.jsonl")


@pytest.mark.parametrize(("name", "got"), [("a.csv", ".csv"), ("noend", "noend")])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str, got: str) -> None:
    (tmp_path / name).write_text(LINE)
    with pytest.raises(DataError, match=f"expected a .jsonl file, got '{got}'"):
        load(tmp_path / name)


@pytest.mark.parametrize("name", ["a[1].jsonl", "a*.jsonl"])
def test_a_file_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    write(tmp_path / "ab.jsonl", {"en": "another", "es": "file"})
    assert load(write(tmp_path / name, {"en": "a", "es": "b"})).pairs == [Pair("a", "b")]


# The hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Stands in for the hub, in the schema of each corpus; keeps what was asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset(*args: Any, **kwargs: Any) -> datasets.Dataset:
        asked.append((*args, kwargs))
        rows = [{"en": pair.source, "es": pair.target} for pair in PAIRS]
        if args[0] == "Helsinki-NLP/opus_books":
            ids = [str(index) for index in range(len(rows))]
            return datasets.Dataset.from_dict({"id": ids, "translation": rows})
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize(
    ("name", "repository", "configuration"),
    [
        ("opus_books", "Helsinki-NLP/opus_books", "en-es"),
        ("multi30k", "bentrevett/multi30k", None),
    ],
)
def test_a_corpus_of_the_hub(
    hub: list[tuple[Any, ...]], name: str, repository: str, configuration: str | None
) -> None:
    corpus = load_corpus(name, source="es", target="en", split="validation")
    assert hub == [(repository, configuration, {"split": "validation"})]
    assert corpus.pairs == [Pair(pair.target, pair.source) for pair in PAIRS]
    assert corpus.name == name
    assert corpus.sha256


def test_a_split_may_follow_a_name(hub: list[tuple[Any, ...]]) -> None:
    load_corpus("multi30k:train[99%:]", source="en", target="es", split="validation")
    assert hub == [("bentrevett/multi30k", None, {"split": "train[99%:]"})]


def test_data_of_the_hub_is_told_apart_by_its_content(hub: list[tuple[Any, ...]]) -> None:
    first, again, other = (
        load_corpus(name, source="en", target="es").sha256
        for name in ("multi30k", "multi30k", "opus_books")
    )
    assert first == again
    assert first != other


def test_a_hub_out_of_reach_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    message = (
        r"bentrevett/multi30k: could not load split 'test' from the hub \(no route\); check the "
        r"connection or give a local \.jsonl file"
    )
    with pytest.raises(DataError, match=message):
        load_corpus("multi30k", source="en", target="de", split="test")


# Encoding


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["a b c d"], 360)
    return TokenizerPair(inner, inner)


def test_what_is_dropped_is_counted(tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("a", "b"),
        Pair("", "b"),
        Pair("a", ""),
        Pair("a", "b"),
        Pair("a", "c"),
        Pair("b", "b"),
        Pair("a b c d", "a"),  # 5 pieces with </s>
        Pair("a b c", "a b"),  # 4 and 4
        Pair("a", "a b c"),  # 5 pieces with <s> and </s>
    ]
    examples = encode_pairs(pairs, tokenizers, max_pieces=4)

    kept = [pairs[0], pairs[4], pairs[5], pairs[7]]
    assert examples.sources == [tokenizers.encode_source(pair.source) for pair in kept]
    assert examples.targets == [tokenizers.encode_target(pair.target) for pair in kept]
    assert examples.pairs == kept
    assert (examples.read, examples.empty, examples.duplicates, examples.too_long) == (9, 2, 1, 2)
    assert examples.report == (
        "4 pairs kept of 9; dropped: 2 with an empty side, 1 exact duplicates, 2 too long"
    )


@pytest.mark.parametrize("pairs", [[], [Pair("a", "")], [Pair("a b c d", "a")]])
def test_nothing_left_is_refused(tokenizers: TokenizerPair, pairs: list[Pair]) -> None:
    with pytest.raises(DataError, match=f"no pair is left: 0 pairs kept of {len(pairs)};"):
        encode_pairs(pairs, tokenizers, max_pieces=4)


# Batches

Rows = list[list[int]]
examples = st.lists(st.tuples(st.integers(1, 13), st.integers(2, 13)), min_size=1, max_size=40).map(
    lambda sizes: ([[5] * n for n, _ in sizes], [[5] * n for _, n in sizes])
)


@given(examples, st.integers(1, 40), st.integers(0, 3))
def test_an_epoch_has_every_example_once(rows: tuple[Rows, Rows], tokens: int, epoch: int) -> None:
    batches = bucketed(*rows, batch_tokens=tokens, seed=7, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows[0])))


@given(examples, st.integers(1, 40))
def test_batches_keep_to_their_budget(rows: tuple[Rows, Rows], tokens: int) -> None:
    """Padding included; the decoder consumes, and predicts, one piece less than a target has."""
    for batch in bucketed(*rows, batch_tokens=tokens, seed=7, epoch=0):
        padded = len(batch) * (max(len(rows[1][index]) for index in batch) - 1)
        assert padded <= tokens or len(batch) == 1


@given(examples, st.integers(1, 40))
def test_every_epoch_has_as_many_batches(rows: tuple[Rows, Rows], tokens: int) -> None:
    counts = {
        len(bucketed(*rows, batch_tokens=tokens, seed=seed, epoch=epoch))
        for seed in (0, 7)
        for epoch in range(4)
    }
    assert len(counts) == 1


@given(examples, st.integers(1, 40))
def test_lengths_in_a_batch_are_similar(rows: tuple[Rows, Rows], tokens: int) -> None:
    """Batches ordered by length do not overlap."""
    batches = bucketed(*rows, batch_tokens=tokens, seed=7, epoch=0)
    spans = sorted(
        (min(len(rows[1][i]) for i in batch), max(len(rows[1][i]) for i in batch))
        for batch in batches
    )
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_seed_and_epoch_decide_the_order() -> None:
    rows = [[5] * 3] * 50, [[5] * 4] * 50

    def order(seed: int, epoch: int) -> list[list[int]]:
        return bucketed(*rows, batch_tokens=12, seed=seed, epoch=epoch)

    assert order(7, 2) == order(7, 2)
    assert order(7, 2) != order(7, 3)
    assert order(7, 2) != order(8, 2)
    together = [{frozenset(batch) for batch in order(7, epoch)} for epoch in (2, 3)]
    assert together[0] != together[1]


def test_batches_are_not_in_order_of_length() -> None:
    rows = [[5]] * 30, [[5] * n for n in range(2, 32)]
    lengths = [len(rows[1][batch[0]]) for batch in bucketed(*rows, batch_tokens=1, seed=7, epoch=0)]
    assert lengths != sorted(lengths)


def test_rows_are_padded_on_the_right() -> None:
    assert pad([[5, 6, 7], [8]]).tolist() == [[5, 6, 7], [8, 0, 0]]


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_sorted_batches_are_longest_first(lengths: list[int], size: int) -> None:
    batches = list(sorted_batches([[5] * n for n in lengths], size))
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    assert all(len(batch) == size for batch in batches[:-1])
    assert not batches or 1 <= len(batches[-1]) <= size


def test_references_are_gathered_by_source() -> None:
    pairs = [Pair("b", "1"), Pair("a", "2"), Pair("b", "3")]
    references = references_by_source(pairs)
    assert list(references.items()) == [("b", ["1", "3"]), ("a", ["2"])]
