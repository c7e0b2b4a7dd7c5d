"""``benchmarks/parts/live.py``: a reader and a training beside each other are both measured."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.parts import live


def test_a_training_is_seen_and_both_are_timed_alone_and_beside_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "READ", 1)
    done: list[str] = []
    with ThreadPoolExecutor(1) as pool:  # a loop of events may be running in this thread
        findings = pool.submit(lambda: live.measure(rounds=1, tick=done.append)).result()
    assert len(done) == live.STEPS
    assert {len(each) for each in findings.raw.values()} == {1}
    assert min(min(each) for each in findings.raw.values()) > 0
    seen, slower, kept = (rule.value for rule in findings.rules)
    assert 0 < seen < 60
    [table] = findings.tables
    assert [row[3] for row in table.rows] == [slower, kept]
