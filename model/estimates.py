"""How much memory a computation takes at its height, estimated from its shapes before it begins.

An estimate is what the arrays of the longest moment have together, each as often as it is held
there; tests compare it with the memory of a process. ``S`` source length, ``T`` target steps, ``L``
layers, ``H`` heads, ``D`` = d_model, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwise.model.decoding.greedy import longest_target
from headwise.model.interface import Description, Kind
from headwise.model.interventions import POSITIONS_AT_A_TIME

_FLOAT = 4
"""Bytes of a float32, of which all that is recorded is made."""
_DOUBLE = 8


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
    encoder = model.n_encoder_layers * (10 * model.of("encoder").d_model + 3 * model.encoder_d_ff)
    decoder = model.n_decoder_layers * (18 * model.d_model + 3 * model.decoder_d_ff)
    return source * encoder + target * decoder


def trace_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_trace`` on S source and T target tokens, in bytes.

    Scores and weights of all maps are recorded, then the weights of all layers put together; of the
    logits (T, V) there are several at once.
    """
    logits = 6 * target * model.target_vocab_size
    return _FLOAT * (
        3 * _maps(model, source, target) + logits + 2 * _streams(model, source, target)
    )


def pass_bytes(
    model: Description, source: int, target: int, names: Iterable[str], *, rows: int, grad: bool
) -> int:
    """Estimate one pass over B rows of S and T tokens that records tensors, in bytes.

    ``names`` are the hook points; with ``grad``, all that layers write is kept besides.
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
    """Estimate the log-probabilities of T target tokens after S source tokens, in bytes."""
    return _FLOAT * 3 * min(target, 1024) * model.target_vocab_size + _passes(model, source, target)


def maps_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_attention`` on S source and T target tokens, in bytes."""
    recorded = 3 * _maps(model, source, target) + _streams(model, source, target)
    return _FLOAT * recorded + logits_bytes(model, source, target)


def account_bytes(model: Description, source: int, target: int) -> int:
    """Estimate an account, or what else takes one pass apart, on S source and T target tokens.

    Half of what layers write and one map of each head are held as the pass had them and in float64.
    """
    held = _maps(model, source, target) + _streams(model, source, target) // 2
    return (_FLOAT + _DOUBLE) * held


def contributions_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``contributions`` of one sentence of S source and T target tokens, in bytes."""
    mixed = 3 * (source + target) * (source + target)
    return _FLOAT * (_maps(model, source, target) + _streams(model, source, target) + mixed)


def effects_bytes(model: Description, source: int, target: int) -> int:
    """Estimate passes without each part on S source and T target tokens, in bytes.

    As many run together as have some number of positions, but at least two.
    """
    return 2 * _passes(model, source, target)


def source_effects_bytes(model: Description, source: int, target: int) -> int:
    """Estimate passes without each word of S source tokens, on T target tokens, in bytes.

    They are as many as there are words, and one more, which may be few.
    """
    return 2 * _passes(model, source, target, source + 1)


def patching_bytes(model: Description, source: int, target: int) -> int:
    """Estimate patches between two sentences of at most S tokens, on T target tokens, in bytes."""
    recorded = 4 * _FLOAT * _streams(model, source, target)
    return recorded + 2 * _passes(model, source, target)


def _passes(model: Description, source: int, target: int, count: int | None = None) -> int:
    """Return the bytes of passes of which nothing is recorded: those of their widest layer."""
    d_model = max(model.d_model, model.of("encoder").d_model)
    width = 10 * d_model + 3 * max(model.encoder_d_ff, model.decoder_d_ff)
    positions = max(POSITIONS_AT_A_TIME, source + target)
    if count is not None:
        positions = min(positions, count * (source + target))
    return _FLOAT * positions * width


def layer_bytes(model: Description, source: int, target: int) -> int:
    """Estimate ``run_layer_trace`` on S source and T target tokens, in bytes."""
    longest = max(source, target)
    heads = max(model.n_encoder_heads, model.n_decoder_heads)
    return _FLOAT * (8 * heads * longest * longest + _streams(model, source, target))


def costs_bytes(model: Description, source: int, target: int, *, sentences: int = 1) -> int:
    """Estimate the costs of heads on S source and T target tokens, in bytes: a row for each head.

    ``sentences`` is how many are run together, B.
    """
    rows = sentences * (1 + len(model.all_heads()))
    decoder = source * 2 * model.d_model + target * (5 * model.d_model + 2 * model.decoder_d_ff)
    logits = 3 * min(1024, rows * target) * model.target_vocab_size
    return _FLOAT * (rows * decoder + logits) + _passes(model, source, target)


def measuring_bytes(model: Description, source: int, target: int, sentences: int) -> int:
    """Estimate all measures of heads on B sentences of S source and T target tokens, in bytes.

    Beside the costs these are a pass whose maps are recorded, and one through which gradients go
    back, from the logits (B, T, V) on.
    """
    recorded = 2 * _maps(model, source, target) + 2 * _streams(model, source, target)
    logits = 4 * target * model.target_vocab_size
    passes = _FLOAT * sentences * (recorded + logits)
    return max(costs_bytes(model, source, target, sentences=sentences), passes)


def decoding_bytes(model: Description, source: int, size: int = 1) -> int:
    """Estimate decoding after S source tokens, greedily or with a beam of some width, in bytes.

    Keys and values of all layers are kept for each hypothesis, and copied at each step. One layer
    at a time may have its attention explicit, where heads are turned.
    """
    target = longest_target(source, model.max_length)
    kept = 2 * model.n_decoder_layers * model.d_model * (source + target) * size
    explicit = 2 * model.n_encoder_heads * source * source
    encoder = source * (10 * model.of("encoder").d_model + 3 * model.encoder_d_ff)
    return _FLOAT * (3 * kept + 4 * size * model.target_vocab_size + explicit + encoder)
