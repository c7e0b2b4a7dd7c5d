"""What a model is worth: loss and perplexity on pairs, BLEU and chrF of its translations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu
import torch

from model.config import PAD
from model.data import Pair, encode_pairs, pad, references_by_source, sorted_batches
from model.decoding import GREEDY, Decoding, translate
from model.losses import cross_entropy
from model.tokenizer import TokenizerPair
from model.transformer import Transformer


@dataclass(frozen=True)
class Evaluation:
    """Figures of one model on one corpus."""

    loss: float
    """Mean cross-entropy in nats per target piece, ``</s>`` included, without smoothing."""
    perplexity: float
    bleu: float
    chrf: float
    exact: float
    """Share of the sources whose translation is one of the references, to the letter."""
    pieces: int
    pairs: int
    dropped: int
    """Pairs left out: an empty side, an exact duplicate, or longer than the model takes."""
    sources: int
    """Distinct sources, each translated once; lines with the same source are its references."""
    bleu_signature: str
    chrf_signature: str


@torch.inference_mode()
def mean_loss(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    batch_size: int = 64,
) -> tuple[float, int]:
    """Mean cross-entropy in nats per target piece, and the number of pieces."""
    total, pieces = 0.0, 0
    for batch in sorted_batches(targets, batch_size):
        source = pad([sources[i] for i in batch]).to(model.device)
        target = pad([targets[i] for i in batch]).to(model.device)
        keep = target[:, 1:] != PAD
        logits = model(source, target[:, :-1], keep)
        total += float(cross_entropy(logits, target[:, 1:][keep]))
        pieces += int(keep.sum())
    return total / pieces, pieces


def evaluate(
    model: Transformer,
    tokenizers: TokenizerPair,
    pairs: Sequence[Pair],
    decoding: Decoding = GREEDY,
) -> Evaluation:
    """Measure a model on pairs: sacrebleu, cased and detokenised.

    Raises:
        DataError: if no pair has two sides.
    """
    examples = encode_pairs(pairs, tokenizers, max_pieces=model.config.max_length)
    loss, pieces = mean_loss(model, examples.sources, examples.targets)
    references = references_by_source(examples.pairs)
    translations = translate(model, tokenizers, list(references), decoding=decoding)
    most = max(map(len, references.values()))
    # sacrebleu wants one list per reference number; None where a sentence has fewer.
    columns = [
        [lines[number] if number < len(lines) else None for lines in references.values()]
        for number in range(most)
    ]
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    return Evaluation(
        loss=loss,
        perplexity=math.exp(min(loss, 700.0)),
        bleu=bleu.corpus_score(translations, columns).score,
        chrf=chrf.corpus_score(translations, columns).score,
        exact=sum(map(list.__contains__, references.values(), translations)) / len(references),
        pieces=pieces,
        pairs=len(examples.pairs),
        dropped=examples.read - len(examples.pairs),
        sources=len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )
