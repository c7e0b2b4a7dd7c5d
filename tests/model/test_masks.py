from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.config import PAD
from headwise.model.masks import causal_mask, padding_mask, padding_mask_if_padded


@given(st.data(), st.integers(1, 5), st.integers(1, 11))
def test_padding_mask_allows_exactly_the_tokens(
    data: st.DataObject, batch: int, length: int
) -> None:
    row = st.lists(st.integers(PAD, 4), min_size=length, max_size=length).filter(any)
    rows = data.draw(st.lists(row, min_size=batch, max_size=batch))

    mask = padding_mask(torch.tensor(rows))

    assert mask.dtype == torch.bool
    assert mask.shape == (batch, 1, 1, length)
    assert mask[:, 0, 0].tolist() == [[token != PAD for token in row] for row in rows]


def test_without_padding_there_is_no_mask() -> None:
    assert padding_mask_if_padded(torch.tensor([[5, 6], [7, 8]])) is None
    ids = torch.tensor([[5, 6], [7, PAD]])
    mask = padding_mask_if_padded(ids)
    assert mask is not None
    assert torch.equal(mask, padding_mask(ids))
    for refused in (torch.tensor([[5, PAD], [PAD, PAD]]), torch.empty(2, 0, dtype=torch.long)):
        with pytest.raises(ValueError, match="allows no key"):
            padding_mask_if_padded(refused)


def test_a_row_of_padding_only_is_refused() -> None:
    ids = torch.tensor([[5, PAD], [PAD, PAD], [PAD, PAD]])
    message = "row 1 of the batch allows no key: expected at least one token .* got padding only; "
    with pytest.raises(ValueError, match=message):
        padding_mask(ids)


def test_an_empty_row_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 of the batch allows no key"):
        padding_mask(torch.zeros(3, 0, dtype=torch.long))


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5)])
def test_padding_mask_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected shape \(batch, length\), got \("):
        padding_mask(torch.ones(shape, dtype=torch.long))


@given(st.integers(1, 11), st.integers(0, 11))
def test_causal_mask_allows_each_query_its_past_and_itself(n_queries: int, earlier: int) -> None:
    n_keys = earlier + n_queries

    mask = causal_mask(n_queries, n_keys)

    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, n_queries, n_keys)
    assert mask[0, 0].tolist() == [
        [key <= earlier + query for key in range(n_keys)] for query in range(n_queries)
    ]


def test_causal_mask_refuses_more_queries_than_keys() -> None:
    with pytest.raises(ValueError, match="at most as many queries as keys, got 3 queries and 2 k"):
        causal_mask(3, 2)
