"""Runs a model on a sentence and records a ``Trace``: the border from torch to NumPy.

Decoding is fast and unhooked; then one teacher-forced pass over source and target is captured,
which causality makes equal to the step-by-step computation.

``L`` layers, ``H`` heads, ``Q`` and ``M`` the query and key lengths of a map, ``T`` target steps,
``D`` = d_model, ``K`` = d_k, ``V`` vocabulary, ``k`` how many of the likeliest tokens are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, count, takewhile

import torch
from torch import Tensor

from headwise.model.budget import require_memory
from headwise.model.decoding.greedy import greedy
from headwise.model.estimates import trace_bytes
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, hook_names, is_edited
from headwise.model.interface import (
    KINDS,
    Description,
    Kind,
    Seq2SeqModel,
    Tokenizers,
    Vocabulary,
    attention_path,
)
from headwise.model.placement import in_float32
from headwise.model.ties import rounding_of, top_k
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn
from headwise.viz_app.records.trace import (
    AS_TRANSFORMERS,
    ROWS_OF_HALVES,
    ROWS_OF_WEIGHTS,
    Check,
    Floats,
    HookSummary,
    Predictions,
    StackInput,
    Tokens,
    Trace,
    Word,
)
from headwise.viz_app.trace.attention import (
    head_sum_norms,
    ids_tensor,
    read_only,
    to_numpy,
    transform_values,
)

Captured = Mapping[str, list[Tensor]]


@torch.inference_mode()
def run_trace(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    source: str,
    target: str | Sequence[int] | None = None,
    *,
    top_k: int = 10,
    turned: Turned = AS_IT_IS,
    read: Sequence[int] | None = None,
) -> Trace:
    """Translate a sentence (or take a forced target) and record everything on the way.

    The target is a text, or its ids from ``<s>`` on; None lets the model decode greedily. ``top_k``
    of the likeliest tokens are kept at each step; ``turned`` heads and rows are so in decoding too.
    ``read`` are the ids of the source, if they are known and the model can read them. The trace
    names the run, step and weights that the model was loaded from.

    ValueError if the source or the target is empty or too long for the model, or for the memory
    that is free, or the model does not have a head that is turned, or the sentence a key.
    """
    source_ids = list(read) if read is not None else tokenizers.encode_source(source.strip())
    if read is None:
        require_source(model.description, source, source_ids)
    about, on_cpu = model.description, model.device.type == "cpu"
    if on_cpu:  # the source alone may take too much
        require_memory(trace_bytes(about, len(source_ids), 1))
    with turn(model, turned):
        target_ids = _target_ids(model, tokenizers, source_ids, target)
        consumed, predicted = target_ids[:-1], target_ids[1:]
        if on_cpu:
            require_memory(trace_bytes(about, len(source_ids), len(consumed)))
        plain_logits = _logits(model, source_ids, consumed)
        with capture(model, hook_names(model)) as captured:
            logits = _logits(model, source_ids, consumed)
        edited = is_edited(model)
    apart = _apart(plain_logits, logits)
    del plain_logits
    summary = tuple(_summarise(name, tensors[0]) for name, tensors in captured.items())
    # Scores are as large as all that a trace keeps, and only their summary is kept.
    seen = {name: tensors for name, tensors in captured.items() if not name.endswith(".scores")}
    captured.clear()
    # (Another implementation knows nothing of edits.)
    from_reference = None if edited else _from_reference(model, source_ids, consumed, logits, seen)
    predictions = _predictions(model, seen, logits, predicted, min(top_k, logits.shape[-1]))
    del logits
    tokens = tokenizers.target.tokens
    weights = {kind: _layers(seen, kind, "weights") for kind in KINDS}
    norms = {kind: _value_norms(model, seen, kind, weights[kind], turned) for kind in KINDS}
    return Trace(
        **model.origin._asdict(),
        source_text=source.strip(),
        target_text=tokenizers.target.decode(target_ids),
        forced=target is not None,
        source=to_tokens(tokenizers.source, source_ids),
        consumed=to_tokens(tokenizers.target, consumed),
        predicted=to_tokens(tokenizers.target, predicted),
        attention={kind: to_numpy(weights[kind]) for kind in KINDS},
        value_norms={kind: of_values for kind, (of_values, _) in norms.items()},
        head_sum_norms={kind: of_sums for kind, (_, of_sums) in norms.items()},
        queries=_by_kind(seen, "query"),
        keys=_by_kind(seen, "key"),
        values=_by_kind(seen, "value"),
        source_embedding=_embedding(seen, "encoder"),
        target_embedding=_embedding(seen, "decoder"),
        encoder_stream=to_numpy(_stream(seen, "encoder")),
        decoder_stream=to_numpy(_stream(seen, "decoder")),
        predictions=predictions,
        top_tokens=tuple(tuple(tokens(row)) for row in predictions.top_ids.tolist()),
        lens_tokens=tuple(
            tuple(tuple(tokens(row)) for row in layer) for layer in predictions.lens_ids.tolist()
        ),
        summary=summary,
        checks=_checks(
            seen,
            weights,
            float(apart),
            from_reference,
            turned,
            merged=model.description.merged_attention,
        ),
        turned=turned,
    )


def _logits(model: Seq2SeqModel, source: Sequence[int], consumed: Sequence[int]) -> Tensor:
    stream = forced_stream(model, ids_tensor(model, source), ids_tensor(model, consumed))
    return in_float32(model.unembed(stream))[0]


def _apart(logits: Tensor, others: Tensor) -> Tensor:
    """Return how far logits are apart at most, as a share of the largest, if that is above 1."""
    return (logits - others).abs().max() / others.abs().max().clamp(min=1)


def _from_reference(
    model: Seq2SeqModel,
    source: Sequence[int],
    consumed: Sequence[int],
    logits: Tensor,
    seen: Captured,
) -> float | None:
    """Return how far logits (T, V) and weights are from another implementation's, if there is one.

    Weights are compared as they are, logits as in ``_apart``.
    """
    found = model.reference(ids_tensor(model, source), ids_tensor(model, consumed))
    if found is None:
        return None
    maps = (
        seen[f"{attention_path(kind, layer)}.weights"][0] - in_float32(found.attention[kind][layer])
        for kind in KINDS
        for layer in range(model.description.layers(kind))
    )
    return _largest(chain([_apart(logits, in_float32(found.logits)[0])], maps))


def require_source(model: Description, source: str, ids: Sequence[int]) -> None:
    """Require that a model of a description can translate a text, whose ids are given.

    ValueError if it is empty or too long.
    """
    allowed = model.max_length
    if not source.strip():
        raise ValueError("there is nothing to translate: type a sentence")
    if len(ids) > allowed:
        raise ValueError(
            f"the sentence has {len(ids):,} tokens, at most {allowed:,} are read; shorten it"
        )


def _target_ids(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    source_ids: Sequence[int],
    target: str | Sequence[int] | None,
) -> list[int]:
    allowed = model.description.max_length
    if target is None:
        return greedy(model, [source_ids], tokenizers.prefix)[0]
    ids = tokenizers.encode_target(target.strip()) if isinstance(target, str) else list(target)
    if len(ids) < 2 or (isinstance(target, str) and not target.strip()):
        raise ValueError("the target is empty: type a translation, or leave it to the model")
    start = tokenizers.prefix[0]
    if ids[0] != start:
        first = tokenizers.target.tokens([start])[0]
        raise ValueError(f"target ids: expected {first} ({start}) first, got {ids[0]}")
    vocabulary = model.description.target_vocab_size
    if odd := [id for id in ids if not 0 <= id < vocabulary]:
        raise ValueError(f"target ids: expected 0 to {vocabulary - 1}, got {odd[0]}")
    if len(ids) - 1 > allowed:
        raise ValueError(
            f"the target has {len(ids) - 1:,} tokens, at most {allowed:,} are read; shorten it"
        )
    return ids


def to_tokens(tokenizer: Vocabulary, ids: Sequence[int]) -> Tokens:
    """Return the tokens of some ids, with the words that they make."""
    texts, words = tokenizer.texts(ids), []
    for word in tokenizer.words(ids):
        inside = ids[word.start : word.stop]
        text = tokenizer.decode(inside) if len(inside) > 1 else texts[word.start]
        words.append(Word(text.strip() or text, word.start, word.stop))
    return Tokens(tuple(ids), tuple(texts), tuple(words), tokenizer.control_ids)


def _stack(seen: Captured, name_of: Callable[[int], str]) -> Tensor:
    """Stack a hook point of all layers, called ``name_of(layer)``: (L, …), no batch axis."""
    names = takewhile(seen.__contains__, map(name_of, count()))
    return torch.cat([seen[name][0] for name in names])


def _layers(seen: Captured, kind: Kind, point: str) -> Tensor:
    return _stack(seen, lambda layer: f"{attention_path(kind, layer)}.{point}")


def _by_kind(seen: Captured, point: str) -> dict[Kind, Floats]:
    return {kind: to_numpy(_layers(seen, kind, point)) for kind in KINDS}


def _value_norms(
    model: Seq2SeqModel, seen: Captured, kind: Kind, weights: Tensor, turned: Turned
) -> tuple[Floats, Floats]:
    """Compute the norms of a trace: ``value_norms`` and ``head_sum_norms`` of a kind."""
    of_values, of_sums = [], []
    layers = zip(_layers(seen, kind, "value"), weights, strict=True)
    for layer, (values, of_layer) in enumerate(layers):  # (H, M, K), (H, Q, M)
        projection = model.linear(f"{attention_path(kind, layer)}.output_projection").weight
        transformed = transform_values(values, projection)  # (H, M, D)
        of_values.append(transformed.norm(dim=-1))
        for head, strength in turned.strengths_in(kind, layer).items():
            transformed[head] *= strength
        of_sums.append(head_sum_norms(of_layer, transformed))
    return to_numpy(torch.stack(of_values)), to_numpy(torch.stack(of_sums))


def _embedding(seen: Captured, side: str) -> StackInput:
    """The parts of a stack's input; where a norm follows their sum, the sum is what it is given."""
    normed = f"{side}.embedding.norm.before"
    total = normed if normed in seen else f"{side}.embedding.output"
    positions = seen.get(f"{side}.embedding.positions")
    return StackInput(
        tokens=to_numpy(seen[f"{side}.embedding.tokens"][0][0]),
        positions=to_numpy(positions[0][0]) if positions is not None else None,
        total=to_numpy(seen[total][0][0]),
    )


