"""Queries, keys and scores of one head over sentences, the targets forced.

``B`` batch, ``H`` heads, ``Q`` and ``M`` queries and keys, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Head, Kind, Seq2SeqModel, attention_path
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.records.plane import HeadVectors
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.attention import to_numpy


def ids_in(pair: EncodedPair, kind: Kind) -> tuple[list[int], list[int]]:
    """Return the ids at which a pair has queries and keys: what is read there, none predicted."""
    consumed = pair.target[:-1]
    return (
        pair.source if kind == "encoder_self" else consumed,
        consumed if kind == "decoder_self" else pair.source,
    )


def first_sentences(
    sentences: Sequence[EncodedPair], kind: Kind, *, most_points: int
) -> tuple[EncodedPair, ...]:
    """Return the first sentences, at least one, with at most so many queries and keys together."""
    points = np.cumsum([sum(map(len, ids_in(each, kind))) for each in sentences])
    return tuple(sentences[: max(1, int((points <= most_points).sum()))])


@torch.inference_mode()
def head_vectors(model: Seq2SeqModel, sentences: Sequence[EncodedPair], head: Head) -> HeadVectors:
    """Run the model over sentences, and keep what a head makes of them, sentence by sentence.

    Raises:
        ValueError: if the model does not have the head, or there are no sentences.
    """
    model.description.require_heads([head])
    path = attention_path(head.kind, head.layer)
    cap = model.description.of(head.kind).score_cap
    points = ("query", "key", "scores" if cap is None else "uncapped")
    found: dict[int, tuple[Floats, Floats, Floats]] = {}
    for batch in batches_by_length(sentences):
        ids = PaddedIds.of_pairs(batch, model)
        with capture(model, [f"{path}.{point}" for point in points]) as seen:
            forced_stream(model, ids.source, ids.target[:, :-1])
        queries, keys, scores = (
            to_numpy(seen[f"{path}.{point}"][0][:, head.head]) for point in points
        )
        scores = np.where(ids.allowed(head.kind).cpu().numpy(), scores, np.float32(np.nan))
        for place, pair in enumerate(batch):
            n, m = map(len, ids_in(pair, head.kind))
            found[pair.number] = queries[place, :n], keys[place, :m], scores[place, :n, :m]
    if not found:
        raise ValueError("expected sentences, got none")
    in_order = [found[pair.number] for pair in sentences]
    return HeadVectors(
        np.concatenate([each[0] for each in in_order]),
        np.concatenate([each[1] for each in in_order]),
        tuple(each[2] for each in in_order),
    )
