"""How the benchmarks measure in rounds, judge what they found, and write it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from benchmarks import reruns
from benchmarks.__main__ import PARTS, measured
from benchmarks.growth import exponent
from benchmarks.models import Sentences
from benchmarks.report import Findings, Rule, in_rounds, ratio, write_results
from benchmarks.web_vitals import jumped
from headwise.model.checkpoint import open_trained_run
from tests.floats import near


def test_every_round_has_every_call_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    took: dict[str, float] = {"ours": 1.0, "theirs": 2.0}
    order: list[str] = []

    def call(name: str) -> None:
        nonlocal now
        now += took[name]
        order.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    seconds = in_rounds({name: lambda name=name: call(name) for name in took}, 3)
    assert seconds == {"ours": [1.0] * 3, "theirs": [2.0] * 3}
    warm_up = ["ours", "ours", "theirs", "theirs"]
    assert order == [*warm_up, "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert ratio([1.0, 2.0, 9.0], [2.0, 1.0, 3.0]) == 2.0  # of pairs, not of medians

    order.clear()
    took["ours"] = 0.01  # so quick that it is repeated within a measurement
    seconds = in_rounds({"ours": lambda: call("ours")}, 2)
    assert len(order) == 2 + 2 * 5
    assert seconds["ours"] == near([0.01, 0.01], size=now)


def test_each_action_of_one_person_costs_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reruns, "TIMES", 2)
    found = measured("reruns", 1)
    assert found.fault == ""
    sentence, head, page = (rule.value for rule in found.rules)
    assert min(head, page) > 0
    assert sentence > head  # a sentence is also decoded and traced


def test_a_part_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "reruns", ("no_such_peer.measure", ""))
    assert "no_such_peer" in measured("reruns", 1).fault


@pytest.mark.parametrize(
    ("shifts", "expected"),
    [
        ([], 0.0),
        ([(0, 0.1), (900, 0.2)], 0.3),
        ([(0, 0.1), (1_100, 0.2)], 0.2),  # a second without one ends a window
        ([(0, 0.5), (2_000, 0.1), (2_500, 0.1)], 0.5),
        ([(at, 0.1) for at in range(0, 6_000, 500)], 1.1),  # and so do five seconds
    ],
)
def test_shifts_are_summed_by_window(shifts: list[tuple[float, float]], expected: float) -> None:
    assert jumped(shifts) == near(expected)


def test_growth_is_the_slope_from_the_middle_size_on() -> None:
    assert exponent({x: max(2_500, x**2) for x in (10, 20, 50, 100, 200)}) == near(2)


def test_sentences_have_as_many_tokens_as_asked() -> None:
    tokenizers = open_trained_run("en-es").tokenizers
    sentences = Sentences(tokenizers, seed=3)
    for tokens in (2, 17, 1_000):
        text = sentences.of(tokens)
        assert len(tokenizers.encode_source(text)) == tokens
        assert len(tokenizers.encode_target(text)) == tokens + 1


def test_a_rule_may_be_at_most_or_at_least() -> None:
    assert Rule("time", 0.8, 0.8).missed_by is None
    assert Rule("time", 0.88, 0.8).missed_by == near(0.1, size=1)
    assert Rule("speed", 2.5, 2.5, at_least=True).missed_by is None
    assert Rule("speed", 2.0, 2.5, at_least=True).missed_by == near(0.2, size=1)
    assert Rule("time", float("nan"), 0.8).missed_by is not None
    assert Rule("faults", 3, 0).missed_by == 3


def test_all_is_written(tmp_path: Path) -> None:
    good, bad = Findings("one", seconds=60.0), Findings("two", fault="no such peer")
    good.table("Times", ("", "ms"), [("a", 1.5), ("b", None), ("c", 12_345)])
    good.rule("quick", 2.0, 1.0)
    good.rule("small", 1.0, 2.0)
    write_results([good, bad], tmp_path, rounds=3)
    text = (tmp_path / "results.md").read_text()
    assert "1 of 2 rules hold; of those missed, 1 by more than 20%" in text
    assert "| quick | 2 | ≤ 1 | missed by 100% |" in text
    assert "| small | 1 | ≤ 2 | holds |" in text
    assert all(
        part in text for part in ("## one", "| a | 1.5 |\n| b | – |\n| c | 12,345 |", "1.0 min")
    )
    assert "Not measured: no such peer" in text
    assert re.search(r"^\* torch: [\d.]+", text, re.MULTILINE)
