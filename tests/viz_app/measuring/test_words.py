"""Hard alignments of two sentences against references made by hand."""

from __future__ import annotations

import pytest
import torch

from headwise.model.config import BOS, EOS
from headwise.model.files import CheckpointError
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.alignments import Alignments, Links
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.words import (
    AlignedBatch,
    align_batch,
    count_baseline_links,
    count_correct_links,
    identity_links,
    links_from_file,
    source_word_numbers,
    word_numbers,
)

CPU = torch.device("cpu")


def encoded(tokenizers: TokenizerPair, number: int, source: str, target: str) -> EncodedPair:
    pair = Pair(source, target)
    return EncodedPair(
        number, pair, tokenizers.encode_source(source), tokenizers.encode_target(target)
    )


def test_word_numbers(tokenizers: TokenizerPair) -> None:
    ids = tokenizers.source.encode("Where is Zoë?")
    numbers = word_numbers(tokenizers.source, ids)
    assert len(numbers) == len(ids) > 4
    assert sorted(set(numbers)) == [0, 1, 2, 3]
    assert tokenizers.source.decode([id for id, n in zip(ids, numbers, strict=True) if n == 2]) == (
        "Zoë"
    )


class WithTask:
    """Tokenizers that put the name of a task before every source, as a T5's do."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self.source, self.target = tokenizers.source, tokenizers.target
        self.prefix, self.encode_target = tokenizers.prefix, tokenizers.encode_target
        self._encode = tokenizers.encode_source

    def encode_source(self, text: str) -> list[int]:
        return self._encode(f"Where is it: {text}")


def test_the_name_of_a_task_is_no_word_of_the_source(tokenizers: TokenizerPair) -> None:
    plain = source_word_numbers(tokenizers, tokenizers.encode_source("The dog."))
    assert plain == word_numbers(tokenizers.source, tokenizers.encode_source("The dog."))
    task = WithTask(tokenizers)
    ids = task.encode_source("The dog.")
    numbers = source_word_numbers(task, ids)
    assert sorted(set(numbers)) == [-1, 0, 1, 2]
    named = [id for id, number in zip(ids, numbers, strict=True) if number >= 0]
    assert tokenizers.source.decode(named).strip() == "The dog."


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
    """Two heads; the second has most of its weight on </s>, which is no word."""
    maps = torch.tensor(
        [
            [
                [
                    [0.3, 0.3, 0.4, 0.0],
                    [0.0, 0.1, 0.9, 0.0],
                    [0.2, 0.2, 0.6, 0.0],
                    [0.9, 0, 0.1, 0],
                ],
                [
                    [0.0, 0.1, 0.2, 0.7],
                    [0.2, 0.1, 0.0, 0.7],
                    [0.0, 0.1, 0.1, 0.8],
                    [0.0, 0, 0.0, 1],
                ],
            ]
        ]
    )
    straight, crossed = ([[True, False], [False, True]], [[False, True], [True, False]])
    # Predicted: of the first head, word 0 (.6, .4), word 1 (.5, 1.5); of the second, word 0
    # (.1, .2), word 1 (.4, .1).
    predicted = one_sentence(straight).predicted
    assert count_correct_links(maps, one_sentence(straight), predicted).tolist() == [2, 0]
    assert count_correct_links(maps, one_sentence(crossed), predicted).tolist() == [0, 2]
    # Consumed: of the first head, word 0 (.1, .9), word 1 (1.3, .7).
    consumed = one_sentence(crossed).consumed
    assert count_correct_links(maps, one_sentence(crossed), consumed).tolist()[0] == 2
    assert count_correct_links(maps, one_sentence(straight), consumed).tolist()[0] == 0


def test_size_counts_hard_and_reference_links() -> None:
    for reference, size in (
        ([[True, False], [False, True]], 4),
        ([[True, True], [False, True]], 5),
        ([[False, False], [False, True]], 3),
    ):
        assert one_sentence(reference).size == size


def test_baselines_link_each_target_word_to_the_best_and_to_the_same_place() -> None:
    """Two source and three target words; the third target word has no reference."""
    aligned = one_sentence([[False, True], [False, True], [False, False]])
    assert count_baseline_links(aligned).tolist() == [2, 1]  # word 1 is on the diagonal
    beyond = one_sentence([[False, False], [False, False], [False, True]])
    assert count_baseline_links(beyond).tolist() == [1, 1]  # word 2 is linked to the last


def test_align_batch_uses_sentences_with_references(tokenizers: TokenizerPair) -> None:
    """The second of three sentences has none; the third's second word is aligned to nothing."""
    batch = [
        encoded(tokenizers, 4, "The cat", "El gato"),
        encoded(tokenizers, 5, "Where", "Dónde"),
        encoded(tokenizers, 9, "Dog.", "Perro viejo."),
    ]
    first = Links(2, 2, frozenset({(0, 0), (1, 1)}))
    third = Links(2, 3, frozenset({(0, 0), (1, 2)}))
    alignments = Alignments("a", "5ha", "by hand", {4: first, 9: third})
    aligned = align_batch(batch, tokenizers, links_from_file(alignments), CPU)
    assert aligned is not None
    assert aligned.rows.tolist() == [0, 2]
    assert aligned.reference.tolist() == [
        [[True, False], [False, True], [False, False]],
        [[True, False], [False, False], [False, True]],
    ]
    assert aligned.size == 2 + 3 + 2 + 2
    for row, sentence in enumerate((batch[0], batch[2])):
        steps = len(sentence.target) - 1
        target = word_numbers(tokenizers.target, sentence.target[1:-1])
        source = word_numbers(tokenizers.source, sentence.source[:-1])
        for found, expected in (
            (aligned.predicted, [*target, -1]),
            (aligned.consumed, [-1, *target]),
            (aligned.keys, [*source, -1]),
        ):
            assert found[row, : len(expected)].tolist() == expected
            assert (found[row, len(expected) :] == -1).all()
        assert steps == len(target) + 1


