from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwise.model.batching import pad, sorted_batches


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
