from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from benchmarks.peers.torch_nn import copy_layer
from headwise.model.masks import PADDING, causal_mask
from headwise.model.transformer import Decoder, DecoderCache, Encoder, Transformer
from tests.floats import PASS, assert_near, rounding
from tests.tiny import tiny_config, tiny_ids, tiny_model


@pytest.fixture(scope="module", params=["pre", "post"])
def model(request: pytest.FixtureRequest) -> Transformer:
    """Make a model in float64: what passes through it in two ways is near in all digits."""
    return tiny_model(norm=request.param, final_norm=request.param == "pre").double()


# Properties


@given(length=st.integers(2, 11), data=st.data())
def test_a_target_token_changes_no_logits_before_it(
    model: Transformer, length: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, length - 1))
    source, target = tiny_ids([7], 37), tiny_ids([length], 41)
    changed = target.clone()
    changed[0, position] = (target[0, position] + data.draw(st.integers(1, 40))) % 41
    before, after = model(source, target), model(source, changed)
    difference = (before - after).abs().amax(-1)[0]  # (T,)
    bound = rounding(before.dtype, float(before.detach().abs().max()), PASS)
    assert (difference[:position] <= bound).all()
    assert (difference[position:] > bound).all()


@given(
    lengths=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3),
    source_padding=st.integers(0, 5),
    target_padding=st.integers(0, 5),
)
def test_padding_on_the_right_changes_no_logits(
    model: Transformer, lengths: list[tuple[int, int]], source_padding: int, target_padding: int
) -> None:
    source = tiny_ids([n for n, _ in lengths], 37)
    target = tiny_ids([n for _, n in lengths], 41)
    padded = model(
        nn.functional.pad(source, (0, source_padding), value=PADDING),
        nn.functional.pad(target, (0, target_padding), value=PADDING),
    )
    for row, (n_source, n_target) in enumerate(lengths):
        alone = model(source[row : row + 1, :n_source], target[row : row + 1, :n_target])
        assert_near(padded[row, :n_target], alone[0], operations=PASS)


@pytest.mark.parametrize("chunks", [[1, 1, 1, 1, 1, 1, 1], [3, 1, 2, 1], [7]])
def test_cached_decoding_equals_one_forward(model: Transformer, chunks: list[int]) -> None:
    source, target = tiny_ids([5, 3], 37), tiny_ids([7, 7], 41)
    memory, memory_mask = model.encode(source)
    cache = DecoderCache(2)
    logits = [
        model.unembed(model.decode(chunk, memory, memory_mask, cache))
        for chunk in torch.split(target, chunks, dim=1)
    ]
    assert cache.length == 7
    assert_near(torch.cat(logits, dim=1), model(source, target), operations=PASS)


def test_the_layout_for_inference_changes_no_name_shape_or_weight() -> None:
    model, laid_out = tiny_model().double(), tiny_model().double().train().for_inference()
    assert not laid_out.training
    for name in ("decoder.layers.1.cross_attention.output_projection", "unembedding"):
        assert laid_out.get_submodule(name).get_parameter("weight").t().is_contiguous()
    state = laid_out.state_dict()
    assert list(state) == list(model.state_dict())
    assert all(torch.equal(state[name], weight) for name, weight in model.state_dict().items())
    source, target = tiny_ids([7, 4], 37), tiny_ids([3, 5], 41)
    assert_near(laid_out(source, target), model(source, target), operations=PASS)


def test_only_kept_positions_are_unembedded(model: Transformer) -> None:
    source, target = tiny_ids([7, 4], 37), tiny_ids([3, 5], 41)
    keep = target != PADDING
    logits = model(source, target, keep)
    assert logits.shape == (8, 41)
    assert_near(logits, model(source, target)[keep], operations=PASS)


def test_what_does_not_fit_is_refused() -> None:
    model, sources, targets = tiny_model(max_length=11), tiny_ids([7] * 3, 37), tiny_ids([5, 5], 41)
    with pytest.raises(ValueError, match="as many targets as sources, got 3 sources and 2 targets"):
        model(sources, targets)
    message = "expected a target for each of 3 encoded sources, got 2 targets"
    with pytest.raises(ValueError, match=message):
        model.decode(targets, *model.encode(sources))
    with pytest.raises(ValueError, match="row 1 of the batch allows no key"):
        model(tiny_ids([7, 0], 37), targets)
    cache = model.new_cache()
    memory, mask = model.encode(sources[:1])
    model.decode(tiny_ids([11], 41), memory, mask, cache)
    with pytest.raises(ValueError, match="expected at most 11 tokens, got 12"):
        model.decode(tiny_ids([1], 41), memory, mask, cache)


