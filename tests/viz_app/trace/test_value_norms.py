from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pytest
import torch

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.interventions import ablate
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.trace.attention import head_sum_norms, transform_values
from tests.floats import assert_near, near, rounding
from tests.viz_app.trace.by_key import lengths_by_key

SOURCE, TARGET = "Don't worry, she sees him.", "No te preocupes, ella lo ve."
L, H, K = 2, 3, 5


def test_values_are_transformed_by_the_rows_of_their_head() -> None:
    """Two heads of one key, d_k = 1; the projection's rows are those of the heads in turn."""
    values = torch.tensor([[[2.0]], [[3.0]]])
    projection = torch.tensor([[1.0, 0, 2], [0, 1, 0]])
    expected = torch.tensor([[[2.0, 0, 4]], [[0, 3, 0]]])
    assert_near(transform_values(values, projection), expected)


def test_norms_of_sums_of_two_heads_by_hand() -> None:
    """Of the first key the heads add opposite vectors, of the second orthogonal, of the third equal
    ones."""
    first = [[3.0, 4], [3, 0], [0, 2]]
    second = [[-3.0, -4], [0, 4], [0, 2]]
    weights = torch.tensor([[[0.5, 0.5, 0], [0.8, 0, 0.2]], [[0.5, 0.5, 0], [0.2, 0, 0.8]]])
    expected = torch.tensor([[0, 2.5, 0], [0.6 * 5, 0, 2]])
    found = head_sum_norms(weights, torch.tensor([first, second]))
    assert_near(found, expected, size=5**2)  # of the squares, whose roots they are


def test_rounding_never_makes_norms_nan() -> None:
    """Heads whose vectors cancel but for rounding have squares about 0, some of them below."""
    torch.manual_seed(5)
    vectors = torch.randn(4, 31, 17)
    vectors[-1] = -vectors[:-1].sum(dim=0)
    found = head_sum_norms(torch.full((4, 7, 31), 1 / 3), vectors)
    assert found.isfinite().all()
    of_key = vectors.transpose(0, 1)
    added = (of_key @ of_key.mT).abs().sum(dim=(-1, -2)) / 3**2
    assert float(found.max()) < sqrt(rounding(torch.float32, float(added.max())))


@pytest.mark.parametrize("off", [[], [("cross", 1, 0), ("encoder_self", 0, 2)]], ids=["", "off"])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_sums_are_what_the_model_adds_for_each_key(
    precise: Transformer,
    tokenizers: TokenizerPair,
    kind: Kind,
    off: Sequence[tuple[Kind, int, int]],
) -> None:
    trace = run_trace(precise, tokenizers, SOURCE, TARGET, ablated=off)
    norms = trace.head_sum_norms[kind]
    assert norms.shape == (L, len(trace.queries_of(kind)), len(trace.keys_of(kind)))
    with ablate(precise, [Head(*head) for head in off]):
        for layer in range(L):
            expected = lengths_by_key(precise, trace, kind, layer)
            assert_near(norms[layer], expected, dtype=np.float32, operations=1)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_sums_follow_from_weights_values_and_projection(
    precise: Transformer, tokenizers: TokenizerPair, kind: Kind
) -> None:
    """One vector after another."""
    trace = run_trace(precise, tokenizers, SOURCE, TARGET)
    stack = "encoder" if kind == "encoder_self" else "decoder"
    name = "cross_attention" if kind == "cross" else "self_attention"
    for layer, of_layer in enumerate(trace.head_sum_norms[kind]):
        module = precise.get_submodule(f"{stack}.layers.{layer}.{name}")
        projection = module.get_parameter("output_projection.weight").numpy()  # (D, H K)
        for (i, j), norm in np.ndenumerate(of_layer):
            added = sum(
                trace.attention[kind][layer, head, i, j]
                * (projection[:, head * K : (head + 1) * K] @ trace.values[kind][layer, head, j])
                for head in range(H)
            )
            lengths = trace.value_norms[kind][layer, :, j]
            size = float(trace.attention[kind][layer, :, i, j] @ lengths)
            assert norm == near(float(np.linalg.norm(added)), dtype=np.float32, size=size)
