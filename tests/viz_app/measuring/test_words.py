"""Hard alignments of maps and references made by hand, and those of the pairs of a corpus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from headwise.model.config import BOS, EOS
from headwise.model.files import CheckpointError
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import DataError, Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair, LeftOutCounts
from headwise.viz_app.measuring.alignments import Alignments, Links, WordLinks
from headwise.viz_app.measuring.head_alignments import PAIRS_AT_A_TIME, Agreement, align_pairs
from headwise.viz_app.measuring.words import (
    AlignedBatch,
    LinksLookup,
    align_batch,
    count_baseline_links,
    count_correct_links,
    identity_links,
    links_from_file,
    source_word_numbers,
    word_numbers,
)
from tests.floats import assert_near
from tests.viz_app.measuring.conftest import PAIR, WORDS, MakeAligner

CPU = torch.device("cpu")
STRAIGHT, CROSSED = [[True, False], [False, True]], [[False, True], [True, False]]


def encoded(tokenizers: TokenizerPair, number: int, source: str, target: str) -> EncodedPair:
    ids = tokenizers.encode_source(source), tokenizers.encode_target(target)
    return EncodedPair(number, Pair(source, target), *ids)


def lookup(links: dict[int, Links]) -> LinksLookup:
    return links_from_file(Alignments("a", "5ha", "by hand", links))


def test_word_numbers(tokenizers: TokenizerPair) -> None:
    ids = tokenizers.source.encode("Where is Zoë?")
    numbers = word_numbers(tokenizers.source, ids)
    assert len(numbers) == len(ids) > 4
    assert sorted(set(numbers)) == [0, 1, 2, 3]
    third = [id for id, number in zip(ids, numbers, strict=True) if number == 2]
    assert tokenizers.source.decode(third) == "Zoë"


class WithTask:
    """Tokenizers that put the name of a task before every source, as a T5's do."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self.source = tokenizers.source
        self._encode = tokenizers.encode_source

    def encode_source(self, text: str) -> list[int]:
        return self._encode(f"Where is it: {text}")


def test_the_name_of_a_task_is_no_word_of_the_source(tokenizers: TokenizerPair) -> None:
    ids = tokenizers.encode_source("The dog.")
    numbers = source_word_numbers(tokenizers, ids)
    assert (sorted(set(numbers)), numbers[-1]) == ([-1, 0, 1, 2], -1)
    task = WithTask(tokenizers)
    ids = task.encode_source("The dog.")
    numbers = source_word_numbers(task, ids)
    assert sorted(set(numbers)) == [-1, 0, 1, 2]
    named = [id for id, number in zip(ids, numbers, strict=True) if number >= 0]
    assert tokenizers.source.decode(named).strip() == "The dog."


# A batch with references


def one_sentence(reference: list[list[bool]]) -> AlignedBatch:
    """Source words of 2 tokens and 1, then </s>; target words of 1 token and 2."""
    return AlignedBatch(
        rows=torch.tensor([0]),
        keys=torch.tensor([[0, 0, 1, -1]]),
        predicted=torch.tensor([[0, 1, 1, -1]]),
        consumed=torch.tensor([[-1, 0, 1, 1]]),
        reference=torch.tensor([reference]),
    )


def test_hard_alignment_takes_the_largest_weight() -> None:
    """Two heads; the second has most of its weight on </s>, which is no word.

    By predicted words the first head gives word 0 (.6, .4) and word 1 (.5, 1.5), the second word 0
    (.1, .2) and word 1 (.4, .1). By consumed words the first gives (.1, .9) and (1.3, .7).
    """
    first = [[0.3, 0.3, 0.4, 0], [0, 0.1, 0.9, 0], [0.2, 0.2, 0.6, 0], [0.9, 0, 0.1, 0]]
    second = [[0, 0.1, 0.2, 0.7], [0.2, 0.1, 0, 0.7], [0, 0.1, 0.1, 0.8], [0, 0, 0, 1]]
    maps = torch.tensor([[first, second]])
    for reference, predicted, consumed in ((STRAIGHT, [2, 0], 0), (CROSSED, [0, 2], 2)):
        aligned = one_sentence(reference)
        assert count_correct_links(maps, aligned, aligned.predicted).sum(0).tolist() == predicted
        assert count_correct_links(maps, aligned, aligned.consumed).sum(0)[0] == consumed


def test_size_and_baselines_by_hand() -> None:
    """The size is of the hard alignment's two links and those of the reference. Baselines link each
    target word to the best there is, and to the same place or else the last."""
    for reference, size in (
        (STRAIGHT, 4),
        ([[True, True], [False, True]], 5),
        ([[False, False], [False, True]], 3),
    ):
        assert one_sentence(reference).sizes.tolist() == [size]
    for reference, links in (
        ([[False, True], [False, True], [False, False]], [2, 1]),  # word 1 is on the diagonal
        ([[False, False], [False, False], [False, True]], [1, 1]),  # word 2 is linked to the last
    ):
        assert count_baseline_links(one_sentence(reference)).tolist() == links


