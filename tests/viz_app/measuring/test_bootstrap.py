from __future__ import annotations

import math

import pytest
import torch

from headwise.model.training.processes import ALONE
from headwise.viz_app.measuring.sums import Bootstrap
from tests.floats import assert_near

CPU = torch.device("cpu")


def filled(figures: torch.Tensor, tokens: torch.Tensor, size: int) -> Bootstrap:
    """Add the sentences in batches of some size, the last one first."""
    bootstrap = Bootstrap(figures.shape[1], CPU)
    for places in reversed(torch.arange(len(figures)).split(size)):
        bootstrap.add(places.tolist(), figures[places], tokens[places])
    bootstrap.all_reduce(ALONE)
    return bootstrap


def test_the_error_of_a_mean_is_the_one_of_theory() -> None:
    """Of n values it is their deviation divided by √n; 200 resamples know it within 20%."""
    figures = torch.randn(400, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [1.0, 2.0, 0.0]
    ) + torch.tensor([5.0, 0.0, 3.0])
    found = filled(figures, torch.ones(400), 32).standard_errors()
    expected = figures.std(dim=0) / math.sqrt(400)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=0.2, abs=1e-9)


def test_batches_and_their_order_do_not_matter() -> None:
    figures = torch.randn(50, 2, generator=torch.Generator().manual_seed(2))
    tokens = torch.arange(1, 51)
    found = [filled(figures, tokens, size).standard_errors() for size in (1, 7, 50)]
    for other in found[1:]:
        assert_near(found[0], other)


def test_one_sentence_has_no_error() -> None:
    bootstrap = filled(torch.ones(1, 1), torch.ones(1), 1)
    assert bootstrap.standard_errors().isnan().all()
