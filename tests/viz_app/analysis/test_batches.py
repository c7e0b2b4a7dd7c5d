from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.viz_app.analysis.batches import TokenIds, batch_of_lengths


def ids(length: int, first: int = 4) -> TokenIds:
    return (*range(first, first + length - 1), 3)


@pytest.mark.parametrize(
    ("length", "others", "expected"),
    [
        (7, [2, 5, 7, 11, 23], [7, 5, 11]),
        (7, [9, 5], [7, 5, 9]),
        (7, [7, 7], [7, 6, 5]),
        (7, [6], [7, 6, 5]),
        (2, [], [2, 1]),
        (1, [], [1]),
    ],
)
def test_nearest_lengths_come_first_then_cut_sentences(
    length: int, others: list[int], expected: list[int]
) -> None:
    batch = batch_of_lengths(ids(length), [ids(n, 50) for n in others])
    assert [len(row) for row in batch] == expected
    assert batch[0] == ids(length)
    assert all(row[-1] == 3 for row in batch)
    assert batch_of_lengths((4, 5, 6, 7, 3), [], size=2) == ((4, 5, 6, 7, 3), (4, 5, 6, 3))


@given(st.integers(3, 40), st.lists(st.integers(1, 40), max_size=6))
def test_all_lengths_differ(length: int, others: list[int]) -> None:
    batch = batch_of_lengths(ids(length), [ids(n) for n in others])
    assert len({len(row) for row in batch}) == len(batch) == 3
