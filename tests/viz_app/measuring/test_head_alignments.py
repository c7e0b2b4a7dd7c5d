"""Alignments of three sentences by two heads, made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.tokenizer import TokenizerPair, WordTokenizer
from headwise.model.training.data import DataError, Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring import head_alignments
from headwise.viz_app.measuring.alignments import WordLinks
from headwise.viz_app.measuring.batches import LeftOutCounts, PaddedIds
from headwise.viz_app.measuring.head_alignments import (
    PAIRS_AT_A_TIME,
    Agreement,
    AlignedPair,
    AlignedRows,
    align_pairs,
)
from tests.floats import assert_near

WORDS = TokenizerPair(
    WordTokenizer.train(["the red dog where"], 20), WordTokenizer.train(["el perro rojo dónde"], 20)
)
PAIR = Pair("the red dog", "el perro rojo")
# Rows predict el, perro, rojo and </s>, and consume <s>, el, perro and rojo. Keys: the, red, dog,
# </s>, which has the largest weight in the first row of the first head and is no word.
FIRST = [[0.3, 0.2, 0.1, 0.4], [0.0, 0.2, 0.8, 0.0], [0.1, 0.9, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]
SECOND = [[0.1, 0.6, 0.3, 0.0], [0.5, 0.2, 0.3, 0.0], [0.0, 0.1, 0.2, 0.7], [0.8, 0.1, 0.1, 0.0]]
STRAIGHT: WordLinks = {(0, 0), (2, 1), (1, 2)}


@pytest.fixture
def model(make_model: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch) -> Transformer:
    """A model with two heads whose maps are those above, cut to the size of a sentence."""
    made = make_model(
        source_vocab_size=WORDS.source.vocab_size, target_vocab_size=WORDS.target.vocab_size
    )

    def maps(_: Transformer, ids: PaddedIds) -> tuple[dict[str, Tensor], None]:
        weights = torch.tensor([FIRST, SECOND])[:, : ids.predicted.shape[1], : ids.source.shape[1]]
        return {"cross": weights.expand(len(ids.source), -1, -1, -1)}, None

    monkeypatch.setattr(head_alignments, "attention_maps", maps)
    return made


def align(
    model: Transformer,
    *pairs: tuple[Pair, WordLinks],
    rows: AlignedRows = "predicted",
    agreement: Agreement | None = None,
) -> tuple[list[AlignedPair | None], LeftOutCounts]:
    left_out = LeftOutCounts()
    aligned = align_pairs(model, WORDS, pairs, rows=rows, left_out=left_out, agreement=agreement)
    return list(aligned), left_out


@pytest.mark.parametrize(
    ("rows", "first", "second"),
    [
        ("predicted", STRAIGHT, {(1, 0), (0, 1), (2, 2)}),
        ("consumed", {(2, 0), (1, 1), (2, 2)}, {(0, 0), (2, 1), (0, 2)}),
    ],
)
def test_each_target_word_is_linked_to_the_word_with_the_largest_weight(
    model: Transformer, rows: AlignedRows, first: WordLinks, second: WordLinks
) -> None:
    (pair,), _ = align(model, (PAIR, set()), rows=rows)
    assert pair is not None
    assert (pair.source_words, pair.target_words) == (3, 3)
    assert [pair.links(head) for head in (0, 1)] == [first, second]


def test_pairs_stay_in_order_and_those_left_out_are_none(model: Transformer) -> None:
    """Batches are sorted by length; a repeated pair is aligned again."""
    long = Pair(" ".join(["dog"] * 40), "perro")
    short = Pair("where", "dónde")
    found, left_out = align(
        model, *((pair, set()) for pair in (PAIR, Pair("", "el"), short, long, PAIR))
    )
    assert [pair and pair.links(0) for pair in found] == [STRAIGHT, None, {(0, 0)}, None, STRAIGHT]
    assert left_out == LeftOutCounts(empty=1, too_long=1)


def test_agreement_with_a_reference(model: Transformer) -> None:
    """The first head has three links of three right, and one of one; the second none of three."""
    agreement = Agreement(np.zeros(2))
    pairs = ((PAIR, {(0, 0), (2, 1), (1, 2), (1, 1)}), (Pair("where", "dónde"), {(0, 0)}))
    align(model, *pairs, (Pair("", "el"), {(7, 7)}), agreement=agreement)
    assert (agreement.made, agreement.sure, agreement.sentences) == (4, 5, 2)
    assert_near(agreement.precision, [4 / 4, 1 / 4])
    assert_near(agreement.recall, [4 / 5, 1 / 5])
    assert_near(agreement.error_rate, [1 - 8 / 9, 1 - 2 / 9])
    alone = Agreement(np.zeros(1))
    alone.add({(0, 0), (1, 1)}, {(0, 0), (2, 2), (3, 3)})
    assert (alone.error_rate[0], alone.sentences) == (1 - 2 / 5, 1)


def test_reference_of_other_words_is_refused(model: Transformer) -> None:
    message = r"reference of pair 2: expected links between 1 source and 1 target words, .* got 0-1"
    with pytest.raises(DataError, match=message):
        align(model, (PAIR, set()), (Pair("where", "dónde"), {(0, 0), (0, 1)}))


def test_pairs_are_read_a_few_at_a_time(model: Transformer) -> None:
    read = 0

    def pairs() -> Iterator[tuple[Pair, WordLinks]]:
        nonlocal read
        for _ in range(3 * PAIRS_AT_A_TIME):
            read += 1
            yield PAIR, set()

    aligned = align_pairs(model, WORDS, pairs(), rows="predicted", left_out=LeftOutCounts())
    for number in range(PAIRS_AT_A_TIME + 1):
        assert next(aligned) is not None
        assert number < read <= (number // PAIRS_AT_A_TIME + 1) * PAIRS_AT_A_TIME