# Parameters


def test_every_parameter_is_stored_and_gets_a_gradient(model: Transformer) -> None:
    """A final norm makes the gradients of a sum of logits vanish, hence the squares."""
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert set(model.state_dict()) == names  # and nothing else, above all no positions
    model.zero_grad()
    model(tiny_ids([7, 4], 37), tiny_ids([3, 5], 41)).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not without


@pytest.mark.parametrize(
    ("tied", "source_is_target", "target_is_output"),
    [("none", False, False), ("output", False, True), ("all", True, True)],
)
def test_tying_shares_weights(tied: str, source_is_target: bool, target_is_output: bool) -> None:
    model = tiny_model(tied=tied, source_vocab_size=41)
    source = model.encoder.embedding.table.weight.data_ptr()
    target = model.decoder.embedding.table.weight.data_ptr()
    output = model.unembedding.weight.data_ptr()
    assert (source == target, target == output) == (source_is_target, target_is_output)


@pytest.mark.parametrize("tied", ["none", "output"])
def test_initial_weights(tied: str) -> None:
    """Those shared with the output are those of embeddings."""
    torch.manual_seed(0)
    model = Transformer(tiny_config(tied=tied, output_bias=True))
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) or (name == "unembedding" and tied == "output"):
            assert module.weight.std().item() == pytest.approx(14**-0.5, rel=0.1), name
        elif isinstance(module, nn.Linear):
            bound = (6 / (module.in_features + module.out_features)) ** 0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound, name
            assert not module.bias.any(), name


# Parity with torch.nn in float64, whose masks are True where attention is forbidden

D_MODEL, N_HEADS, D_FF, N_LAYERS = 14, 7, 23, 2
SETTINGS: dict[str, Any] = {
    "d_model": D_MODEL,
    "nhead": N_HEADS,
    "dim_feedforward": D_FF,
    "dropout": 0.0,
    "batch_first": True,
    "dtype": torch.float64,
}


@torch.no_grad()
def copy_stack(ours: Encoder | Decoder, theirs: Any) -> None:
    for layers in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(*layers)
    if theirs.norm is not None:
        theirs.norm.load_state_dict(ours.final_norm.norm.state_dict())


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("final_norm", [True, False], ids=["final_norm", "no_final_norm"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_memory_logits_and_gradients_are_those_of_torch(
    norm_first: bool, final_norm: bool, bias: bool
) -> None:
    """In train mode: in eval mode torch.nn takes shortcuts."""
    changes = {"n_heads": N_HEADS, "d_k": None, "dropout": 0.0, "attention_bias": bias}
    norm = "pre" if norm_first else "post"
    model = tiny_model(norm=norm, final_norm=final_norm, **changes).double().train()
    source, target = tiny_ids([7, 4, 1], 37), tiny_ids([3, 5, 2], 41)

    def last() -> nn.LayerNorm | None:
        return nn.LayerNorm(D_MODEL, dtype=torch.float64) if final_norm else None

    layers = [
        kind(norm_first=norm_first, **SETTINGS)
        for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    ]
    encoder = nn.TransformerEncoder(layers[0], N_LAYERS, last(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(layers[1], N_LAYERS, last())
    for attention in (m for m in [*encoder.modules(), *decoder.modules()] if not bias):
        if isinstance(attention, nn.MultiheadAttention):
            attention.in_proj_bias = attention.out_proj.bias = None
    copy_stack(model.encoder, encoder)
    copy_stack(model.decoder, decoder)
    tables = [model.encoder.embedding.table.weight, model.decoder.embedding.table.weight]

    logits = model(source, target)
    memory = encoder(model.encoder.embedding(source), src_key_padding_mask=source == PADDING)
    stream = decoder(
        model.decoder.embedding(target),
        memory,
        tgt_mask=~causal_mask(5, 5)[0, 0],
        memory_key_padding_mask=source == PADDING,
    )
    expected = stream @ model.decoder.embedding.table.weight.T

    assert_near(model.encode(source)[0], memory, operations=PASS)
    assert_near(logits, expected, operations=PASS)
    ours = torch.autograd.grad(logits.square().sum(), tables)
    theirs = torch.autograd.grad(expected.square().sum(), tables)
    for our_gradient, their_gradient in zip(ours, theirs, strict=True):
        assert_near(our_gradient, their_gradient, operations=PASS)
