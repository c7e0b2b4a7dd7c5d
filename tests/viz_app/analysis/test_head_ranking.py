"""Which heads and which failed translations come first, and how well two orders agree."""

from __future__ import annotations

import math
import re

import numpy as np
from scipy.stats import spearmanr

from headwise.model.interface import Head, Kind
from headwise.viz_app.analysis.head_ranking import (
    correlation_in_words,
    emergence,
    head_table,
    head_values,
    independent_errors,
    order_by_last_value,
    rank_correlation,
    rank_correlation_interval,
    rank_heads,
    rank_ranges,
)
from headwise.viz_app.errors.sentences import compare_with_chrf, shares_below, worst_first
from headwise.viz_app.records.trace import Floats
from tests.floats import assert_near, near

NAN = float("nan")
VALUES: dict[Kind, Floats] = {
    "encoder_self": np.array([[0.5, 0.1], [0.9, 0.5]], np.float32),
    "decoder_self": np.full((2, 2), NAN, np.float32),
    "cross": np.array([[-0.2, 0.7], [0.5, NAN]], np.float32),
}


def test_ranks_are_shared_by_what_cannot_be_told_apart() -> None:
    """0.060 and 0.051 with errors of 0.005 differ by less than twice 0.0071; 0.030 is lower."""
    found = rank_ranges([0.060, 0.051, 0.030], independent_errors([0.005] * 3))
    assert found == [(1, 2), (1, 2), (3, 3)]
    assert rank_ranges([0.060, 0.051, 0.030], independent_errors([0.001, NAN, 0.001])) == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert rank_ranges([0.2, 0.3, 0.2], np.zeros((3, 3))) == [(2, 3), (1, 1), (2, 3)]


def test_rank_correlation_is_of_pairs_without_nan() -> None:
    assert rank_correlation([1, 2, NAN, 9], [0.1, 0.2, 5.0, 0.3]) == near(1)
    assert rank_correlation([1, 2, 3], [3, 1, 2]) == near(-0.5)
    for first, second in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([], [])):
        assert np.isnan(rank_correlation(first, second))


def test_a_head_emerges_where_half_of_its_way_is_behind_it() -> None:
    def of_cross(*values: float) -> dict[Kind, Floats]:
        there = np.array([values], np.float32)
        return {"encoder_self": there * 0, "decoder_self": there * 0, "cross": there}

    distances = [of_cross(0, 0), of_cross(0.1, 0.5), of_cross(0.3, 0.1), of_cross(0.4, 0.8)]
    found = emergence([0, 100, 200, 400], distances)
    np.testing.assert_array_equal(found["cross"], [[200, 100]])
    assert np.isnan(found["encoder_self"]).all()  # no different at the last checkpoint


def test_rank_heads_leaves_out_nan() -> None:
    found = rank_heads(VALUES)
    ranked = [("encoder_self", 1, 0), ("cross", 0, 1)]
    ranked += [("encoder_self", 0, 0), ("encoder_self", 1, 1), ("cross", 1, 0)]  # as laid out
    ranked += [("encoder_self", 0, 1), ("cross", 0, 0)]
    assert [head for head, _ in found] == ranked
    expected = np.array([0.9, 0.7, 0.5, 0.5, 0.5, 0.1, -0.2], np.float32)
    assert [v for _, v in found] == expected.tolist()
    assert head_values({"cost": VALUES}, ranked[1]) == {"cost": np.float32(0.7)}
    upwards = rank_heads(VALUES, kinds=["cross"], descending=False)
    assert [head[1:] for head, _ in upwards] == [(0, 0), (1, 0), (0, 1)]
    some = rank_heads(VALUES, least=0.5, kinds=["cross"])
    assert [head for head, _ in some] == [("cross", 0, 1), ("cross", 1, 0)]
    assert rank_heads(VALUES, kinds=["decoder_self"]) == []


def test_head_table_leaves_out_kinds_without_values() -> None:
    later: dict[Kind, Floats] = {kind: cells + 1 for kind, cells in VALUES.items()}
    heads, cells = head_table([VALUES, None, later])
    assert [head[0] for head in heads] == ["encoder_self"] * 4 + ["cross"] * 4
    assert heads[5] == ("cross", 0, 1)
    assert cells.shape == (8, 3)
    assert_near(cells[5], [0.7, NAN, 1.7])
    np.testing.assert_array_equal(cells[7], [NAN] * 3)
    assert head_table([None])[0] == []
    # Rows are ordered by their last value within kinds.
    heads, cells = head_table([VALUES, None])
    assert order_by_last_value(heads, cells) == [2, 0, 3, 1, 5, 6, 4, 7]
    nothing = np.full_like(cells, NAN)
    assert order_by_last_value(heads, nothing) == list(range(8))


SOURCES = ["Those", "long words", "Three longer words", "a b c"]


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


def test_a_correlation_of_1_has_no_interval() -> None:
    """All resamples have it, too, however few the pairs are."""
    rising = list(range(6))
    assert correlation_in_words(rising, rising, "heads") == "+1.00"
    assert correlation_in_words(rising, [5, *rising[1:]], "heads").startswith("+0.")
    assert correlation_in_words(rising, [1] * 6, "heads") == ""


def test_the_interval_of_a_rank_correlation_is_that_of_resampled_pairs() -> None:
    first, second = np.array([3.0, 1, 4, 1, 5, 9, 2]), np.array([2.0, 7, 1, 8, 2, 8, 1])
    drawn = np.random.default_rng(0).integers(7, size=(1_000, 7))
    found = [spearmanr(first[pairs], second[pairs]).statistic for pairs in drawn]
    expected = np.percentile(found, [2.5, 97.5])
    assert_near(rank_correlation_interval(first.tolist(), second.tolist()), expected)


def test_rows_are_ordered_by_kind_and_by_the_last_value_that_any_has() -> None:
    heads = [Head("cross", 0, 0), Head("cross", 0, 1), Head("encoder_self", 0, 0)]
    cells = np.array([[9, 1, np.nan], [0, 2, np.nan], [5, np.nan, np.nan]], np.float32)
    assert order_by_last_value(heads, cells) == [2, 1, 0]
    assert order_by_last_value(heads, np.full((3, 2), np.nan, np.float32)) == [0, 1, 2]