def _stream(seen: Captured, side: str) -> Tensor:
    layers = _stack(seen, lambda layer: f"{side}.layers.{layer}.output")  # (L, ·, D)
    return torch.cat([seen[f"{side}.embedding.output"][0], layers])  # (L + 1, ·, D)


def _predictions(
    model: Seq2SeqModel, seen: Captured, logits: Tensor, predicted: Sequence[int], count: int
) -> Predictions:
    log_probability = logits.log_softmax(dim=-1)  # (T, V)
    ids = torch.tensor(predicted, device=logits.device)[:, None]  # (T, 1)
    actual, own = log_probability.gather(-1, ids)[:, 0], logits.gather(-1, ids)
    top = top_k(logits, count)  # (T, k)
    top_log_probability = log_probability.gather(-1, top)
    lens, lens_log_probability = [], []
    for stream in _stream(seen, "decoder")[:-1]:  # of all but the last layer
        below = in_float32(model.lens(stream[None]))[0]  # (T, V)
        lens.append(top_k(below, count))  # (T, k)
        likeliest = below.gather(-1, lens[-1])
        lens_log_probability.append(likeliest - below.logsumexp(dim=-1, keepdim=True))
    return Predictions(
        log_probability=to_numpy(actual),
        rank=read_only((logits > own + rounding_of(logits)).sum(dim=-1) + 1),
        entropy=to_numpy(-(log_probability.exp() * log_probability).sum(dim=-1)),
        top_ids=read_only(top),
        top_log_probability=to_numpy(top_log_probability),
        lens_ids=read_only(torch.stack([*lens, top])),
        lens_log_probability=to_numpy(torch.stack([*lens_log_probability, top_log_probability])),
    )


