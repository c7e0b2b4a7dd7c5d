"""One optimiser step on 128 pairs of 16 tokens, and what this project's training adds to that."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers.marian import marian_of
from benchmarks.peers.torch_nn import TorchTransformer
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, model_of
from headwise.model.masks import PADDING, pad
from headwise.model.training.batches import bucketed
from headwise.model.training.evaluation import cross_entropy
from headwise.model.transformer import Transformer

_PAIRS, _TOKENS = 128, 16
_SMOOTHING = 0.1
_CHECKED = 1e-4
"""Relative difference of two losses after a step that is still rounding, in float32."""
STEPS = 3

Forward = Callable[[Tensor, Tensor], Tensor]
"""Source ids (B, S) and consumed ids (B, T) → logits (B, T, V)."""


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Forward, backward, clipping and AdamW; in float32, in bf16, and ours bit by bit."""
    source, target = ids_of(_PAIRS, _TOKENS, seed=1), ids_of(_PAIRS, _TOKENS + 1, seed=2)
    rows, rules, raw = [], [], {}
    for precision in ("float32", "bf16"):
        peers = _peers()
        calls = {
            name: _stepping(module, forward, source, target, bf16=precision == "bf16")
            for name, (module, forward) in peers.items()
        }
        _check({name: call() for name, call in calls.items()}, bf16=precision == "bf16")
        seconds = in_rounds(calls, rounds)
        better = [min(pair) for pair in zip(seconds["Marian"], seconds["torch.nn"], strict=True)]
        times = ratio(better, seconds["ours"])
        speeds = (_PAIRS * _TOKENS / median(values) for values in seconds.values())
        rows.append((precision, *speeds, times))
        rules.append(Rule(f"training step, {precision}: times the better peer", times, 1.0, True))
        raw |= {f"training, {precision}, {name} (s)": values for name, values in seconds.items()}
        tick(precision)
    columns = (
        "",
        "ours (tokens/s)",
        "Marian (tokens/s)",
        "torch.nn (tokens/s)",
        "times the better",
    )
    one_by_one, more = _one_by_one(rounds)
    tick("one by one")
    tables = Table("Training step, 128 × 16 tokens", columns, tuple(rows)), one_by_one
    return Findings(tables, tuple(rules), raw=raw | more)


def _peers() -> dict[str, tuple[nn.Module, Forward]]:
    ours = model_of()
    marian, torch_nn = marian_of(ours), TorchTransformer(ours)

    def of_marian(source: Tensor, consumed: Tensor) -> Tensor:
        return marian(
            input_ids=source,
            attention_mask=(source != PADDING).long(),
            decoder_input_ids=consumed,
            use_cache=False,
        ).logits

    fresh = _fresh()
    return {
        "ours": (fresh, fresh),
        "Marian": (marian, of_marian),
        "torch.nn": (torch_nn, torch_nn),
    }


def _fresh() -> Transformer:
    """Ours as a training has it: a loaded checkpoint keeps its matrices in another layout."""
    ours = model_of()
    fresh = Transformer(ours.config)
    fresh.load_state_dict(ours.state_dict())
    return fresh


def _stepping(
    module: nn.Module, forward: Forward, source: Tensor, target: Tensor, *, bf16: bool
) -> Callable[[], float]:
    """A call that takes a step, the same but for the model."""
    module.train()
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = forward(source, target[:, :-1])
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), label_smoothing=_SMOOTHING
        )
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step


def _check(losses: dict[str, float], *, bf16: bool) -> None:
    for name, loss in losses.items():
        if abs(loss / losses["ours"] - 1) > (1e-2 if bf16 else _CHECKED):
            raise ValueError(f"the first loss of {name} is {loss}, ours {losses['ours']}")


def _one_by_one(rounds: int) -> tuple[Table, dict[str, list[float]]]:
    """What each choice of our training adds, on pairs of lengths as they come."""
    sources, targets = _pairs()
    at_random = [range(at, at + _PAIRS) for at in range(0, len(sources), _PAIRS)]
    similar = bucketed(sources, targets, batch_tokens=_PAIRS * _TOKENS, seed=0, epoch=0)
    similar.sort(key=lambda batch: len(targets[batch[0]]))
    variants: dict[str, tuple[Sequence[Sequence[int]], dict[str, bool]]] = {
        "fused attention, pairs at random, logits of padding too": (at_random, {}),
        "+ attention by the formula": (at_random, {"formula": True}),
        "+ logits of tokens only": (at_random, {"formula": True, "kept": True}),
        "+ batches of similar length": (similar, {"formula": True, "kept": True}),
        "+ bf16 (as `headwise.model.train` does)": (
            similar,
            {"formula": True, "kept": True, "bf16": True},
        ),
    }
    calls, tokens = {}, {}
    for name, (batches, choices) in variants.items():
        some = batches[len(batches) // 8 :: len(batches) // 4]  # of all lengths, where sorted
        padded = [(pad([sources[i] for i in b]), pad([targets[i] for i in b])) for b in some]
        calls[name] = _our_steps(padded, **choices)
        tokens[name] = sum(int((target[:, 1:] != PADDING).sum()) for _, target in padded)
    seconds = in_rounds(calls, rounds)
    speeds = {name: tokens[name] / median(values) for name, values in seconds.items()}
    before = [None, *list(speeds.values())[:-1]]
    rows = [
        (name, speed, last and speed / last)
        for (name, speed), last in zip(speeds.items(), before, strict=True)
    ]
    columns = ("", "target tokens/s", "times the line before")
    table = Table("Our training step by step: 2 to 40 tokens a side", columns, tuple(rows))
    return table, {f"training, {name} (s)": values for name, values in seconds.items()}


def _pairs() -> tuple[list[list[int]], list[list[int]]]:
    """Sources and targets of the same length, by median ten tokens as in short sentences."""
    draw = random.Random(0)
    lengths = [min(40, max(2, round(draw.lognormvariate(2.3, 0.5)))) for _ in range(4_096)]
    sources = ids_of(len(lengths), 40, seed=3).tolist()
    targets = ids_of(len(lengths), 41, seed=4).tolist()
    return (
        [row[:n] for row, n in zip(sources, lengths, strict=True)],
        [row[: n + 1] for row, n in zip(targets, lengths, strict=True)],
    )


def _our_steps(
    batches: list[tuple[Tensor, Tensor]],
    *,
    formula: bool = False,
    kept: bool = False,
    bf16: bool = False,
) -> Callable[[], None]:
    """A call that takes a step on each batch."""
    model = _fresh().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    fused = patch("headwise.model.attention.trains_on_cpu", lambda query: False)

    def steps() -> None:
        for source, target in batches:
            keep = target[:, 1:] != PADDING
            with fused if not formula else nullcontext():
                with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                    logits = model(source, target[:, :-1], keep if kept else None)
                logits = logits if kept else logits[keep]
                loss = cross_entropy(logits, target[:, 1:][keep], smoothing=_SMOOTHING)
                (loss / keep.sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()

    return steps
