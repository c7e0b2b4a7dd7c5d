"""Rounds: each call once in each, in turns, and ratios taken round by round."""

from __future__ import annotations

import time

import pytest

from benchmarks import rounds
from tests.floats import near


def test_every_round_has_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    took: dict[str, float] = {"ours": 1.0, "theirs": 2.0}
    order: list[str] = []

    def call(name: str) -> None:
        nonlocal now
        now += took[name]
        order.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    seconds = rounds.in_rounds({name: lambda name=name: call(name) for name in took}, 3)

    assert seconds == {"ours": [1.0] * 3, "theirs": [2.0] * 3}
    warm_up = ["ours", "ours", "theirs", "theirs"]
    assert order == [*warm_up, "ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_quick_calls_are_repeated_within_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 0.0, 0

    def call() -> None:
        nonlocal now, calls
        now += 0.01
        calls += 1

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    seconds = rounds.in_rounds({"ours": call}, 2)

    assert calls == 2 + 2 * 5
    assert seconds["ours"] == near([0.01, 0.01], size=now)


def test_ratio_is_of_pairs_and_not_of_medians() -> None:
    ours, theirs = [1.0, 2.0, 9.0], [2.0, 1.0, 3.0]
    assert rounds.ratio(ours, theirs) == 2.0
    assert rounds.median(ours) / rounds.median(theirs) == 1.0