def test_align_batch_uses_sentences_with_references(tokenizers: TokenizerPair) -> None:
    """The second of three sentences has none; the third's second word is aligned to nothing."""
    batch = [
        encoded(tokenizers, 4, "The cat", "El gato"),
        encoded(tokenizers, 5, "Where", "Dónde"),
        encoded(tokenizers, 9, "Dog.", "Perro viejo."),
    ]
    first = Links(2, 2, frozenset({(0, 0), (1, 1)}))
    third = Links(2, 3, frozenset({(0, 0), (1, 2)}))
    aligned = align_batch(batch, tokenizers, lookup({4: first, 9: third}), CPU)
    assert aligned is not None
    assert aligned.rows.tolist() == [0, 2]
    assert aligned.reference.tolist() == [
        [[True, False], [False, True], [False, False]],
        [[True, False], [False, False], [False, True]],
    ]
    assert aligned.sizes.sum() == 2 + 3 + 2 + 2
    for row, sentence in enumerate((batch[0], batch[2])):
        target = word_numbers(tokenizers.target, sentence.target[1:-1])
        source = word_numbers(tokenizers.source, sentence.source[:-1])
        for found, expected in (
            (aligned.predicted, [*target, -1]),
            (aligned.consumed, [-1, *target]),
            (aligned.keys, [*source, -1]),
        ):
            assert found[row, : len(expected)].tolist() == expected
            assert (found[row, len(expected) :] == -1).all()
    assert align_batch(batch[1:2], tokenizers, lookup({4: first}), CPU) is None


def test_alignment_of_other_words_is_refused(tokenizers: TokenizerPair) -> None:
    batch = [encoded(tokenizers, 6, "The cat", "El gato")]
    message = r"sentence 7 of the corpus has \(2, 2\) words, .* \(2, 3\); make the alignments again"
    with pytest.raises(CheckpointError, match=message):
        align_batch(batch, tokenizers, lookup({6: Links(2, 3, frozenset())}), CPU)


def test_copy_is_aligned_with_itself(tokenizers: TokenizerPair) -> None:
    same = EncodedPair(0, Pair("a", "a"), [*tokenizers.source.encode("the dog."), EOS], [BOS, EOS])
    assert identity_links(tokenizers)(same) == Links(3, 3, frozenset({(0, 0), (1, 1), (2, 2)}))


# The pairs of a corpus, by two heads

FIRST = [[0.3, 0.2, 0.1, 0.4], [0.0, 0.2, 0.8, 0.0], [0.1, 0.9, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]
SECOND = [[0.1, 0.6, 0.3, 0.0], [0.5, 0.2, 0.3, 0.0], [0.0, 0.1, 0.2, 0.7], [0.8, 0.1, 0.1, 0.0]]
BY_FIRST: WordLinks = {(0, 0), (2, 1), (1, 2)}
SHORT = Pair("where", "dónde")


@pytest.fixture
def model(make_aligner: MakeAligner) -> Transformer:
    return make_aligner(FIRST, SECOND)


def test_agreement_with_a_reference(model: Transformer) -> None:
    """The first head has three links of three right, and one of one; the second none of three. A
    pair that is left out is None."""
    agreement, left_out = Agreement(np.zeros(2)), LeftOutCounts()
    pairs = [(SHORT, {(0, 0)}), (Pair("", "el"), {(7, 7)}), (PAIR, BY_FIRST | {(1, 1)})]
    counts = {"left_out": left_out, "agreement": agreement}
    found = list(align_pairs(model, WORDS, pairs, rows="predicted", **counts))
    assert [pair and pair.links for pair in found] == [{(0, 0)}, None, BY_FIRST]
    chosen = [pair and pair.chosen.tolist() for pair in found]
    assert chosen == [[[0], [0]], None, [[0, 2, 1], [1, 0, 2]]]
    assert left_out == LeftOutCounts(empty=1)
    assert (agreement.made, agreement.sure, agreement.sentences) == (4, 5, 2)
    assert_near(agreement.precision, [4 / 4, 1 / 4])
    assert_near(agreement.recall, [4 / 5, 1 / 5])
    assert_near(agreement.error_rate, [1 - 8 / 9, 1 - 2 / 9])
    alone = Agreement(np.zeros(1))
    alone.add({(0, 0), (1, 1)}, {(0, 0), (2, 2), (3, 3)})
    assert (alone.error_rate[0], alone.sentences) == (1 - 2 / 5, 1)


def test_reference_of_other_words_is_refused(model: Transformer) -> None:
    for odd in ((0, 1), (1, 0)):
        message = rf"pair 2: expected links between 1 source and 1 target .* got {odd[0]}-{odd[1]}"
        pairs = [(PAIR, set()), (SHORT, {(0, 0), odd})]
        with pytest.raises(DataError, match=message):
            list(align_pairs(model, WORDS, pairs, rows="predicted"))


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
