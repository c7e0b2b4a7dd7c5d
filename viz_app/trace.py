"""From a model and a sentence to a ``Trace``: the border from torch to NumPy.

Decoding is fast and unhooked; then one teacher-forced pass over source and target is replayed under
``capture``. Causality makes that equal to the step-by-step computation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count, takewhile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.ablation import ATTENTIONS, Head, switch_off
from model.config import BOS
from model.decoding import greedy
from model.hooks import capture, hook_names
from model.tokenizer import Tokenizer, TokenizerPair
from model.transformer import Transformer
from viz_app.records import (
    Check,
    Floats,
    HookSummary,
    InputEmbedding,
    Kind,
    Predictions,
    Tokens,
    Trace,
    Word,
)

Seen = Mapping[str, list[Tensor]]


@torch.inference_mode()
def run_trace(
    model: Transformer,
    tokenizers: TokenizerPair,
    source: str,
    target: str | Sequence[int] | None = None,
    *,
    run: str = "",
    step: int = 0,
    sha256: str = "",
    top_k: int = 10,
    switched_off: Collection[tuple[Kind, int, int]] = (),
) -> Trace:
    """Translate a sentence (or take a forced target) and record everything on the way.

    Args:
        model: in evaluation mode.
        tokenizers: those of the model's run.
        source: the text to translate.
        target: the target's text, or its ids from ``<s>`` on; None lets the model decode greedily.
        run, step, sha256: what identifies the weights; kept in the trace.
        top_k: how many of the likeliest pieces to keep at each step.
        switched_off: heads whose output is set to zero, in decoding too: kind, layer, head from 0.

    Raises:
        ValueError: on an empty source or target, one longer than the model allows, or a head that
            it does not have.
    """
    source_ids = tokenizers.encode_source(source.strip())
    off = [Head(*head) for head in switched_off]
    with switch_off(model, off):
        target_ids = _target_ids(model, tokenizers, source, source_ids, target)
        consumed, predicted = target_ids[:-1], target_ids[1:]
        inputs = [torch.tensor([ids]).to(model.device) for ids in (source_ids, consumed)]
        plain_logits = model(*inputs)
        with capture(model, hook_names(model)) as seen:
            logits = model(*inputs)[0]
    top_k = min(top_k, logits.shape[-1])
    predictions = _predictions(model, seen, logits, predicted, top_k)
    return Trace(
        run=run,
        step=step,
        sha256=sha256,
        source_text=source.strip(),
        target_text=tokenizers.target.decode(target_ids),
        forced=target is not None,
        source=to_tokens(tokenizers.source, source_ids),
        consumed=to_tokens(tokenizers.target, consumed),
        predicted=to_tokens(tokenizers.target, predicted),
        attention=_of_all_heads(seen, "weights"),
        value_norms={kind: _value_norms(model, seen, kind) for kind in ATTENTIONS},
        queries=_of_all_heads(seen, "query"),
        keys=_of_all_heads(seen, "key"),
        values=_of_all_heads(seen, "value"),
        source_embedding=_embedding(seen, "encoder"),
        target_embedding=_embedding(seen, "decoder"),
        encoder_stream=_stream(seen, "encoder"),
        decoder_stream=_stream(seen, "decoder"),
        predictions=predictions,
        top_pieces=tuple(
            tuple(tokenizers.target.pieces(row)) for row in predictions.top_ids.tolist()
        ),
        lens_pieces=tuple(
            tuple(tuple(tokenizers.target.pieces(row)) for row in layer)
            for layer in predictions.lens_ids.tolist()
        ),
        summary=tuple(_summarise(name, tensors[0]) for name, tensors in seen.items()),
        checks=_checks(seen, float((plain_logits[0] - logits).abs().max()), off),
        switched_off=tuple(off),
    )


def _target_ids(
    model: Transformer,
    tokenizers: TokenizerPair,
    source: str,
    source_ids: Sequence[int],
    target: str | Sequence[int] | None,
) -> list[int]:
    allowed = model.config.max_length
    if not source.strip():
        raise ValueError("there is nothing to translate: type a sentence")
    if len(source_ids) > allowed:
        raise ValueError(
            f"the sentence has {len(source_ids):,} pieces, the model takes at most {allowed:,}; "
            "shorten it"
        )
    if target is None:
        return greedy(model, [source_ids])[0]
    ids = tokenizers.encode_target(target.strip()) if isinstance(target, str) else list(target)
    if len(ids) < 2 or (isinstance(target, str) and not target.strip()):
        raise ValueError("the target is empty: type a translation, or leave it to the model")
    if ids[0] != BOS:
        raise ValueError(f"target ids: expected <s> ({BOS}) first, got {ids[0]}")
    vocabulary = model.config.target_vocab_size
    if odd := [id for id in ids if not 0 <= id < vocabulary]:
        raise ValueError(f"target ids: expected 0 to {vocabulary - 1}, got {odd[0]}")
    if len(ids) - 1 > allowed:
        raise ValueError(
            f"the target has {len(ids) - 1:,} pieces, the model takes at most {allowed:,}; "
            "shorten it"
        )
    return ids


def to_numpy(tensor: Tensor) -> Floats:
    """A read-only float32 array; it may share the tensor's memory."""
    array: Floats = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    array.flags.writeable = False
    return array


