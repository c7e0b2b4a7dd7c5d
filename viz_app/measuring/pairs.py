"""Contrastive pairs read from a person's file, and how likely each checkpoint finds their targets.

``B`` batch, ``L`` layers, ``H`` heads, ``n`` pairs. Each process scores every other batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headwise.model.interface import Kind, Seq2SeqModel, Tokenizers
from headwise.model.interventions import batch_head_costs
from headwise.model.placement import Placement
from headwise.model.runs import Run, load_checkpoint
from headwise.model.training.corpora import read_rows
from headwise.model.training.data import DataError, Pair
from headwise.model.training.processes import ALONE, Processes
from headwise.viz_app.core.batches import (
    EncodedPair,
    PaddedIds,
    batches_by_length,
    gather,
    target_scores,
)
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs, PairScores, outcomes
from headwise.viz_app.records.trace import Doubles, Floats

MOST_PAIRS = 10_000  # most pairs of a file
MOST_LETTERS, MOST_PHENOMENA = 1_000, 24  # of a text; each phenomenon has a chart
_LONGEST_NAME = 60
_MOST_BYTES = 64 * 2**20
_COLUMNS = tuple(field.name for field in fields(ContrastivePair))


def read_pairs(path: Path) -> tuple[ContrastivePair, ...]:
    """Read contrastive pairs: rows with the columns source, right, wrong and phenomenon.

    The formats are those of ``stream_corpus``: ``.jsonl``, ``.tsv`` and ``.csv`` (with a header
    line), ``.parquet``. DataError naming file, row, what was expected and what to do.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected one with contrastive pairs")
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path}: expected at most {_MOST_BYTES:,} bytes; take fewer pairs")
    pairs: list[ContrastivePair] = []
    phenomena: set[str] = set()
    for place, row in read_rows(path):
        if len(pairs) == MOST_PAIRS:
            raise DataError(f"{path}: expected at most {MOST_PAIRS:,} pairs; take fewer")
        if missing := [name for name in _COLUMNS if name not in row]:
            raise DataError(
                f"{path}, {place}: expected the columns {', '.join(_COLUMNS)}, got "
                f"{', '.join(map(repr, row)) or 'none'}; add {', '.join(missing)}"
            )
        texts = {name: row[name] for name in _COLUMNS}
        try:
            pairs.append(_pair(texts))
        except ValueError as error:
            raise DataError(f"{path}, {place}: {error}") from error
        phenomena.add(pairs[-1].phenomenon)
        if len(phenomena) > MOST_PHENOMENA:
            raise DataError(
                f"{path}, {place}: expected at most {MOST_PHENOMENA} phenomena, got another: "
                f"{pairs[-1].phenomenon!r}; join some"
            )
    if not pairs:
        raise DataError(f"{path}: no pairs in it; expected rows with {', '.join(_COLUMNS)}")
    return tuple(pairs)


def _pair(texts: dict[str, object]) -> ContrastivePair:
    stripped = {}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{name}: expected a text, got {text!r:.60}")
        most = _LONGEST_NAME if name == "phenomenon" else MOST_LETTERS
        if len(text) > most:
            raise ValueError(f"{name}: expected at most {most:,} letters, got {len(text):,}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{name}: expected text, got half a character (a lone surrogate); remove it"
            ) from None
        stripped[name] = text.strip()
    return ContrastivePair(**stripped)


@dataclass(frozen=True)
class PairTask:
    """A task says which checkpoints of a run score which pairs, and by which processes."""

    run: Run
    steps: Sequence[int]
    name: str  # name of the file that the pairs come from
    pairs: tuple[ContrastivePair, ...]
    processes: Processes
    placement: Placement  # where the models compute, and how precisely

    @property
    def heads(self) -> int:
        """Return how many heads are switched off: those of the last checkpoint, if it is scored."""
        shapes = self.run.description.shapes.values()
        return sum(n * m for n, m in shapes) if self.run.steps()[-1] in self.steps else 0

    @property
    def passes(self) -> int:
        return 2 * len(self.pairs) * (len(self.steps) + (self.heads + 1 if self.heads else 0))


