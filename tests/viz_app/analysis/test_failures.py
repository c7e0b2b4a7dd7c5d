from __future__ import annotations

from viz_app.analysis.failures import FAILURE_DESCRIPTIONS, worst_first
from viz_app.records.measures import FAILURES

NAN = float("nan")


def test_every_failure_is_described() -> None:
    assert set(FAILURE_DESCRIPTIONS) == set(FAILURES)


def test_worst_sentence_comes_first() -> None:
    figures = [0.3, NAN, 0.9, -0.5]
    assert worst_first("coverage", figures) == [3, 0, 2, 1]
    assert worst_first("log_probability", figures) == [3, 0, 2, 1]
    assert worst_first("repetition", figures) == [2, 0, 3, 1]
    assert worst_first("end", figures) == [2, 0, 3, 1]