def _integers(tensor: Tensor) -> NDArray[np.int64]:
    array: NDArray[np.int64] = tensor.cpu().contiguous().numpy()
    array.flags.writeable = False
    return array


def to_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokens:
    """Pieces of ids, and the words they make."""
    words = []
    for word in tokenizer.words(ids):
        inside = ids[word.start : word.stop]
        text = tokenizer.decode(inside) if len(inside) > 1 else tokenizer.pieces(inside)[0]
        words.append(Word(text.strip() or text, word.start, word.stop))
    return Tokens(tuple(ids), tuple(tokenizer.pieces(ids)), tuple(words))


def _stack(seen: Seen, pattern: str) -> Tensor:
    """The hook points of a pattern, one a layer: (L, …), without the batch axis."""
    names = takewhile(seen.__contains__, map(pattern.format, count()))
    return torch.cat([seen[name][0] for name in names])


def _layers(seen: Seen, kind: Kind, point: str) -> Tensor:
    """A hook point of one kind of attention in all layers: (L, …)."""
    return _stack(seen, f"{ATTENTIONS[kind]}.{point}")


def _of_all_heads(seen: Seen, point: str) -> dict[Kind, Floats]:
    return {kind: to_numpy(_layers(seen, kind, point)) for kind in ATTENTIONS}


def _value_norms(model: Transformer, seen: Seen, kind: Kind) -> Floats:
    """‖v W_O‖, the length of what a key adds to the output at weight 1: (L, H, M)."""
    norms = []
    for layer, value in enumerate(_layers(seen, kind, "value")):  # (H, M, K)
        name = f"{ATTENTIONS[kind].format(layer)}.output_projection.weight"
        weight = model.get_parameter(name)  # (D, H K)
        per_head = weight.unflatten(-1, (value.shape[0], -1)).permute(1, 2, 0)  # (H, K, D)
        norms.append((value @ per_head).norm(dim=-1))
    return to_numpy(torch.stack(norms))


def _embedding(seen: Seen, side: str) -> InputEmbedding:
    parts = (
        to_numpy(seen[f"{side}.embedding.{p}"][0][0]) for p in ("tokens", "positions", "output")
    )
    return InputEmbedding(*parts)


def _stream_tensors(seen: Seen, side: str) -> Tensor:
    layers = _stack(seen, f"{side}.layers.{{}}.output")  # (L, ·, D)
    return torch.cat([seen[f"{side}.embedding.output"][0], layers])  # (L + 1, ·, D)


def _stream(seen: Seen, side: str) -> Floats:
    return to_numpy(_stream_tensors(seen, side))


def _predictions(
    model: Transformer, seen: Seen, logits: Tensor, predicted: Sequence[int], top_k: int
) -> Predictions:
    log_probability = logits.log_softmax(dim=-1)  # (T, V)
    actual = log_probability[torch.arange(len(predicted)), torch.tensor(predicted)]
    top = log_probability.topk(top_k)
    lens_logits = model.unembed(model.decoder.final_norm(_stream_tensors(seen, "decoder")))
    lens = lens_logits.log_softmax(dim=-1).topk(top_k)
    return Predictions(
        log_probability=to_numpy(actual),
        rank=_integers((log_probability > actual[:, None]).sum(dim=-1) + 1),
        entropy=to_numpy(-(log_probability.exp() * log_probability).sum(dim=-1)),
        top_ids=_integers(top.indices),
        top_log_probability=to_numpy(top.values),
        lens_ids=_integers(lens.indices),
        lens_log_probability=to_numpy(lens.values),
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
    """The largest absolute value; not a number if any of them is none."""
    return float(torch.stack([deviation.abs().max() for deviation in deviations]).max())


def _checks(seen: Seen, logits_deviation: float, off: Sequence[Head]) -> tuple[Check, ...]:
    weights = {kind: _layers(seen, kind, "weights") for kind in ATTENTIONS}
    sums = _largest(w.sum(dim=-1) - 1 for w in weights.values())
    outputs = {kind: w @ _layers(seen, kind, "value") for kind, w in weights.items()}
    for kind, layer, head in off:
        outputs[kind][layer, head] = 0
    heads = _largest(output - _layers(seen, kind, "heads") for kind, output in outputs.items())
    return (
        Check("each row of attention weights sums to 1", sums, 1e-5),
        Check(
            "no weight on keys after the query (decoder self-attention)",
            _largest([weights["decoder_self"].triu(1)]),
            0.0,
        ),
        Check("logits are the same with and without recording", logits_deviation, 1e-4),
        Check("weights times values give each head's output", heads, 1e-5),
    )