def _summarise(name: str, tensor: Tensor) -> HookSummary:
    values = tensor.float()
    return HookSummary(
        name=name,
        shape=tuple(tensor.shape),
        mean=float(values.mean()),
        standard_deviation=float(values.std(correction=0)),
        norm=float(torch.linalg.vector_norm(values, dim=-1).mean()),
    )


def _largest(deviations: Iterable[Tensor]) -> float:
    """Return the largest absolute value; NaN if any of them is NaN."""
    return float(torch.stack([deviation.abs().max() for deviation in deviations]).max())


def _checks(
    seen: Captured,
    weights: Mapping[Kind, Tensor],
    apart: float,
    from_reference: float | None,
    turned: Turned,
    *,
    merged: bool,
) -> tuple[Check, ...]:
    of_rows = [w.sum(dim=-1) for w in weights.values()]
    if merged:
        of_encoder, *halves = of_rows
        of_rows = [of_encoder, sum(halves[1:], halves[0])]
    sums = _largest(of_row - 1 for of_row in of_rows)
    values = {kind: _layers(seen, kind, "value") for kind in KINDS}
    rounding = torch.finfo(values["cross"].dtype).eps  # of a model's weights; 1.2e-7 for float32
    outputs = {kind: w @ values[kind].to(w.dtype) for kind, w in weights.items()}
    for (kind, layer, head), strength in turned.strengths:
        outputs[kind][layer, head] *= strength
    heads = _largest(output - _layers(seen, kind, "heads") for kind, output in outputs.items())
    checks = (
        Check(ROWS_OF_HALVES if merged else ROWS_OF_WEIGHTS, sums, 1e-5),
        Check(
            "no weight on keys after the query (decoder self-attention)",
            _largest([weights["decoder_self"].triu(1)]),
            0.0,
        ),
        Check("logits are the same with and without recording", apart, max(1e-4, 8 * rounding)),
        Check("weights times values give each head's output", heads, max(1e-5, 8 * rounding)),
    )
    if from_reference is None:
        return checks
    # Short types round weights there and not here, layer by layer.
    return (*checks, Check(AS_TRANSFORMERS, from_reference, max(1e-4, 16 * rounding)))
