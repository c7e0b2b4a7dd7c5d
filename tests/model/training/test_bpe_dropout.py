from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.tokenizer import Tokenizer
from headwise.model.training.bpe_dropout import BpeDropout


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["the cat sat on the mat.", "¿Dónde está el gato?", "the the the other mother"] * 9
    return Tokenizer.train(texts, 420)


@given(text=st.text(st.characters(exclude_categories=("Cs",))))
def test_without_dropout_texts_are_encoded_as_the_tokenizer_does(
    tokenizer: Tokenizer, text: str
) -> None:
    assert BpeDropout(tokenizer, 0.0).encode(text, random.Random(0)) == tokenizer.encode(text)


@given(
    text=st.text(st.sampled_from("the catsonmDá¿?.é 1漢")),
    probability=st.floats(0, 0.99),
    seed=st.integers(0, 99),
)
def test_any_split_has_the_text_and_follows_from_the_seed(
    tokenizer: Tokenizer, text: str, probability: float, seed: int
) -> None:
    dropout = BpeDropout(tokenizer, probability)
    ids = dropout.encode(text, random.Random(seed))
    assert tokenizer.decode(ids) == text
    assert dropout.encode(text, random.Random(seed)) == ids


def test_each_merge_is_left_out_with_the_probability_given() -> None:
    """Of "ab" with the merges " a" and " ab", worked by hand with q = 1 - p.

    The first merge is left out with p: then " ", "a", "b" stay, as no other is possible. After it,
    the second is left out with p.
    """
    tokenizer = Tokenizer.train(["ab"] * 9, 360)
    assert tokenizer.merges == [(" ", "a"), (" a", "b")]
    dropout, generator, times = BpeDropout(tokenizer, 0.3), random.Random(0), 20_000
    splits = Counter(tuple(tokenizer.tokens(dropout.encode("ab", generator))) for _ in range(times))
    expected = {(" ", "a", "b"): 0.3, (" a", "b"): 0.7 * 0.3, (" ab",): 0.7 * 0.7}
    assert set(splits) == set(expected)
    for split, share in expected.items():  # four standard errors of a share
        bound = 4 * (share * (1 - share) / times) ** 0.5
        assert abs(splits[split] / times - share) < bound, split


def test_a_merge_that_was_left_out_may_come_at_the_next_step() -> None:
    """Of "abab" the merge of a and b is possible at two places, each with a draw of its own."""
    tokenizer = Tokenizer.train(["abab"] * 9, 360)
    assert tokenizer.merges[0] == ("a", "b")
    dropout, generator = BpeDropout(tokenizer, 0.5), random.Random(0)
    splits = {tuple(tokenizer.tokens(dropout.encode("abab", generator))) for _ in range(500)}
    assert (" ", "a", "b", "ab") in splits
    assert (" ", "ab", "a", "b") in splits
