"""Contributions of source and prefix, beside an explicit computation in float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Seq2SeqModel, attention_path
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.stream import attention_as_sum, points_of_attention
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.measuring import contributions as module
from headwise.viz_app.measuring.contributions import contributions, mixed_tokens, residual_norm_maps
from tests.floats import OPERATIONS, PASS, assert_near
from tests.model.pretrained.tiny import build, random_ids
from tests.viz_app.measuring.conftest import float64_by_default

Numbers = NDArray[np.float64]
MakeModel = Callable[..., Transformer]

OURS: dict[str, dict[str, Any]] = {
    "pre-norm": {"n_encoder_layers": 3},
    "post-norm": {"norm": "post", "final_norm": False},
    "pre-norm without biases": {"attention_bias": False, "final_norm": False},
    "post-norm without biases": {"norm": "post", "attention_bias": False},
}
THEIRS = ("marian", "marian with other norms", "bart", "pegasus", "t5")


@pytest.fixture(params=[*OURS, *THEIRS])
def model(request: pytest.FixtureRequest, make_model: MakeModel) -> Seq2SeqModel:
    """Models of ours and of others with random weights, one after the other."""
    return make_model(**OURS[request.param]) if request.param in OURS else _build(request.param)


@pytest.fixture
def precise(model: Seq2SeqModel) -> Iterator[Seq2SeqModel]:
    """Each of these models in float64: a share may be small beside what it is a difference of."""
    with float64_by_default():
        yield model.double()
    model.float()


@functools.cache
def _build(family: str) -> Seq2SeqModel:
    """Make a model whose norms have a large ε; "other norms" divide by the root mean square."""
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    model = build(family.split()[0]).ours
    for part in list(model.inner.modules()):
        for name, norm in part.named_children():
            if isinstance(norm, nn.LayerNorm):
                norm.eps = 0.05
                if family.endswith("norms"):
                    part.add_module(name, T5LayerNorm(len(norm.weight)))
    if family.endswith("norms"):
        model = PretrainedModel(model.inner)
        model.description = replace(model.description, norm_kind="rms")
    return model


def batch(model: Seq2SeqModel, *lengths: tuple[int, int]) -> PaddedIds:
    """Make random pairs with these numbers of source tokens and of predicted tokens."""
    special = model.special_ids
    ids = random_ids(*[36] * (2 * len(lengths))).clamp(max=36).tolist()
    sources = [ids.pop()[:n] for n, _ in lengths]
    targets = [[special.start, *ids.pop()[:n]] for _, n in lengths]
    return PaddedIds.of(sources, targets, model)


def array(tensor: Tensor | None) -> Numbers:
    """Convert to float64; no tensor, such as the bias of a layer without one, to 0."""
    return np.zeros(1) if tensor is None else tensor.double().numpy(force=True)


def normed(model: Seq2SeqModel, path: str, x: Numbers) -> tuple[Numbers, Callable[..., Numbers]]:
    """Apply the norm at a path to a vector; also return what it does to the parts of the vector."""
    gain, bias, epsilon = model.norm(path)
    centre = float(model.description.norm_kind == "layer")
    divisor = math.sqrt(np.mean((x - centre * x.mean()) ** 2) + epsilon)

    def linear(part: Numbers) -> Numbers:
        return (part - centre * part.mean()) / divisor * array(gain)

    return linear(x) + array(bias), linear


def shares_by_hand(
    model: Seq2SeqModel, path: str, stream: Numbers, memory: Numbers | None, weights: Numbers
) -> tuple[Numbers, Numbers]:
    """Compute the map of one attention, and the stream after it.

    ``stream`` (Q, D) is what queries and residuals come from, ``memory`` (M, D) what is read, if it
    is not the stream; ``weights`` (H, Q, M). With memory, the residual is the map's last column.
    """
    w_v, b_v = map(array, model.linear(f"{path}.value_projection"))
    w_o, b_o = map(array, model.linear(f"{path}.output_projection"))
    pre = model.description.norm == "pre"
    reads = stream if memory is None else memory
    n_heads, n_queries, n_keys = weights.shape
    width = w_v.shape[1] // n_heads
    shares = np.zeros((n_queries, n_keys + (memory is not None)))
    after = np.zeros_like(stream)
    for i in range(n_queries):
        parts = [np.zeros(stream.shape[1]) for _ in range(shares.shape[1])]
        total = stream[i] + b_o
        for j in range(n_keys):
            whole, plain = reads[j], reads[j]
            if pre and memory is None:
                whole, linear = normed(model, path, reads[j])
                plain = linear(reads[j])
            for h in range(n_heads):
                head = slice(h * width, (h + 1) * width)
                total = total + weights[h, i, j] * (whole @ w_v + b_v)[head] @ w_o[head]
                parts[j] = parts[j] + weights[h, i, j] * (plain @ w_v)[head] @ w_o[head]
        own = i if memory is None else n_keys
        parts[own] = parts[own] + stream[i]
        after[i] = total
        if not pre:
            after[i], linear = normed(model, path, total)
            parts = [linear(part) for part in parts]
        for j, part in enumerate(parts):
            nearer = np.abs(after[i]).sum() - np.abs(after[i] - part).sum()
            shares[i, j] = max(0.0, nearer)
        shares[i] /= shares[i].sum()
    return shares, after


def contributions_by_hand(model: Seq2SeqModel, ids: PaddedIds) -> tuple[Numbers, Numbers]:
    """Compute the shares of source (T, S) and prefix (T, T) of a batch of one sentence."""
    layers = model.description.layers
    paths = [attention_path(kind, layer) for kind in KINDS for layer in range(layers(kind))]
    stacks = {"encoder": layers("encoder_self"), "decoder": layers("decoder_self")}
    streams = {
        side: [f"{side}.embedding.output", *(f"{side}.layers.{la}.output" for la in range(number))]
        for side, number in stacks.items()
    }
    names = [f"{path}.weights" for path in paths] + streams["encoder"] + streams["decoder"]
    with torch.inference_mode(), capture(model, names) as seen:
        encoded, mask = model.encode(ids.source)
        model.decode(ids.consumed, encoded, mask)
    tensors = {name: array(found[0][0]) for name, found in seen.items()}
    of_encoder = np.eye(ids.source.shape[1])
    for layer in range(stacks["encoder"]):
        path, stream = attention_path("encoder_self", layer), tensors[streams["encoder"][layer]]
        shares, _ = shares_by_hand(model, path, stream, None, tensors[f"{path}.weights"])
        of_encoder = shares @ of_encoder
    prefix = np.eye(ids.consumed.shape[1])
    source = np.zeros((len(prefix), len(of_encoder)))
    for layer in range(stacks["decoder"]):
        path, stream = attention_path("decoder_self", layer), tensors[streams["decoder"][layer]]
        shares, stream = shares_by_hand(model, path, stream, None, tensors[f"{path}.weights"])
        source, prefix = shares @ source, shares @ prefix
        path = attention_path("cross", layer)
        memory = array(encoded[0])
        shares, _ = shares_by_hand(model, path, stream, memory, tensors[f"{path}.weights"])
        source = shares[:, :-1] @ of_encoder + shares[:, -1:] * source
        prefix = shares[:, -1:] * prefix
    return source, prefix


def same(found: Tensor, expected: Any, model: Seq2SeqModel | None = None) -> None:
    """Shares, their sums and their entropies are at most 1.

    The norms of a T5 compute in float32, whatever the type of the model is. In float64 the bound
    can be that of a whole pass, through which shares are multiplied.
    """
    rms = model is not None and model.description.norm_kind == "rms"
    dtype = torch.float32 if rms else found.dtype
    operations = PASS if dtype == torch.float64 else OPERATIONS
    assert_near(found, expected, dtype=dtype, size=1, operations=operations)


def entropy_by_hand(shares: Numbers, count: int) -> float:
    """Compute the entropy of the first ``count`` shares, divided by its maximum."""
    if count < 2 or shares.sum() == 0:
        return math.nan
    parts = [float(share / shares.sum()) for share in shares[:count]]
    return -sum(part * math.log(part) for part in parts if part) / math.log(count)


def test_shares_are_as_computed_by_hand(precise: Seq2SeqModel) -> None:
    model = precise
    ids = batch(model, (5, 4))
    found = contributions(model, ids)
    source, prefix = contributions_by_hand(model, ids)
    assert source.min() > 1e-4  # else there would be little to compare
    same(found.source[0], source, model)
    same(found.prefix[0], prefix, model)
    for step in range(4):
        source, prefix = array(found.source[0, step]), array(found.prefix[0, step])
        same(found.source_entropy[0, step], entropy_by_hand(source, 5))
        same(found.prefix_entropy[0, step], entropy_by_hand(prefix, step + 1))


def test_tokens_are_mixed_up_to_the_last_layer_as_in_a_prediction(precise: Seq2SeqModel) -> None:
    """After the last layer they are the shares of the prediction; rows sum to 1 after each."""
    model = precise
    ids = batch(model, (5, 4))
    mixed, found = mixed_tokens(model, ids), contributions(model, ids)
    bound = {"dtype": np.float32, "size": 1, "operations": OPERATIONS}
    assert_near(mixed.maps["cross"][-1], found.source[0].numpy(), **bound)
    assert_near(mixed.maps["decoder_self"][-1], found.prefix[0].numpy(), **bound)
    layers = model.description.layers
    assert mixed.maps["encoder_self"].shape == (layers("encoder_self"), 5, 5)
    assert_near(mixed.maps["encoder_self"].sum(axis=-1), 1, **bound)
    both = mixed.maps["cross"].sum(axis=-1) + mixed.maps["decoder_self"].sum(axis=-1)
    assert_near(both, np.ones((layers("cross"), 4)), **bound)
    # The first layer's map is that of its attention alone: what a position keeps is its diagonal.
    first = mixed.maps["encoder_self"][0].diagonal().mean()
    assert_near(mixed.kept["encoder_self"][0], first, **bound)


def test_norms_with_the_residual_are_those_of_vectors_by_hand(precise: Seq2SeqModel) -> None:
    """‖Σ_h α v W_O + residual‖, through a norm that follows, one query and key at a time."""
    model = precise
    ids = batch(model, (5, 4))
    found = residual_norm_maps(model, ids)
    with torch.inference_mode(), capture(model, points_of_attention(model)) as seen:
        forced_stream(model, ids.source, ids.target[:, :-1])
    for kind in KINDS:
        for layer in range(model.description.layers(kind)):
            parts = attention_as_sum(model, seen, kind, layer)
            weights, value = array(parts.weights[0]), array(parts.value[0])
            projection, residual = array(parts.projection), array(parts.residual[0])
            n_queries, n_keys = weights.shape[1:]
            lengths = np.zeros((n_queries, n_keys + (kind == "cross")))
            for query, key in np.ndindex(n_queries, n_keys):
                heads = zip(weights[:, query, key], value[:, key], projection, strict=True)
                vector = sum(weight * v @ matrix for weight, v, matrix in heads)
                if kind != "cross" and query == key:
                    vector = vector + residual[query]
                lengths[query, key] = np.linalg.norm(vector)
            if kind == "cross":
                lengths[:, -1] = np.linalg.norm(residual, axis=-1)
            expected = lengths / lengths.sum(axis=1, keepdims=True)
            rms = np.float32
            assert_near(found[kind][layer], expected, dtype=rms, size=1, operations=OPERATIONS)


@pytest.mark.parametrize("cells", [1, module._CELLS])
def test_other_sentences_of_the_batch_change_nothing(
    precise: Seq2SeqModel, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """Whether sentences and keys are computed together, or one after the other to save memory."""
    model = precise
    lengths = [(3, 6), (7, 2), (5, 5)]
    together = batch(model, *lengths)
    monkeypatch.setattr(module, "_CELLS", cells)
    found = contributions(model, together)
    monkeypatch.undo()
    for row, (n_source, n_target) in enumerate(lengths):
        ids = together.source[row : row + 1, :n_source], together.target[row : row + 1]
        one = PaddedIds(ids[0], ids[1][:, : n_target + 1], together.special)
        alone = vars(contributions(model, one))
        inside = {"source": n_source, "prefix": n_target}
        for name, values in vars(found).items():
            there = values[row]
            if name in inside:
                assert (there[:, inside[name] :] == 0).all()
                there = there[:, : inside[name]]
            same(there[:n_target], alone[name][0], model)
            rest = there[n_target:]
            assert (rest.isnan() if "entropy" in name else rest == 0).all()


def test_source_has_no_share_if_cross_attention_puts_out_nothing(make_model: MakeModel) -> None:
    for norm in ("pre", "post"):
        model = make_model(norm=norm)
        for layer in model.decoder.layers:
            layer.cross_attention.output_projection.weight.data.zero_()  # type: ignore[union-attr]
        found = contributions(model, batch(model, (5, 4)))
        assert (found.source == 0).all()
        assert found.source_entropy.isnan().all()
        same(found.prefix.sum(dim=-1), torch.ones(1, 4))


def test_row_to_which_nothing_contributes_is_left_to_its_own_token(make_model: MakeModel) -> None:
    """With norms of gain 0 the stream after each attention is a constant."""
    model = make_model(norm="post")
    for name, weight in model.named_parameters():
        if name.endswith("attention_residual.norm.norm.weight"):
            weight.data.zero_()
    found = contributions(model, batch(model, (5, 4)))
    assert (found.source == 0).all()
    same(found.prefix[0], torch.eye(4))


def test_empty_source_is_refused(make_model: MakeModel) -> None:
    model = make_model()
    with pytest.raises(ValueError, match="padding only"):
        contributions(model, PaddedIds.of([[5, 6], []], [[2, 7], [2, 7]], model))
