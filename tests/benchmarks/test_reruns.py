from __future__ import annotations

import pytest

from benchmarks.parts import reruns


def test_each_action_of_one_person_costs_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reruns, "TIMES", 2)
    done: list[str] = []
    findings = reruns.measure(rounds=1, tick=done.append)
    assert done == list(reruns.MOST)
    assert len(done) == reruns.STEPS
    assert all(len(each) == 2 and min(each) > 0 for each in findings.raw.values())
    [table] = findings.tables
    sentence, head, _page = (float(str(row[1])) for row in table.rows)
    assert sentence > head  # a sentence is also decoded and traced
    assert [rule.limit for rule in findings.rules] == list(reruns.MOST.values())


def test_its_sentences_differ_and_have_ten_tokens() -> None:
    sentences = reruns.sentences()
    assert len(set(sentences)) == len(sentences) > reruns.TIMES
