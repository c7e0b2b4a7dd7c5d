"""A layer recorded in full; maps alone and log-probabilities beside a trace; names of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.hooks import capture, edit
from headwise.model.interface import KINDS, Kind, Seq2SeqModel, attention_path
from headwise.model.masks import PADDING
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn
from headwise.viz_app.inside.steps.follow import deviations
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Floats, Tokens, Trace
from headwise.viz_app.trace.attention import (
    head_sum_norms,
    next_log_probability,
    run_attention,
    target_log_probability,
)
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.trace.weights import named_weights
from tests.floats import assert_near, near, rounding
from tests.model.pretrained.tiny import FAMILY_NAMES, build

SOURCE, TARGET = "Don't worry, she sees him.", "No te preocupes, ella lo ve."
L, H, K, D, D_FF = 2, 3, 5, 14, 23
LAYERS = [(kind, layer) for kind in KINDS for layer in range(L)]
MODELS = {
    "pre": {},
    "post, no final norm, no biases": {
        "norm": "post",
        "final_norm": False,
        "attention_bias": False,
    },
    "d_k of D / h": {"n_heads": 7, "d_k": None},
}


@pytest.fixture(scope="module", params=MODELS)
def speaker(
    request: pytest.FixtureRequest, make_speaker: Callable[..., Transformer]
) -> Transformer:
    """In float64: all that is recorded of it is rounded to float32, once."""
    return make_speaker(**MODELS[request.param]).double()


@pytest.fixture(scope="module")
def spoken(speaker: Transformer, tokenizers: TokenizerPair) -> Trace:
    """The trace of what ``speaker`` is made to say."""
    return run_trace(speaker, tokenizers, SOURCE, TARGET)


@pytest.fixture(scope="module", params=LAYERS, ids=str)
def layer_trace(request: pytest.FixtureRequest, speaker: Transformer, spoken: Trace) -> LayerTrace:
    return run_layer_trace(speaker, spoken, *request.param)


def arrays_of(record: object) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of a record and of the records in it, with its name."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from ((f"{field.name}.{name}", array) for name, array in arrays_of(value))
        elif isinstance(value, np.ndarray):
            yield field.name, value


def test_arrays_are_float32_and_read_only(layer_trace: LayerTrace, speaker: Transformer) -> None:
    arrays = dict(arrays_of(layer_trace))
    biases = 4 if speaker.config.attention_bias else 0
    assert len(arrays) == (2 + 4 + 4 + 7 + 1) + biases + (2 + 4 + 5)  # attention, feed-forward
    for name, array in arrays.items():
        assert array.dtype == (bool if name == "attention.allowed" else np.float32), name
        assert not array.flags.writeable, name
        assert np.isfinite(array).all(), name


def test_copied_weights(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair
) -> None:
    speaker = make_speaker()
    recorded = run_layer_trace(speaker, run_trace(speaker, tokenizers, SOURCE, TARGET), "cross", 1)
    before = {name: array.copy() for name, array in arrays_of(recorded)}
    with torch.no_grad():
        for parameter in speaker.parameters():
            parameter.add_(1)
    for name, array in arrays_of(recorded):
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_layers_match_traces(layer_trace: LayerTrace, speaker: Transformer, spoken: Trace) -> None:
    attention = layer_trace.attention
    kind, layer = attention.kind, attention.layer
    for array, of_trace in (
        (attention.weights, spoken.attention),
        (attention.query, spoken.queries),
        (attention.key, spoken.keys),
        (attention.value, spoken.values),
    ):
        assert_near(array, of_trace[kind][layer], operations=1)
    stream = spoken.encoder_stream if kind == "encoder_self" else spoken.decoder_stream
    assert_near(layer_trace.feed_forward.result, stream[layer + 1], operations=1)
    if kind == "cross":
        with torch.inference_mode():
            memory, _ = speaker.encode(torch.tensor([spoken.source.ids]))
        assert_near(attention.memory, memory[0], operations=1)
    else:
        assert_near(attention.stream, stream[layer], operations=1)
        assert attention.memory is attention.read


def test_steps_anew_are_what_was_recorded(layer_trace: LayerTrace, speaker: Transformer) -> None:
    """``deviations`` works out each step in float64, from what is read to the stream after it."""
    size = max(float(np.abs(array).max()) for _, array in arrays_of(layer_trace))
    for row in range(len(layer_trace.attention.read)):
        for head in range(layer_trace.attention.n_heads):
            found = deviations(layer_trace, head, row)
            assert max(found.values()) <= rounding(np.float32, size)
    for sublayer in (layer_trace.attention, layer_trace.feed_forward):
        assert sublayer.norm_first == (speaker.config.norm == "pre")
        assert (sublayer.read is sublayer.stream) != sublayer.norm_first
    assert (layer_trace.feed_forward.hidden > 0).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["t5gemma", "t5gemma2", "bert2gpt2"])
def test_steps_are_those_of_models_that_turn_share_cap_and_norm(family: str, kind: Kind) -> None:
    """What a family does between input and output of a layer is done again in float64."""
    model = build(family, dtype=torch.float64).ours
    source, consumed = (Tokens(ids, ("",) * len(ids), ()) for ids in ((5, 17, 9, 30, 8), (2, 7, 9)))
    trace: Any = SimpleNamespace(source=source, consumed=consumed, turned=AS_IT_IS)
    layer = run_layer_trace(model, trace, kind, 1)
    size = max(float(np.abs(array).max()) for _, array in arrays_of(layer))
    for head in range(layer.attention.n_heads):
        found = deviations(layer, head, 2)
        assert max(found.values()) <= rounding(np.float32, size)
    for part in ("rotation", "cap", "output_norm"):
        if getattr(layer.attention, part) is not None:
            without = replace(layer, attention=replace(layer.attention, **{part: None}))
            assert max(deviations(without, 1, 2).values()) > 0.01


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", KINDS)
def test_result_is_the_next_stream(
    make_speaker: Callable[..., Transformer], tokenizers: TokenizerPair, norm: str, kind: Kind
) -> None:
    """An edit of the stream after a sublayer is in the result; adding up would not show it."""
    speaker = make_speaker(norm=norm).double()
    trace = run_trace(speaker, tokenizers, SOURCE, TARGET)
    stack = "encoder" if kind == "encoder_self" else "decoder"
    following = "cross_attention" if kind == "decoder_self" else "feed_forward"
    point = f"{stack}.layers.0.{following}_residual.norm.before"
    if norm == "post":
        point = f"{attention_path(kind, 0)}_residual.norm.after"
    plain = run_layer_trace(speaker, trace, kind, 0)
    with edit(speaker, {point: lambda x: x + 3}):
        edited = run_layer_trace(speaker, trace, kind, 0)
    assert_near(edited.attention.result, plain.attention.result + 3)
    with edit(speaker, {f"{stack}.layers.0.output": lambda x: x + 3}):
        edited = run_layer_trace(speaker, trace, kind, 0)
    assert_near(edited.feed_forward.result, plain.feed_forward.result + 3)


def test_allowed_keys_have_weight(layer_trace: LayerTrace) -> None:
    attention = layer_trace.attention
    np.testing.assert_array_equal(
        attention.allowed, np.broadcast_to(attention.weights[0] > 0, attention.allowed.shape)
    )
    causal = np.tri(*attention.allowed.shape, dtype=bool)
    assert (attention.allowed == causal).all() == (attention.kind == "decoder_self")


def test_source_padding_is_masked(trained: Transformer, trace: Trace) -> None:
    ids = [*trace.source.ids[:-1], PADDING, PADDING]
    padded = replace(trace, source=Tokens(tuple(ids), (), ()))
    for kind in ("encoder_self", "cross"):
        attention = run_layer_trace(trained, padded, kind, 0).attention
        assert (attention.allowed == (np.array(ids) != PADDING)).all()
        assert ((attention.weights > 0) == attention.allowed).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_turned_is(precise: Transformer, tokenizers: TokenizerPair, kind: Kind) -> None:
    strengths = {(kind, 1, 2): 0.0, ("encoder_self", 0, 1): 2.0, ("decoder_self", 0, 0): -1.0}
    turned = Turned.of(strengths, [((kind, 0, 0), 2, 1)])
    trace = run_trace(precise, tokenizers, SOURCE, TARGET, turned=turned)
    recorded = run_layer_trace(precise, trace, kind, 1)
    assert [(head == 0).all() for head in recorded.attention.heads] == [False, False, True]
    assert_near(recorded.attention.weights, trace.attention[kind][1], operations=1)
    stream = trace.encoder_stream if kind == "encoder_self" else trace.decoder_stream
    assert_near(recorded.feed_forward.result, stream[2], operations=1)


@pytest.mark.parametrize("layer", [-1, 2])
def test_unknown_layer_is_refused(trained: Transformer, trace: Trace, layer: int) -> None:
    message = rf"^layer: expected 0 to 1, got {layer}; choose a layer that the model has$"
    with pytest.raises(ValueError, match=message):
        run_layer_trace(trained, trace, "cross", layer)


# Maps alone, and weights


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
