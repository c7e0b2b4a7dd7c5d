"""Measuring in rounds: everything that is compared runs once in each, in turn.

What disturbs the machine then disturbs all of them; ratios are taken round by round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

Seconds = dict[str, list[float]]
"""What was measured → seconds a call, one for each round."""
_AT_LEAST = 0.05
"""Seconds of one measurement: quicker calls are repeated within it."""


def in_rounds(calls: Mapping[str, Callable[[], object]], rounds: int) -> Seconds:
    """Seconds of each call in each round, after a warm-up; the order turns from round to round."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    seconds: Seconds = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for round in range(rounds):
            first = round % len(names)
            for name in names[first:] + names[:first]:
                began = time.perf_counter()
                for _ in range(repeats[name]):
                    calls[name]()
                seconds[name].append((time.perf_counter() - began) / repeats[name])
    finally:
        gc.enable()
    return seconds


def _repeats(call: Callable[[], object]) -> int:
    for _ in range(2):  # the first is a warm-up
        began = time.perf_counter()
        call()
        taken = time.perf_counter() - began
    return max(1, round(_AT_LEAST / taken))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over rounds of ours / theirs."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
