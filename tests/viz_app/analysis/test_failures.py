"""Failed translations: which are listed first, and how well that agrees with chrF."""

from __future__ import annotations

import math
import re

import numpy as np

from headwise.viz_app.analysis.failures import (
    FAILURE_DESCRIPTIONS,
    compare_with_chrf,
    shares_below,
    worst_first,
)
from headwise.viz_app.records.measures import FAILURES

NAN = float("nan")
SOURCES = ["Those", "long words", "Three longer words", "a b c"]


def test_every_sign_of_failure_is_described() -> None:
    assert set(FAILURE_DESCRIPTIONS) == set(FAILURES)


def test_sentence_with_the_strongest_sign_comes_first() -> None:
    assert worst_first([0.3, NAN, 0.9, -0.5], SOURCES) == [3, 0, 2]


def test_order_of_sentences_does_not_follow_their_length() -> None:
    generator = np.random.default_rng(1)
    lengths = np.repeat(np.arange(1, 21), 20)
    least = [generator.random(n).min() for n in lengths]
    sources = [" ".join(["word"] * n) for n in lengths]
    shares = shares_below(least, sources)
    assert abs(float(np.corrcoef(lengths, shares)[0, 1])) < 0.1
    assert float(np.corrcoef(lengths, least)[0, 1]) < -0.5
    # A short sentence whose least word is low for its length comes before longer ones.
    first = worst_first([*least, 0.05], [*sources, "word"])[:40]
    assert len(lengths) in first


def test_sentence_alone_has_no_share() -> None:
    assert np.isnan(shares_below([0.5], ["word"])).all()
    assert shares_below([0.5, 0.2], ["word", "word"]) == [1.0, 0.0]


def test_comparison_with_chrf_says_what_was_found() -> None:
    figures = np.arange(60) / 60
    said = compare_with_chrf(figures.tolist(), (figures * 90).tolist(), ["word"] * 60)
    assert said.startswith("Over 60 example sentences ")
    low, high = re.findall(r"[+-]\d\.\d\d", said)[1:3]
    assert -1 < float(low) <= float(high) <= 1
    same = compare_with_chrf([0.5] * 4, [1.0, 2.0, 3.0, 4.0], ["word"] * 4)
    assert same == "Over 4 example sentences it cannot be compared with chrF."


def test_a_sentence_is_compared_with_those_about_as_long() -> None:
    alike = ["word"] * 3
    assert shares_below([1, 1, 2], alike) == [0.25, 0.25, 1]  # equal figures are half lower
    np.testing.assert_equal(shares_below([math.nan, 1, 2], alike), [math.nan, 0, 1])
    np.testing.assert_equal(shares_below([math.nan, math.nan, 1], alike), [math.nan] * 3)
    # Of 30 sentences, each longer than the one before, the first is compared with the next 20.
    figures = [50.0, *range(20), *[1_000.0] * 9]
    longer = ["word" * (1 + place) for place in range(30)]
    assert shares_below(figures, longer)[0] == 1
