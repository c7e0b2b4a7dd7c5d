"""Figures of failed translations sorted and compared with chrF, by hand."""

from __future__ import annotations

import pytest

from headwise.viz_app.analysis.failures import FAILURE_DESCRIPTIONS, compare_with_chrf, worst_first
from headwise.viz_app.records.measures import FAILURES

NAN = float("nan")


def test_every_failure_is_described() -> None:
    assert set(FAILURE_DESCRIPTIONS) == set(FAILURES)


def test_worst_sentence_comes_first() -> None:
    figures = [0.3, NAN, 0.9, -0.5]
    for name in ("log_probability", "least_attended", "left_out"):
        assert worst_first(name, figures) == [3, 0, 2]


def test_only_sentences_that_repeat_themselves_are_listed() -> None:
    assert worst_first("repetition", [0.0, 0.2, NAN, 0.5, 0.0, 0.2]) == [3, 1, 5]
    assert worst_first("repetition", [0.0, 0.0]) == []


@pytest.mark.parametrize(
    ("name", "figures", "shown", "best"),
    [
        ("left_out", [0.5, NAN, 1.0, 7.0], "Over 3 example sentences .* is +1.00:", "at +1 "),
        ("left_out", [0.5, 1.0, 2.0, 1.0], "Over 4 example sentences .* is +0.63:", "at +1 "),
        ("repetition", [0.5, 0.1, 0.0, 0.0], "Over 4 example sentences .* is -0.95:", "at -1 "),
        ("repetition", [0.0, 0.0, 0.0, 0.0], "Over 4 example sentences .* is –:", "at -1 "),
        ("left_out", [NAN] * 4, "Over 0 example sentences .* is –:", "at +1 "),
    ],
)
def test_comparison_with_chrf_says_what_was_found(
    name: str, figures: list[float], shown: str, best: str
) -> None:
    said = compare_with_chrf(name, figures, [20.0, 30.0, 40.0, 50.0])
    start, end = shown.split(" .* ")
    assert said.startswith(start)
    assert end in said
    assert best in said