def test_padding_does_not_count(tokenizers: TokenizerPair) -> None:
    torch.manual_seed(5)
    batch = [
        encoded(tokenizers, 0, "The cat", "El gato rojo."),
        encoded(tokenizers, 1, "Where is the old dog?", "Dónde"),
    ]
    links = {
        0: Links(2, 4, frozenset({(0, 0), (1, 1), (1, 2)})),
        1: Links(6, 1, frozenset({(0, 0)})),
    }
    links_of = links_from_file(Alignments("a", "5ha", "by hand", links))
    together = align_batch(batch, tokenizers, links_of, CPU)
    assert together is not None
    size = together.predicted.shape[1], together.keys.shape[1]
    maps = torch.rand(2, 50, *size)
    for way in ("predicted", "consumed"):
        alone = torch.zeros(50)
        for row, sentence in enumerate(batch):
            aligned = align_batch([sentence], tokenizers, links_of, CPU)
            assert aligned is not None
            queries = getattr(aligned, way)
            shape = queries.shape[1], aligned.keys.shape[1]
            alone += count_correct_links(
                maps[row : row + 1, :, : shape[0], : shape[1]], aligned, queries
            )
        assert (
            count_correct_links(maps, together, getattr(together, way)).tolist() == alone.tolist()
        )
    assert 0 < alone.sum() < 250


def test_align_batch_without_references_is_none(tokenizers: TokenizerPair) -> None:
    batch = [encoded(tokenizers, 0, "The cat", "El gato")]
    assert (
        align_batch(batch, tokenizers, links_from_file(Alignments("a", "5ha", "", {})), CPU) is None
    )


def test_alignment_of_other_words_is_refused(tokenizers: TokenizerPair) -> None:
    batch = [encoded(tokenizers, 6, "The cat", "El gato")]
    links_of = links_from_file(Alignments("a", "5ha", "", {6: Links(2, 3, frozenset())}))
    message = r"sentence 7 of the corpus has \(2, 2\) words, .* \(2, 3\); make the alignments again"
    with pytest.raises(CheckpointError, match=message):
        align_batch(batch, tokenizers, links_of, CPU)


def test_copy_is_aligned_with_itself(tokenizers: TokenizerPair) -> None:
    same = EncodedPair(0, Pair("a", "a"), [*tokenizers.source.encode("the dog."), EOS], [BOS, EOS])
    assert identity_links(tokenizers)(same) == Links(3, 3, frozenset({(0, 0), (1, 1), (2, 2)}))
