"""How much memory a computation takes at its height, in bytes, estimated from its shapes.

An estimate is what the arrays of the longest moment have together, each as often as it is held
there; tests compare it with the memory of a process. ``S`` source length, ``T`` target steps, ``B``
sentences, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwise.model.decoding.greedy import longest_target
from headwise.model.interface import Description
from headwise.model.interventions import POSITIONS_AT_A_TIME

_FLOAT = 4
"""Bytes of a float32, of which all that is recorded is made."""


def _maps(model: Description, source: int, target: int) -> int:
    """Return the number of weights in all attention maps of a pass."""
    sizes = (source * source, target * target, target * source)  # in the order of ``KINDS``
    shapes = model.shapes.values()
    return sum(layers * heads * size for (layers, heads), size in zip(shapes, sizes, strict=True))


def _streams(model: Description, source: int, target: int) -> int:
    """Return the numbers that all layers write at all positions: stream, norms, heads, neurons."""
    encoder = model.n_encoder_layers * (10 * model.of("encoder").d_model + 3 * model.encoder_d_ff)
    decoder = model.n_decoder_layers * (18 * model.d_model + 3 * model.decoder_d_ff)
    return source * encoder + target * decoder


def _passes(model: Description, source: int, target: int, most: int | None = None) -> int:
    """Return the bytes of the widest layer of passes together, of which nothing is recorded."""
    d_model = max(model.d_model, model.of("encoder").d_model)
    width = 10 * d_model + 3 * max(model.encoder_d_ff, model.decoder_d_ff)
    positions = max(POSITIONS_AT_A_TIME, source + target)
    return _FLOAT * (positions if most is None else min(most, positions)) * width


def trace_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_trace``: maps with their scores, and several of the logits (T, V)."""
    recorded = 3 * _maps(model, source, target) + 2 * _streams(model, source, target)
    return _FLOAT * (recorded + 6 * target * model.target_vocab_size)


def pass_bytes(
    model: Description, source: int, target: int, names: Iterable[str], *, rows: int, grad: bool
) -> int:
    """Estimate a pass over B rows that records tensors at hook points.

    With ``grad``, all that layers write is kept besides.
    """
    lengths = {"encoder.self_attention": (source, source), "decoder.self_attention": (target,) * 2}
    heads = max(model.n_encoder_heads, model.n_decoder_heads)
    width = max(model.d_model, model.of("encoder").d_model, model.encoder_d_ff, model.decoder_d_ff)
    numbers = 3 * target * model.target_vocab_size + 13 * (source + target) * width
    for stack, *_, module, point in (name.split(".") for name in names if "." in name):
        queries, keys = lengths.get(f"{stack}.{module}", (target, source))
        is_map = point in ("scores", "weights")
        numbers += heads * queries * keys if is_map else max(source, target) * width
    if grad:
        numbers += 3 * _maps(model, source, target) + 2 * _streams(model, source, target)
    return _FLOAT * rows * numbers


def logits_bytes(model: Description, source: int, target: int) -> int:
    """Estimate the log-probabilities of T target tokens."""
    return _FLOAT * 3 * min(target, 1024) * model.target_vocab_size + _passes(model, source, target)


def maps_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_attention``."""
    recorded = 3 * _maps(model, source, target) + _streams(model, source, target)
    return _FLOAT * recorded + logits_bytes(model, source, target)


def account_bytes(model: Description, source: int, target: int) -> int:
    """Estimate an account, which holds a pass in float32 and in float64."""
    return 3 * _FLOAT * (_maps(model, source, target) + _streams(model, source, target) // 2)


def contributions_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``contributions``: tokens mixed by layers, beside a pass."""
    mixed = 3 * (source + target) * (source + target)
    return _FLOAT * (_maps(model, source, target) + _streams(model, source, target) + mixed)


def effects_bytes(model: Description, source: int, target: int) -> int:
    """Estimate passes without each part of the model."""
    return 2 * _passes(model, source, target)


def source_effects_bytes(model: Description, source: int, target: int) -> int:
    """Estimate passes without each word of the source, and one more, which may be few."""
    return 2 * _passes(model, source, target, (source + 1) * (source + target))


def patching_bytes(model: Description, source: int, target: int) -> int:
    """Estimate patches between two sentences of at most S tokens."""
    return 4 * _FLOAT * _streams(model, source, target) + 2 * _passes(model, source, target)


def layer_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_layer_trace``."""
    heads, longest = max(model.n_encoder_heads, model.n_decoder_heads), max(source, target)
    return _FLOAT * (8 * heads * longest * longest + _streams(model, source, target))


def costs_bytes(model: Description, source: int, target: int, *, sentences: int = 1) -> int:
    """Estimate the costs of heads in B sentences together: a row for each head."""
    rows = sentences * (1 + len(model.all_heads()))
    decoder = source * 2 * model.d_model + target * (5 * model.d_model + 2 * model.decoder_d_ff)
    logits = 3 * min(1024, rows * target) * model.target_vocab_size
    return _FLOAT * (rows * decoder + logits) + _passes(model, source, target)


def measuring_bytes(model: Description, source: int, target: int, sentences: int) -> int:
    """Estimate all measures of heads: their costs, or a pass through which gradients go back."""
    recorded = 2 * _maps(model, source, target) + 2 * _streams(model, source, target)
    passes = _FLOAT * sentences * (recorded + 4 * target * model.target_vocab_size)
    return max(costs_bytes(model, source, target, sentences=sentences), passes)


def decoding_bytes(model: Description, source: int, size: int = 1) -> int:
    """Estimate decoding, greedily or with a beam of a size.

    Keys and values of all layers are kept for each hypothesis, and copied at each step. One layer
    at a time may have its attention explicit, where heads are turned.
    """
    target = longest_target(source, model.max_length)
    kept = 2 * model.n_decoder_layers * model.d_model * (source + target) * size
    explicit = 2 * model.n_encoder_heads * source * source
    encoder = source * (10 * model.of("encoder").d_model + 3 * model.encoder_d_ff)
    return _FLOAT * (3 * kept + 4 * size * model.target_vocab_size + explicit + encoder)
