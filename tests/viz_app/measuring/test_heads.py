"""Measures of maps small enough for pencil and paper, of the weights of heads, and of even rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import KINDS, attention_path
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.measuring.head_measures import weight_measures
from headwise.viz_app.measuring.heads import (
    HeadSum,
    confidence,
    distance,
    effective_rank,
    entropy,
    on_keys,
    on_offset,
    on_rarest,
)
from headwise.viz_app.measuring.sums import even_head, measure_sentence
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near

CAUSAL = torch.ones(1, 3, 3, dtype=torch.bool).tril()
MAP = torch.tensor([[[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]]])
"""One sentence, one head; the first row allows one key and must not count."""


def mean(found: HeadSum) -> list[float]:
    return (found.total.sum(dim=0) / found.count.sum()).tolist()


def test_entropy_is_relative_to_uniform_weights() -> None:
    second = (0.25 * math.log(4) + 0.75 * math.log(4 / 3)) / math.log(2)
    third = (0.5 * math.log(2) + 0.5 * math.log(4)) / math.log(3)
    found = entropy(MAP, CAUSAL)
    assert mean(found) == near([(second + third) / 2])
    assert found.count == 2
    equal = CAUSAL.double()[:, None] / CAUSAL.sum(dim=-1)[:, None, :, None]
    assert mean(entropy(equal, CAUSAL)) == near([1])


def test_confidence_is_the_largest_weight() -> None:
    assert mean(confidence(MAP, CAUSAL)) == near([(0.75 + 0.5) / 2])


@pytest.mark.parametrize(
    ("offset", "weights"), [(-1, 0.25 + 0.25), (0, 0.75 + 0.25), (-2, 0.5), (1, 0), (5, 0)]
)
def test_on_offset_is_of_all_rows(offset: int, weights: float) -> None:
    found = on_offset(MAP, CAUSAL, offset)
    assert found.count == 2
    assert found.total.tolist() == [near([weights])]


def test_on_offset_of_rectangular_maps() -> None:
    """Two rows, three keys: row 1 has key 2 after it, row 0 none before it."""
    weights = torch.tensor([[[[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]]], dtype=torch.float64)
    allowed = torch.ones(1, 2, 3, dtype=torch.bool)
    means = [mean(on_offset(weights, allowed, offset))[0] for offset in (-1, 0, 1)]
    assert means == near([(0 + 0.3) / 2, (0.1 + 0.4) / 2, (0.2 + 0.3) / 2])


def test_on_keys_is_of_all_rows() -> None:
    for keys, expected in (
        ([False, False, True], (0 + 0.25) / 2),
        ([True, False, True], (0.25 + 0.75) / 2),
        ([False, True, False], (0.75 + 0.25) / 2),
    ):
        assert mean(on_keys(MAP, CAUSAL, torch.tensor([keys]))) == near([expected])


def test_on_rarest_counts_rows_whose_largest_weight_is_there() -> None:
    weights = torch.tensor([[[[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]]]])
    everywhere = torch.ones(1, 3, 3, dtype=torch.bool)
    assert mean(on_rarest(weights, everywhere, torch.tensor([[9, 4, 30]]))) == near([1 / 3])
    # The special token is never the rarest; of equally rare ones each counts.
    assert mean(on_rarest(weights, everywhere, torch.tensor([[4, 4, -1]]))) == near([2 / 3])
    # The mask hides the rarest from row 1, which has key 0 as the rarer; row 0 has no choice.
    found = on_rarest(weights, CAUSAL, torch.tensor([[4, 9, 1]]))
    assert (found.total.tolist(), found.count.tolist()) == ([[1]], [2])


def test_distance_is_0_for_equal_and_1_for_disjoint_rows() -> None:
    allowed = torch.ones(1, 1, 2, dtype=torch.bool)
    one, other, half = (torch.tensor([[[row]]]) for row in ([1.0, 0.0], [0.0, 1.0], [0.5, 0.5]))
    assert mean(distance(one, one, allowed)) == [0]
    assert mean(distance(one, other, allowed)) == near([1])
    # Middle (3/4, 1/4): (log2(4/3) + (log2(2/3) + log2(2)) / 2) / 2.
    divergence = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    for maps in ((one, half), (half, one)):
        assert mean(distance(*maps, allowed)) == near([math.sqrt(divergence)])


# Of weights


def test_effective_rank_by_hand() -> None:
    values = torch.tensor([[3, 3, 3], [5, 0, 0], [2, 1, 1]], dtype=torch.float64)
    half = math.exp(0.5 * math.log(2) + 0.5 * math.log(4))  # shares 1/2, 1/4, 1/4
    assert effective_rank(values).tolist() == near([3, 1, half])
    assert effective_rank(torch.zeros(2)).isnan()


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
                assert_near(found[name][kind][0, head], expected.detach(), dtype=torch.float32)


def test_even_head_has_the_mean_of_even_rows(run: TrainedRun, sentences: list[EncodedPair]) -> None:
    found = even_head(run.tokenizers, run.counts, sentences)
    steps = [len(sentence.target) - 1 for sentence in sentences]
    # Row i of the decoder has i + 1 keys, <s> and its own among them; the first has no choice.
    own = [1 / (row + 1) for count in steps for row in range(1, count)]
    assert found["begin"]["decoder_self"] == near(np.mean(own))
    assert found["same"]["decoder_self"] == near(np.mean(own))
    across = np.repeat([1 / len(each.source) for each in sentences], steps)
    assert found["end"]["cross"] == near(np.mean(across))
    assert found["confidence"]["cross"] == near(np.mean(across))
    assert found["entropy"]["encoder_self"] == pytest.approx(1)
    assert run.counts is not None
    rarest = []
    for each, count in zip(sentences, steps, strict=True):
        occurrences = [run.counts.source[id] for id in each.source[:-1]]  # without </s>
        if len(occurrences) > 1:
            rarest += [occurrences.count(min(occurrences)) / len(each.source)] * count
    assert found["rare"]["cross"] == near(np.mean(rarest))


@pytest.fixture(scope="module")
def trace(run: TrainedRun) -> Trace:
    model = load_weights(run, 20).model
    return run_trace(model, run.tokenizers, "Where is the dog?", "¿Dónde está el perro?")


def test_heads_have_means_of_rows_and_an_even_head_of_even_ones(
    trace: Trace, run: TrainedRun
) -> None:
    found = measure_sentence(trace, run.tokenizers, run.counts)
    cross, own = trace.attention["cross"], trace.attention["decoder_self"]
    assert_near(found.values["end"]["cross"], cross[..., -1].mean(-1))
    assert found.even["end"]["cross"] == near(1 / len(trace.source))
    rows = np.arange(1, len(trace.consumed))  # the first has no choice
    assert_near(found.values["previous"]["decoder_self"], own[..., rows, rows - 1].mean(-1))
    assert_near(found.values["begin"]["decoder_self"], own[..., rows, 0].mean(-1))
    assert found.even["begin"]["decoder_self"] == near((1 / (rows + 1)).mean())
    marks = [text.strip() in ("¿", "?") for text in trace.consumed.texts]
    on_marks = own[..., rows, :][..., marks].sum(-1).mean(-1)
    assert_near(found.values["punctuation"]["decoder_self"], on_marks)
    assert "end" not in {name for name, of in found.values.items() if "decoder_self" in of}