def score_pairs(
    model: Seq2SeqModel, tokenizers: Tokenizers, pairs: Sequence[ContrastivePair]
) -> tuple[Doubles, Doubles]:
    """Return log P of the right and of the wrong target of each pair, in nats: (n,), (n,).

    DataError, before any work, if a text is too long, or no text for the tokenizer.
    """
    batches = list(batches_by_length(_encode(pairs, tokenizers, model.description.max_length)))
    scores = _over(batches, partial(target_scores, model), ALONE)
    return scores[::2], scores[1::2]


def measure_pairs(task: PairTask, advance: Callable[[int], object]) -> Iterator[MeasuredPairs]:
    """Score the pairs by each checkpoint in order, and by the last one without each head.

    What is yielded, the same in every process, has one checkpoint; the last of the run its heads,
    too. ``advance`` is told the number of targets that are scored, in all processes. DataError as
    for ``score_pairs``.
    """
    encoded = _encode(task.pairs, task.run.tokenizers, task.run.description.max_length)
    batches = list(batches_by_length(encoded))
    for step in task.steps:
        checkpoint = load_checkpoint(task.run, step, task.placement)
        model = checkpoint.model
        scores = _over(batches, partial(target_scores, model), task.processes, advance)
        there = PairScores(step, checkpoint.sha256, scores[::2], scores[1::2])
        measured = MeasuredPairs(task.run.name, task.name, task.pairs, {step: there})
        if step == task.run.steps()[-1]:
            score, times = partial(_scores_without_heads, model), task.heads + 1
            without = _over(batches, score, task.processes, advance, times)
            measured = replace(measured, heads_step=step, without_heads=_by_head(model, without))
        yield measured


def _encode(
    pairs: Sequence[ContrastivePair], tokenizers: Tokenizers, max_length: int
) -> list[EncodedPair]:
    found: list[EncodedPair] = []
    for number, pair in enumerate(pairs):
        source = tokenizers.encode_source(pair.source)
        for target in (pair.right, pair.wrong):
            ids = tokenizers.encode_target(target)
            for text, tokens in ((pair.source, len(source)), (target, len(ids) - 1)):
                if tokens < 2:  # </s> alone
                    raise DataError(
                        f"pair {number + 1}: the tokenizer finds no text in {text!r:.60}; leave the"
                        " pair out"
                    )
                if tokens > max_length:
                    raise DataError(
                        f"pair {number + 1}: expected at most {max_length:,} tokens, got "
                        f"{tokens:,} of {text!r:.60}; leave the pair out"
                    )
            found.append(EncodedPair(len(found), Pair(pair.source, target), source, ids))
    return found


def _over(
    batches: Sequence[list[EncodedPair]],
    score: Callable[[list[EncodedPair]], Tensor],
    processes: Processes,
    advance: Callable[[int], object] = lambda count: None,
    times: int = 1,
) -> Doubles:
    """Score all batches, (B, …) each; return the scores in order of the targets, (2 n, …)."""
    found = []
    for number, batch in enumerate(batches):
        if processes.has(number):
            scores = score(batch).double().numpy(force=True)
            found.append({each.number: row for each, row in zip(batch, scores, strict=True)})
        advance(len(batch) * times)
    return np.stack(gather(processes, found))


def _scores_without_heads(model: Seq2SeqModel, batch: Sequence[EncodedPair]) -> Tensor:
    """Compute ``target_scores`` without each head, (B, heads), layer by layer and kind."""
    ids = PaddedIds.of_pairs(batch, model)
    costs = batch_head_costs(model, ids.source, ids.target)
    flat = torch.cat([cost.flatten(1) for cost in costs.values()], dim=1)
    return target_scores(model, batch)[:, None] - flat


def _by_head(model: Seq2SeqModel, scores: Doubles) -> dict[Kind, Floats]:
    """Return how each pair counts without each head, (L, H, n), from scores (2 n, heads)."""
    counted = outcomes(scores[::2].T, scores[1::2].T)  # (heads, n)
    found: dict[Kind, Floats] = {}
    start = 0
    for kind, (layers, heads) in model.description.shapes.items():
        rows = counted[start : start + layers * heads]
        found[kind] = rows.reshape(layers, heads, -1)
        start += layers * heads
    return found
