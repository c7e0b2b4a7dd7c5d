"""How much memory a computation takes at its height, estimated from its shapes before it begins.

An estimate is what the arrays of the longest moment have together, each as often as it is held
there; tests compare it with the memory of a process. ``S`` source length, ``T`` target steps, ``L``
layers, ``H`` heads, ``D`` = d_model, ``V`` vocabulary.
"""

from __future__ import annotations

from headwise.model.interface import Description, Kind

_FLOAT = 4
"""Bytes of a float32, of which all that is recorded is made."""


def _maps(model: Description, source: int, target: int) -> int:
    """Return the number of weights in all attention maps of a pass."""
    sizes: dict[Kind, int] = {
        "encoder_self": source * source,
        "decoder_self": target * target,
        "cross": target * source,
    }
    return sum(model.layers(kind) * model.heads(kind) * size for kind, size in sizes.items())


def _streams(model: Description, source: int, target: int) -> int:
    """Return the numbers that all layers write at all positions: stream, norms, heads, neurons."""
    encoder = model.n_encoder_layers * (10 * model.d_model + 3 * model.encoder_d_ff)
    decoder = model.n_decoder_layers * (18 * model.d_model + 3 * model.decoder_d_ff)
    return source * encoder + target * decoder


def trace_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_trace`` on S source and T target tokens, in bytes.

    Scores and weights of all maps are recorded, and copied when layers are put together; of the
    logits (T, V) there are several at once, and those that are read from each layer.
    """
    logits = target * model.target_vocab_size * (6 + 3 * model.n_decoder_layers)
    return _FLOAT * (
        4 * _maps(model, source, target) + logits + 2 * _streams(model, source, target)
    )


def maps_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_attention`` on S source and T target tokens, in bytes."""
    logits = 3 * min(target, 1024) * model.target_vocab_size
    return _FLOAT * (3 * _maps(model, source, target) + logits + _streams(model, source, target))


def layer_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_layer_trace`` on S source and T target tokens, in bytes."""
    longest = max(source, target)
    heads = max(model.n_encoder_heads, model.n_decoder_heads)
    return _FLOAT * (8 * heads * longest * longest + _streams(model, source, target))


def costs_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``head_costs`` on S source and T target tokens, in bytes: a row for each head."""
    rows = 1 + len(model.all_heads())
    encoder = source * (8 * model.d_model + 2 * model.encoder_d_ff)
    decoder = target * (10 * model.d_model + 2 * model.decoder_d_ff)
    return _FLOAT * (rows * (encoder + decoder) + 3 * 2048 * model.target_vocab_size)


def beam_bytes(model: Description, source: int, size: int) -> int:
    """Estimate a beam search of some width on S source tokens, in bytes.

    Keys and values of all layers are kept for each hypothesis, and copied at each step.
    """
    target = min(2 * source + 10, model.max_length)
    kept = 2 * model.n_decoder_layers * model.d_model * (source + target) * size
    return _FLOAT * (3 * kept + 4 * size * model.target_vocab_size) + maps_bytes(model, source, 1)
