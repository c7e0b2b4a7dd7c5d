"""Word alignments of a corpus: made, combined, written and read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.tokenizer import Tokenizer, WordTokenizer
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.measuring import align
from headwise.viz_app.measuring.align import AlignArguments, main, words_of
from headwise.viz_app.measuring.alignments import (
    Alignments,
    Links,
    alignments_path,
    format_links,
    parse_links,
    read_alignments,
    symmetrise,
    with_reference,
    write_alignments,
)
from headwise.viz_app.measuring.head_alignments import PairLinks, combine

ALIGNMENTS = Alignments(
    corpus="valid.jsonl",
    sha256="5ha",
    aligner="by hand",
    sentences={3: Links(2, 3, frozenset({(1, 2), (0, 0)})), 0: Links(1, 1, frozenset())},
)
ROW = "[3,2,3,[[0,0],[1,2]]]"
PAIRS = [Pair("a b", "c d"), Pair("e", "f")]


# The file of a run


def test_alignments_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_alignments(tmp_path) is None
    write_alignments(tmp_path, ALIGNMENTS)
    assert read_alignments(tmp_path) == ALIGNMENTS
    lines = alignments_path(tmp_path).read_text().splitlines()
    assert lines[1:] == ["[0,1,1,[]]", ROW]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":1', '"format_version":7', "format version 7, this program reads 1"),
        (ROW, "[3,2,3,[[0,0],[2,2]]]", "damaged .*between 2 and 3 words"),
        (ROW, "[3,2,3,[[0,0],", "damaged"),
        ("[0,1,1,[]]", "[0,1]", "damaged"),
        ("[0,1,1,[]]", "[0,1,1.0,[]]", r"damaged \(\[2\]: expected a valid integer, got 1.0\)"),
        ('"by hand"', "null", r"damaged \(aligner: expected a valid string, got None"),
        ('"sha256"', '"sha"', "damaged"),
        (None, "", "not alignments, or damaged"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, old: str | None, new: str, message: str) -> None:
    write_alignments(tmp_path, ALIGNMENTS)
    path = alignments_path(tmp_path)
    text = path.read_text()
    assert old is None or old in text
    path.write_text(new if old is None else text.replace(old, new))
    with pytest.raises(CheckpointError, match=rf"alignments\.jsonl: .*{message}"):
        read_alignments(tmp_path)


# Pharaoh format


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
    found = list(with_reference("data", PAIRS, path))
    assert found == [(PAIRS[0], {(0, 1), (1, 0)}), (PAIRS[1], set())]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0-0\n", r": expected a line for each pair of data, got more than 1 only in data"),
        (b"0-0\n\n1-1\n", r"got more than 2 only in .*links\.txt"),
        (b"0-0\n0?0\n", r"links\.txt, line 2: expected sure links .*, got '0\?0'"),
        (b"0-0 " * 250_001, r"links\.txt, line 1: expected links, in at most 1,000,000 characters"),
        (b"0-0\n\xff\xfe\n", r"links\.txt, line 2: expected sure links"),
    ],
)
def test_an_unfit_reference_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "links.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(with_reference("data", PAIRS, path))


# Two directions


def test_links_grow_from_those_that_both_directions_have() -> None:
    """From (0, 0) and (2, 2), which both have, to their neighbours and on to theirs; not to (0, 2),
    whose words are linked by then. Far from all others, the forward link comes first."""
    forward = {(0, 0), (1, 1), (2, 2), (4, 4), (0, 2)}
    backward = {(0, 0), (2, 2), (4, 3), (3, 3)}
    assert symmetrise(forward, backward) == {(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (4, 4)}
    assert symmetrise({(0, 0), (3, 5)}, {(0, 0), (3, 4)}) == {(0, 0), (3, 5)}
    assert symmetrise({(0, 1)}, set()) == {(0, 1)}


def test_directions_of_other_words_are_refused() -> None:
    """The second pair has four source words in one direction, and three in the other."""
    none = (np.zeros((0, 0)), np.zeros((0, 0), np.int64))
    forward = [PairLinks(1, 1, {(0, 0)}, set(), *none), PairLinks(4, 5, {(2, 3)}, set(), *none)]
    backward = [PairLinks(1, 1, {(0, 0)}, set(), *none), PairLinks(5, 3, set(), set(), *none)]
    with pytest.raises(DataError, match=r"pair 2: .* \(4, 5\) .* forward, \(3, 5\) in reverse"):
        list(combine(iter(forward), iter(backward), "union"))


# The command, with another aligner in place of eflomal


def test_words_are_those_of_the_tokenizer_even_if_unknown() -> None:
    text = "Where  is Zoë's  dog?"
    tokens = Tokenizer.train(["Where is the dog?"] * 2, 400)
    words = words_of(tokens, text)
    assert len(words) == len(tokens.words(tokens.encode(text)))
    assert [word for word in words if word != "␣"] == ["Where", "is", "Zoë", "'", "s", "dog", "?"]
    whole = WordTokenizer.train(["where is 's dog"], 20)
    assert words_of(whole, text) == ["where", "is", "Zoë", "'", "s", "dog", "?"]


def test_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(ValueError, match=r"eflomal is not installed; pip install .*\[align\]"):
        main(AlignArguments(run="en-es", data="valid.jsonl", checkpoints=tmp_path))


class OneToOne:
    """Aligns the words of each pair in order."""

    def align(self, source: list[str], target: list[str], *files: str) -> None:
        pairs = zip(source, target, strict=True)
        shortest = [min(len(a.split()), len(b.split())) for a, b in pairs]
        for file in files:
            lines = [" ".join(f"{n}-{n}" for n in range(length)) for length in shortest]
            Path(file).write_text("\n".join(lines) + "\n")


def test_alignments_of_a_corpus_are_written(
    monkeypatch: pytest.MonkeyPatch,
    datasets_cache: Path,
    own_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = ModuleType("eflomal")
    module.Aligner = OneToOne
    monkeypatch.setitem(sys.modules, "eflomal", module)
    monkeypatch.setattr(align, "version", lambda name: "2.0")
    corpora = {"valid": [("The cat", "El gato rojo"), ("", "No")], "train": [("Dog", "Perro")]}
    for name, pairs in corpora.items():
        lines = [json.dumps({"en": source, "es": target}) for source, target in pairs]
        (own_root / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data, train = (str(own_root / f"{name}.jsonl") for name in corpora)
    main(AlignArguments(run="tiny", data=data, train=(train,), checkpoints=own_root))
    found = read_alignments(own_root / "tiny")
    assert found is not None
    assert found.sentences == {0: Links(2, 3, frozenset({(0, 0), (1, 1)}))}
    learnt = "learnt from valid.jsonl (2 pairs) + train.jsonl (1 pairs)"
    assert found.aligner == f"eflomal 2.0, both directions, grow-diag-final-and; {learnt}"
    assert "1 sentences; eflomal 2.0" in capsys.readouterr().out
