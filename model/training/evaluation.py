"""Evaluate a model: loss and perplexity on pairs, BLEU and chrF of its translations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
import torch.nn.functional as F
from sacrebleu.metrics.base import Metric
from torch import Tensor

from headwise.model.decoding.translation import GREEDY, Decoding, sorted_batches, translate
from headwise.model.files import CheckpointError, read_log, write_log
from headwise.model.forced import forced_stream
from headwise.model.interface import Rows, Seq2SeqModel, Tokenizers
from headwise.model.masks import PADDING, pad
from headwise.model.training.data import Pair, encode_pairs, references_by_source


@dataclass(frozen=True)
class Evaluation:
    """The results of a model on a corpus."""

    loss: float
    """Mean cross-entropy in nats per target token, ``</s>`` included, without smoothing."""
    perplexity: float
    bleu: float
    chrf: float
    exact: float
    """Share of the sources whose translation equals one of their references."""
    bleu_low: float
    """Where the 95% interval of ``bleu`` begins, as ``score_translations`` has it; NaN without."""
    bleu_high: float
    chrf_low: float
    chrf_high: float
    tokens: int
    pairs: int
    dropped: int
    """Number of pairs left out: with an empty side, exact duplicates, too long for the model."""
    sources: int
    """Number of distinct sources; each is translated once and has one or more references."""
    bleu_signature: str
    chrf_signature: str


_RESAMPLES, _SEED = 1_000, 0
"""Of the bootstrap, and its seed."""
LONGEST_OF_BLEU = 4
"""BLEU multiplies the precisions of sequences of one to this many words."""


def bleu_note(pairs: Sequence[Pair]) -> str | None:
    """Say that BLEU is 0 whatever a model does, if no target is long enough for it; else None."""
    split = sacrebleu.BLEU().tokenizer
    if any(len(split(pair.target).split()) >= LONGEST_OF_BLEU for pair in pairs):
        return None
    return (
        f"BLEU says nothing here and will be 0: no target has {LONGEST_OF_BLEU} words, and it "
        f"counts sequences of {LONGEST_OF_BLEU}; read exact and chrF instead"
    )


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Compute the label-smoothed cross-entropy of n tokens, summed, in nats: float32 scalar.

    ``logits`` are (n, V), ``targets`` the ids of the true tokens, (n,). ``smoothing`` ε gives each
    of the V tokens a target probability of ε/V, and the true token 1 - ε in addition (Szegedy et
    al. 2016; section 5.4 of the paper).
    """
    return F.cross_entropy(logits.float(), targets, label_smoothing=smoothing, reduction="sum")


@torch.inference_mode()
def mean_loss(
    model: Seq2SeqModel, sources: Rows, targets: Rows, *, batch_size: int = 64
) -> tuple[float, int]:
    """Compute the mean cross-entropy in nats per target token, and the number of tokens."""
    total, tokens = 0.0, 0
    for batch in sorted_batches(targets, batch_size):
        source = pad([sources[i] for i in batch]).to(model.device)
        target = pad([targets[i] for i in batch]).to(model.device)
        keep = target[:, 1:] != PADDING
        logits = model.unembed(forced_stream(model, source, target[:, :-1])[keep])
        total += float(cross_entropy(logits, target[:, 1:][keep]))
        tokens += int(keep.sum())
    return total / tokens, tokens


def evaluate(
    model: Seq2SeqModel, tokenizers: Tokenizers, pairs: Sequence[Pair], decoding: Decoding = GREEDY
) -> Evaluation:
    """Measure a model on pairs; BLEU and chrF are cased and detokenised, by sacrebleu."""
    examples = encode_pairs(pairs, tokenizers, max_tokens=model.description.max_length)
    loss, tokens = mean_loss(model, examples.sources, examples.targets)
    references = references_by_source(examples.pairs)
    translations = translate(model, tokenizers, list(references), decoding=decoding)
    scores = score_translations(translations, list(references.values()))
    return Evaluation(
        loss=loss,
        perplexity=perplexity_of(loss),
        tokens=tokens,
        pairs=len(examples.pairs),
        dropped=examples.read - len(examples.pairs),
        sources=len(references),
        **scores,
    )


def perplexity_of(loss: float) -> float:
    """Return e to the loss, which is held below what a float can be."""
    return math.exp(min(loss, 700.0))


def score_translations(
    translations: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Compare each translation with one or more references by sacrebleu, and letter by letter.

    Scores have the names that they have in ``Evaluation``.

    The 95% intervals are the percentiles of 1,000 resamples of the sentences (Koehn 2004). They are
    of this one model on sentences like these: another training may differ by more. Where all
    resamples score the same, as at 0 or 100, they say nothing, and the ends are NaN.
    """
    # sacrebleu wants one list per reference number; None where a sentence has fewer.
    columns = list(itertools.zip_longest(*references))
    equal = (text in lines for text, lines in zip(translations, references, strict=True))
    scores: dict[str, Any] = {"exact": sum(equal) / len(references)}
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        ends = (name, f"{name}_low", f"{name}_high")
        scores |= zip(ends, _score(metric, translations, columns), strict=True)
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores


def _score(
    metric: Metric, translations: Sequence[str], columns: Sequence[Sequence[str | None]]
) -> tuple[float, float, float]:
    """Return a score and its 95% interval, NaN where that has no width.

    A score is a function of sums over sentences: matches and lengths. These are found once.
    (``n_bootstrap`` of sacrebleu would hold them a thousand times, which is too much of a large
    corpus.)
    """
    table = np.array(metric._extract_corpus_statistics(translations, columns), np.int64)
    random, count = np.random.default_rng(_SEED), len(table)
    resampled = []
    for _ in range(_RESAMPLES):
        times = np.bincount(random.integers(count, size=count), minlength=count)
        resampled.append(metric._compute_score_from_stats((times @ table).tolist()).score)
    low, high = np.percentile(resampled, [2.5, 97.5])
    score = float(metric._compute_score_from_stats(table.sum(axis=0).tolist()).score)
    return (score, float(low), float(high)) if high - low > 1e-9 else (score, math.nan, math.nan)


def milestone_figures(figures: Evaluation) -> dict[str, float]:
    """Return what a log has of a milestone's evaluation; unknown ends of intervals are left out."""
    rounded = {
        "valid_loss": round(figures.loss, 4),
        "bleu": round(figures.bleu, 2),
        "chrf": round(figures.chrf, 2),
        "exact": round(figures.exact, 4),
    }
    for name in ("bleu_low", "bleu_high", "chrf_low", "chrf_high"):
        if not math.isnan(end := getattr(figures, name)):
            rounded[name] = round(end, 2)
    return rounded | {"valid_pairs": figures.pairs, "valid_sources": figures.sources}


def require_milestones(log: Path, steps: Sequence[int]) -> None:
    """Raise ``CheckpointError`` if a log lacks the row of a milestone, one with ``valid_loss``."""
    logged = {row["step"] for row in read_log(log) if "valid_loss" in row}
    if missing := [f"{step:,}" for step in steps if step not in logged]:
        raise CheckpointError(
            f"{log}: expected a row with valid_loss for each step, got none for "
            f"{', '.join(missing)}; restore the file or choose another --step"
        )


def add_to_log(log: Path, figures: Mapping[int, Mapping[str, float]]) -> None:
    """Write figures, by step and name, into the rows of their milestones."""
    rows = (
        row | dict(figures[row["step"]]) if "valid_loss" in row and row["step"] in figures else row
        for row in read_log(log)
    )
    write_log(log, rows)
