"""How good a model is, whole or without some heads, and what it loses as heads are pruned."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pandas as pd
from tqdm import tqdm

from headwise.model.decoding.translation import GREEDY, Decoding
from headwise.model.interface import KINDS, Head, HeadLike, Kind, head_name, to_heads
from headwise.model.training.data import encode_pairs, references_by_source
from headwise.model.training.evaluation import mean_loss, perplexity_of, score_translations
from headwise.viz_app.api.opened import OpenedCheckpoint
from headwise.viz_app.core.batches import encode_all
from headwise.viz_app.measuring import pruning
from headwise.viz_app.measuring.corpus import Pairs, read_pairs

Score = Callable[[Sequence[str], Sequence[Sequence[str]]], float]
"""A score of one's own: from translations, and the references of each, to a number."""
_INTERVALS = ("bleu_low", "bleu_high", "chrf_low", "chrf_high")
METRICS = ("loss", "perplexity", "bleu", "chrf", "exact", *_INTERVALS)
"""What ``evaluate`` can compute; ``Evaluation`` of ``headwise.model.training.evaluation`` says what
each is."""


def evaluate(
    checkpoint: OpenedCheckpoint,
    pairs: Pairs,
    *,
    ablated: Collection[HeadLike] = (),
    metrics: str | Iterable[str] | Mapping[str, Score] = ("loss", "bleu", "chrf"),
    decoding: Decoding = GREEDY,
    columns: tuple[str, str] | None = None,
) -> dict[str, float]:
    """Measure a checkpoint on pairs, perhaps with heads switched off.

    Sources that are equal have several references and are translated once. ``bleu_low`` and
    ``bleu_high`` say how sure ``bleu`` is: its 95% interval by resamples of the sentences, NaN
    where these all score the same, as at 0 or 100; ``prune_curve`` has the standard error of what
    the loss rises by. ValueError if there is no such metric or head. DataError if no pair is left.

    Args:
        checkpoint: the checkpoint.
        pairs: (source, target) texts, a file, or a corpus by name.
        ablated: heads that are switched off, in decoding too.
        metrics: names among ``METRICS``, or one, or scores of one's own by name.
        decoding: how texts are translated, if a metric needs translations.
        columns: names of the two columns of a file, where they are not the languages.
    """
    own = metrics if isinstance(metrics, Mapping) else {}
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if odd := [name for name in names if name not in METRICS and name not in own]:
        raise ValueError(
            f"metrics: expected {', '.join(METRICS)}, or functions by name; got {', '.join(odd)}"
        )
    model, tokenizers = checkpoint.model, checkpoint.tokenizers
    read = read_pairs(pairs, checkpoint.opened, columns=columns)
    examples = encode_pairs(read, tokenizers, max_tokens=model.description.max_length)
    found: dict[str, float] = {}
    with checkpoint.ablate(ablated):
        if not {*names}.isdisjoint({"loss", "perplexity"} - {*own}):
            loss, _ = mean_loss(model, examples.sources, examples.targets)
            found |= {"loss": loss, "perplexity": perplexity_of(loss)}
        if own or not {*names}.isdisjoint({"bleu", "chrf", "exact", *_INTERVALS}):
            references = references_by_source(examples.pairs)
            translations = checkpoint.translate(list(references), decoding)
            lines = list(references.values())
            if not own:
                found |= score_translations(translations, lines)
            found |= {name: float(score(translations, lines)) for name, score in own.items()}
    return {name: found[name] for name in names}


def prune_curve(
    checkpoint: OpenedCheckpoint,
    pairs: Pairs,
    *,
    order: pruning.Importance | str | Sequence[HeadLike] = "cost",
    order_pairs: Pairs | None = None,
    kinds: Collection[Kind] = KINDS,
    points: int | None = None,
    metrics: str | Sequence[str] = (),
    seed: int = 0,
    columns: tuple[str, str] | None = None,
) -> pd.DataFrame:
    """Switch off one head after another, and measure what the loss rises by.

    The table has a row for each number of heads: ``pruned``, their ``share``, the last ``head``
    that was switched off, ``loss`` in nats per target token, its ``rise`` over the whole model and
    the standard ``error`` of the rise; and what ``metrics`` name. Nothing is trained again, as in
    Michel et al. (2019); Voita et al. (2019) train gates, and so lose less. Importance of heads
    alone says little of several: when a head is gone, another may do its work, or no longer can.
    ValueError if there is no such order, kind, head or metric. DataError if no pair is left.

    Args:
        checkpoint: the checkpoint.
        pairs: (source, target) texts, a file, or a corpus by name, on which the loss is measured.
        order: which heads go first: those of the least ``cost``, of the least ``gradient``, at
            ``random``, with which the others are compared, or the heads of a list.
        order_pairs: pairs on which importance is measured; None for the same, which flatters the
            curve.
        kinds: which kinds of heads, of an order that is found here.
        points: how many rows, spread evenly; None for one a head.
        metrics: what ``evaluate`` computes in addition for each row.
        seed: of the random order.
        columns: names of the two columns of a file, where they are not the languages.
    """
    model, run = checkpoint.model, checkpoint.opened
    if odd := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"kinds: expected some of {', '.join(KINDS)}, got {odd}")
    metrics = [metrics] if isinstance(metrics, str) else metrics
    if odd_metrics := [name for name in metrics if name not in METRICS]:
        raise ValueError(f"metrics: expected some of {', '.join(METRICS)}, got {odd_metrics}")
    read = read_pairs(pairs, run, columns=columns)
    most = model.description.max_length
    encoded = encode_all(read, checkpoint.tokenizers, max_length=most)
    heads = [head for head in checkpoint.heads if head.kind in kinds]
    if isinstance(order, str):
        if order == "random":
            ordered = random.Random(seed).sample(heads, len(heads))
        elif order in pruning.IMPORTANCES:
            by = encoded
            if order_pairs is not None:
                others = read_pairs(order_pairs, run, columns=columns)
                by = encode_all(others, checkpoint.tokenizers, max_length=most)
            with tqdm(total=len(by), unit="sentence", leave=False, desc="importance") as bar:
                found = pruning.importance_of_heads(model, by, order, advance=bar.update)
            ordered = pruning.least_important_first({head: found[head] for head in heads})
        else:
            known = ", ".join(pruning.IMPORTANCES)
            raise ValueError(f"order: expected {known}, random or heads, got {order!r:.60}")
    else:
        ordered = to_heads(order)
    counts, more = pruning.spread_counts(len(ordered), points), [n for n in metrics if n != "loss"]
    rows = []
    total = len(counts) * len(encoded)
    with tqdm(total=total, unit="sentence", leave=False, desc="pruning") as bar:
        for each in pruning.prune(model, encoded, ordered, counts, advance=bar.update):
            off: list[Head] = ordered[: each.pruned]
            row: dict[str, float | str] = {
                "pruned": each.pruned,
                "share": each.pruned / len(checkpoint.heads),
                "head": head_name(off[-1]) if off else "",
                "loss": each.loss,
                "rise": each.rise,
                "error": each.error,
            }
            if more:
                row |= evaluate(checkpoint, read, ablated=off, metrics=more)
            rows.append(row)
    return pd.DataFrame(rows)
