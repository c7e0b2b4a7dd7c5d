from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.model.tokenizer import Tokenizer, TokenizerPair, WordTokenizer
from headwise.model.training import data
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import (
    MOST_HELD_BACK,
    Corpus,
    DataError,
    Examples,
    Pair,
    Sample,
    bare,
    draw_train_sample,
    encode_pairs,
    first_distinct,
    hold_back,
    load_samples,
    references_by_source,
    to_lines,
    without_texts,
)

FEW = [
    Pair("a", "b"),
    Pair("", "b"),
    Pair("a", "c"),
    Pair("b", ""),
    Pair("b", "b"),
    Pair("a b c", "a"),  # 4 tokens with </s>
    Pair("a b", "a b"),  # 4 tokens with <s> and </s>
    Pair("a, b.", "a"),  # 5 tokens
    Pair("B", "a b c"),  # 5 tokens
    Pair("A", "a"),
]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["a b c d"], 360)
    return TokenizerPair(inner, inner)


def corpus(sources: int, *, each: int = 1) -> Corpus:
    """Make a corpus in which the translations of a source are far apart."""
    pairs = [Pair(f"s {n}", f"t {n} {k}") for k in range(each) for n in range(sources)]
    return Corpus("a.tsv", "sha", pairs)


def held_back(whole: Corpus, *, seed: int = 0, target: str = "es") -> tuple[Corpus, Corpus]:
    return hold_back(whole, languages=("en", target), seed=seed)


# Which pairs


@pytest.mark.parametrize(
    ("max_tokens", "kept"), [(3, [0, 4, 9]), (4, [0, 4, 5, 6, 9]), (5, [0, 4, 5, 6, 7, 8, 9])]
)
def test_the_first_pairs_with_distinct_sources(max_tokens: int, kept: list[int]) -> None:
    """The word tokenizer keeps all of them with the same max_tokens."""
    for count in range(1, len(kept) + 1):
        pairs = first_distinct(FEW, count, max_tokens=max_tokens)
        assert pairs == [FEW[index] for index in kept[:count]]
    words = WordTokenizer.train(["a"], 5)
    assert encode_pairs(pairs, TokenizerPair(words, words), max_tokens=max_tokens).pairs == pairs


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("¿Qué?  ", "que"),
        ("It's  7:30, Tom!", "it s 7 30 tom"),
        ("ES UN NIÑO_TRISTE", "es un nino triste"),
        ("STRASSE, straße", "strasse strasse"),
        ("—…!", ""),
        ("これは 本。", "これは 本"),
    ],
)
def test_a_bare_text_has_letters_and_digits_alone(text: str, plain: str) -> None:
    assert bare(text) == plain


def test_pairs_are_left_out_for_either_side_and_in_any_spelling() -> None:
    pairs = [
        Pair("I saw it.", "Lo vi."),
        Pair("No!", "¡No!"),
        Pair("Who?", "¿Quien?"),
        Pair("!", "?"),
        Pair("I saw it there.", "Lo vi allí."),
    ]
    assert without_texts(pairs, ["i SAW it", "¡quién!", "…"]) == [pairs[1], pairs[3], pairs[4]]
    assert without_texts(pairs, []) == pairs


@pytest.mark.parametrize(
    ("sources", "each", "held"),
    [(2, 1, 1), (9, 1, 1), (100, 1, 5), (100, 3, 15), (2, 50, 50), (41_000, 1, MOST_HELD_BACK)],
)
def test_a_share_is_held_back_and_no_source_is_on_both_sides(
    sources: int, each: int, held: int
) -> None:
    whole = corpus(sources, each=each)
    train, valid = held_back(whole)
    assert len(valid.pairs) == held
    assert sorted([*train.pairs, *valid.pairs]) == sorted(whole.pairs)
    assert not {pair.source for pair in train.pairs} & {pair.source for pair in valid.pairs}
    assert (train.name, train.sha256) == ("a.tsv", "sha")


