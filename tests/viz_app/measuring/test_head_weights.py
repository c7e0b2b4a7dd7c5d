from __future__ import annotations

import math
from collections.abc import Callable

import torch

from headwise.model.interface import KINDS, attention_path
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.heads import effective_rank, singular_values, weight_measures
from tests.floats import assert_near, near


def test_effective_rank_by_hand() -> None:
    values = torch.tensor([[3, 3, 3], [5, 0, 0], [2, 1, 1]], dtype=torch.float64)
    half = math.exp(0.5 * math.log(2) + 0.5 * math.log(4))  # shares 1/2, 1/4, 1/4
    assert effective_rank(values).tolist() == near([3, 1, half])
    assert effective_rank(torch.zeros(2)).isnan()


def test_singular_values_are_those_of_the_whole_product() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(2, 2, 7, 3, dtype=torch.float64)
    whole = torch.linalg.svdvals(left @ right.mT)[:, :3]
    assert_near(singular_values(left, right), whole)


def test_weights_of_each_head(make_model: Callable[..., Transformer]) -> None:
    """A score is x W_Q W_Kᵀ x / √K: the norm is the largest score of two vectors of length 1."""
    model = make_model(attention_bias=False, n_encoder_layers=1)
    found = weight_measures(model)
    size, heads = model.description.encoder_d_k, model.description.n_encoder_heads
    for kind in KINDS:
        path = attention_path(kind, 0)
        rows = [
            model.get_parameter(f"{path}.{name}_projection.weight").double()
            for name in ("query", "key", "value")
        ]
        output = model.get_parameter(f"{path}.output_projection.weight").double()
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            query, key, value = (weight[part].T for weight in rows)
            # Beyond the first d_k singular values are 0, but for rounding.
            qk = torch.linalg.svdvals(query @ key.T / math.sqrt(size))[:size]
            ov = torch.linalg.svdvals(value @ output[:, part].T)[:size]
            for name, expected in (
                ("qk_norm", qk[0]),
                ("qk_rank", effective_rank(qk)),
                ("ov_rank", effective_rank(ov)),
            ):
                assert_near(found[name][kind][0, head], expected.detach())
