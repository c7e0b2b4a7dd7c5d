"""Maps alone and their log-probabilities beside a trace; weights of models under our names."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.hooks import capture, edit
from headwise.model.interface import KINDS, Kind, Seq2SeqModel, attention_path
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import Turned
from headwise.model.turning import turn
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.attention import (
    head_sum_norms,
    next_log_probability,
    run_attention,
    target_log_probability,
)
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.trace.weights import named_weights
from tests.floats import assert_near, near, rounding
from tests.model.pretrained.tiny import FAMILY_NAMES, build

SOURCE, TARGET = "Don't worry, she sees him.", "No te preocupes, ella lo ve."


def test_maps_and_scores_are_of_the_trace(precise: Transformer, tokenizers: TokenizerPair) -> None:
    """Computed in float64 and rounded to float32, as all that is recorded is."""
    source, target = tokenizers.encode_source(SOURCE), tokenizers.encode_target(TARGET)
    trace = run_trace(precise, tokenizers, SOURCE, target)
    lean = run_attention(precise, source, target)
    assert tuple(lean.attention) == KINDS
    for kind in KINDS:
        assert_near(lean.attention[kind], trace.attention[kind], operations=1)
        assert not lean.attention[kind].flags.writeable
    expected = trace.predictions.log_probability
    assert_near(lean.log_probability, expected, operations=1)
    assert_near(target_log_probability(precise, source, target), expected, operations=1)
    for at in (0, len(target) - 2):
        found = next_log_probability(precise, source, target[: at + 1])
        size = np.abs(found).max()
        assert np.exp(found).sum() == near(1, dtype=np.float32, size=size)
        assert found[target[at + 1]] == near(expected[at], size=size)


def test_target_of_a_start_only_is_refused(trained: Transformer, tokenizers: TokenizerPair) -> None:
    for run in (run_attention, target_log_probability):
        with pytest.raises(ValueError, match=r"^target: expected <s> and at least one token, got"):
            run(trained, tokenizers.encode_source(SOURCE), [2])


# Norms


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


@torch.inference_mode()
def lengths_by_key(model: Seq2SeqModel, trace: Trace, kind: Kind, layer: int) -> Floats:
    """Run the model with each key alone: lengths of what a layer adds to each query's output."""
    path = attention_path(kind, layer)
    source, consumed = (torch.tensor([tokens.ids]) for tokens in (trace.source, trace.consumed))

    def output(kept: Tensor) -> Tensor:
        changed = {f"{path}.weights": lambda weights: weights * kept}
        with edit(model, changed), capture(model, [f"{path}.output"]) as seen:
            model.decode(consumed, *model.encode(source))
        return seen[f"{path}.output"][0][0]  # (Q, D)

    keys = len(trace.keys_of(kind))
    bias = output(torch.zeros(keys))
    alone = [(output(key) - bias).norm(dim=-1).numpy() for key in torch.eye(keys)]
    return np.stack(alone, axis=-1)


@pytest.mark.parametrize("strength", [1.0, 0.0, -0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_sums_are_what_the_model_adds_for_each_key(
    precise: Transformer, tokenizers: TokenizerPair, kind: Kind, strength: float
) -> None:
    turned = Turned.of({("cross", 1, 0): strength, ("encoder_self", 0, 2): strength})
    trace = run_trace(precise, tokenizers, SOURCE, TARGET, turned=turned)
    norms = trace.head_sum_norms[kind]
    assert norms.shape == (2, len(trace.queries_of(kind)), len(trace.keys_of(kind)))
    with turn(precise, turned):
        for layer, found in enumerate(norms):
            expected = lengths_by_key(precise, trace, kind, layer)
            assert_near(found, expected, dtype=np.float32, operations=1)


COMPUTED = {"m2m_100", "t5", "t5_1_1", "mt5", "umt5", "t5gemma", "t5gemma2"}
"""Families whose positions are computed, or that have none."""
POSITIONS = {f"{stack}.embedding.position_table.weight" for stack in ("encoder", "decoder")}

FOREIGN = {
    *("relative_attention_bias", "layernorm_embedding", "token_type_embeddings", "LayerNorm"),
    *("dense", "layer_norm", "predictions", "decoder", "lm_head"),  # before the logits
    *("k_proj", "v_proj"),  # each is for several heads
    *(f"{at}_{of}_layernorm" for at in ("pre", "post") for of in ("self_attn", "cross_attn")),
    *("pre_feedforward_layernorm", "post_feedforward_layernorm", "norm"),  # stored less 1
    *("q_norm", "k_norm", "embed_tokens"),  # stored less 1; what stands for the end of an image
    *("enc_to_dec_proj", "key", "value", "c_attn"),  # keys and values are made by two layers
}
"""Modules of opened models whose weights ours does not have."""


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_each_weight_of_an_opened_model_is_listed_and_positions_by_name(family: str) -> None:
    model = build(family).ours
    if family == "t5gemma2":  # as a folder of it is opened
        del model.inner.model.encoder.vision_tower, model.inner.model.encoder.multi_modal_projector
    weights = named_weights(model)
    listed = {address for _, _, address in weights}
    assert listed == {parameter.data_ptr() for _, parameter in model.named_parameters()}
    stored = family not in COMPUTED
    assert POSITIONS & {name for name, *_ in weights} == (POSITIONS if stored else set())
    foreign = {name.split(".")[-2] for name, *_ in weights if name.startswith("inner.")}
    assert foreign <= FOREIGN


def test_weights_of_ours_have_the_names_of_their_modules(trained: Transformer) -> None:
    expected = [name for name, _ in trained.named_parameters(remove_duplicate=False)]
    assert [name for name, *_ in named_weights(trained)] == expected
    assert trained.position_table("source") is None