def test_what_is_held_back_follows_from_the_seed_and_can_be_read_as_a_file(tmp_path: Path) -> None:
    first, again, other = (held_back(corpus(100), seed=seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert {*first.pairs} != {*other.pairs}
    assert first.sha256 != other.sha256
    path = tmp_path / first.name
    path.write_bytes(to_lines(first.pairs, ("en", "es")))
    assert load_corpus(str(path), source="en", target="es") == first
    assert hashlib.sha256(path.read_bytes()).hexdigest() == first.sha256


def test_pairs_with_an_empty_side_are_not_held_back() -> None:
    whole = Corpus("a", "", [Pair("a", ""), Pair("", "b"), Pair("c", "d"), Pair("e", "f")])
    for seed in range(9):
        assert held_back(whole, seed=seed)[1].pairs in ([Pair("c", "d")], [Pair("e", "f")])


def test_references_are_gathered_by_source() -> None:
    pairs = [Pair("b", "1"), Pair("a", "2"), Pair("b", "3")]
    assert list(references_by_source(pairs).items()) == [("b", ["1", "3"]), ("a", ["2"])]


# Encoded pairs


def test_dropped_pairs_are_counted(tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("a", "b"),
        Pair("", "b"),
        Pair("a", ""),
        Pair("a", "b"),
        Pair("a", "c"),
        Pair("b", "b"),
        Pair("a b c d", "a"),  # 5 tokens with </s>
        Pair("a b c", "a b"),  # 4 and 4
        Pair("a", "a b c"),  # 5 tokens with <s> and </s>
    ]
    examples = encode_pairs(pairs, tokenizers, max_tokens=4)

    kept = [pairs[0], pairs[4], pairs[5], pairs[7]]
    assert examples.sources == [tokenizers.encode_source(pair.source) for pair in kept]
    assert examples.targets == [tokenizers.encode_target(pair.target) for pair in kept]
    assert examples.pairs == kept
    assert (examples.read, examples.empty, examples.duplicates, examples.too_long) == (9, 2, 1, 2)
    assert examples.report == (
        "4 pairs kept of 9; dropped: 2 with an empty side, 1 exact duplicates, 2 too long"
    )


def numbered(count: int) -> Examples:
    """Make pairs whose ids tell which one it is."""
    return Examples([], [[i] for i in range(count)], [[i, i] for i in range(count)], count, 0, 0, 0)


def test_a_training_sample_depends_on_the_seed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets = draw_train_sample(numbered(5_000), seed=3)
    assert len({source[0] for source in sources}) == len(sources) == 1_000
    assert targets == [source * 2 for source in sources]
    assert draw_train_sample(numbered(5_000), seed=3) == (sources, targets)
    assert draw_train_sample(numbered(5_000), seed=4) != (sources, targets)
    # From the whole corpus, not from a part of it.
    assert sum(source[0] < 2_500 for source in sources) == pytest.approx(500, abs=80)
    monkeypatch.setattr(data, "MOST_SAMPLED", 7)
    for count in (1, 6, 7):  # of few pairs, all are drawn
        found = draw_train_sample(numbered(count), seed=0)
        assert tuple(map(sorted, found)) == (numbered(count).sources, numbered(count).targets)


# What is refused


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda _: first_distinct(FEW, 1_000, max_tokens=4), "1,000 pairs .* at most 4 .*, got 5"),
        (lambda _: held_back(corpus(1, each=9)), r"a\.tsv: expected at least two .* got 1; give"),
        (lambda _: held_back(corpus(9), target="en"), "two languages, got 'en' twice; give --v"),
        (lambda t: encode_pairs([], t, max_tokens=4), "no pair is left: 0 pairs kept of 0;"),
        (lambda t: encode_pairs(FEW[1:2], t, max_tokens=4), "no pair is left: 0 pairs kept of 1;"),
        (lambda t: encode_pairs(FEW[7:9], t, max_tokens=4), "no pair is left: 0 pairs kept of 2;"),
    ],
)
def test_data_that_cannot_be_used_are_refused(
    tokenizers: TokenizerPair, use: Callable[[TokenizerPair], object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        use(tokenizers)


@pytest.mark.parametrize(
    "line",
    [
        *("oops", "[]", "[" * 100_000),
        *('{"source": "a"}', '{"sauce": "a"}', '{"source": 1, "reference": "a"}'),
    ],
    ids=lambda line: line[:30],
)
def test_broken_samples_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"source": "a", "reference": "b"}\n')
    assert load_samples(path) == [Sample("a", "b", "")]
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"samples\.jsonl, line 2: expected an object with source"):
        load_samples(path)
