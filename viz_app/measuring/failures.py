"""Figures of how a checkpoint's translations of the example sentences may have failed.

``B`` batch, ``L`` layers, ``H`` heads, ``S`` source length, ``T`` target steps, ``D`` d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.interface import Seq2SeqModel, Tokenizers
from headwise.model.masks import embeddable
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, require_memory_of_maps
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.records.measures import TranslatedSentence


def _scores(model: Seq2SeqModel, stream: Tensor, ids: PaddedIds) -> Tensor:
    """Compute the log-probability of each predicted token: the decoder's output (B, T, D) → (B, T).
    What is at padding means nothing."""
    predicted = embeddable(ids.predicted)
    return log_probabilities(model, stream.flatten(0, 1), predicted.flatten()).view_as(predicted)


@torch.inference_mode()
def translate_batch(
    model: Seq2SeqModel, tokenizers: Tokenizers, sentences: Sequence[EncodedPair]
) -> dict[int, TranslatedSentence]:
    """Translate a batch greedily, and compute by what each translation may have failed.

    ``log_probability`` is the mean over its tokens in nats, ``</s>`` included, and
    ``source_contribution`` the mean over them of the source's share by ALTI+.

    Returns:
        The translation of each sentence number.
    """
    from sacrebleu import CHRF  # imported late: a page that looks for a word needs none of it

    targets = greedy(model, [sentence.source for sentence in sentences], tokenizers.prefix)
    forced = [replace(s, target=target) for s, target in zip(sentences, targets, strict=True)]
    ids = PaddedIds.of_pairs(forced, model)
    require_memory_of_maps(model, ids)  # which the contributions have, too
    stream = forced_stream(model, ids.source, ids.target[:, :-1])
    scores = _scores(model, stream, ids)
    shares = contributions(model, ids).source_contribution.sum(dim=-1)  # 0 at padding
    found = {}
    for row, sentence in enumerate(forced):
        n = len(sentence.target) - 1
        text = tokenizers.target.decode(sentence.target)
        found[sentence.number] = TranslatedSentence(
            text,
            {
                "log_probability": float(scores[row, :n].sum()) / n,
                "source_contribution": float(shares[row]) / n,
            },
            chrf=CHRF().sentence_score(text, [sentence.pair.target]).score,
        )
    return found
