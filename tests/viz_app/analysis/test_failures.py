from __future__ import annotations

from viz_app.analysis.failures import FAILURE_ABOUT, worst_first
from viz_app.measure_records import FAILURES

NAN = float("nan")


def test_every_failure_has_words() -> None:
    assert set(FAILURE_ABOUT) == set(FAILURES)


def test_the_worst_sentence_comes_first() -> None:
    figures = [0.3, NAN, 0.9, -0.5]
    assert worst_first("coverage", figures) == [3, 0, 2, 1]
    assert worst_first("log_probability", figures) == [3, 0, 2, 1]
    assert worst_first("repetition", figures) == [2, 0, 3, 1]
    assert worst_first("end", figures) == [2, 0, 3, 1]
