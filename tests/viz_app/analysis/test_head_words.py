from __future__ import annotations

import numpy as np
import pytest

from viz_app.analysis.head_words import (
    ABOUT,
    by_last_value,
    in_words,
    ranked,
    table_of,
    telling,
    values_of,
)
from viz_app.measure_records import MEASURES
from viz_app.records import Floats, Kind

NAN = float("nan")


def test_every_measure_has_words() -> None:
    assert set(ABOUT) == set(MEASURES)
    assert [name for name in MEASURES if ABOUT[name].signed] == ["cost"]
    for name in MEASURES:
        assert "0.25" in in_words(name, "cross", 0.25)


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("previous", "decoder_self", 0.834, "looks at the previous token: 0.83 of its weight"),
        ("same", "cross", 0.5, "looks at the source piece at its own place: 0.50 of its weight"),
        ("end", "encoder_self", 0.71, "rests on </s>: 0.71 of its weight"),
        (
            "entropy",
            "cross",
            0.96,
            "spread almost evenly: 0.96 of the largest possible entropy",
        ),
        ("entropy", "cross", 0.79, "spread: 0.79 of the largest possible entropy"),
        ("confidence", "cross", 0.8, "picks one token: 0.80 on average"),
        ("confidence", "cross", 0.79, "largest weight of a row: 0.79 on average"),
        ("aer_predicted", "cross", 0.5, "follows the word alignment: error rate 0.50 by predicted"),
        (
            "aer_predicted",
            "cross",
            0.28,
            "follows the word alignment: error rate 0.28 by predicted",
        ),
        (
            "aer_consumed",
            "cross",
            0.51,
            "does not follow the word alignment: error rate 0.51 by consumed",
        ),
        ("cost", "cross", 0.001, "hardly matters: switching it off costs 0.001 nats a piece"),
        ("cost", "cross", -0.0001, "hardly matters: switching it off costs 0.000 nats a piece"),
        ("cost", "cross", 0.02, "switching it off costs 0.020 nats a piece"),
        ("cost", "cross", -0.004, "hardly matters: switching it off gains 0.004 nats a piece"),
        ("cost", "cross", 0.005, "switching it off costs 0.005 nats a piece"),
        ("cost", "cross", 0.05, "matters: switching it off costs 0.050 nats a piece"),
        ("cost", "cross", 0.4, "matters: switching it off costs 0.400 nats a piece"),
        ("cost", "cross", -0.02, "is in the way: switching it off gains 0.020 nats a piece"),
        ("distance", "cross", 0.62, "far from what it is at the last checkpoint: distance 0.62"),
        ("distance", "cross", 0.29, "near what it is at the last checkpoint: distance 0.29"),
        ("next", "decoder_self", NAN, "next token: no value"),
    ],
)
def test_a_value_is_put_into_words(name: str, kind: Kind, value: float, expected: str) -> None:
    assert in_words(name, kind, value) == expected


def shorter(values: dict[str, float], kind: Kind = "cross") -> list[str]:
    return [said.partition(":")[0] for said in telling(values, kind)]


def test_what_tells_most_is_said_of_a_head() -> None:
    everything = {"previous": 0.4, "end": 0.5, "same": 0.39, "entropy": 0.3, "confidence": 0.9}
    everything |= {"cost": 0.06, "distance": 0.3, "next": NAN}
    assert shorter(everything, "encoder_self") == [
        "rests on </s>",  # the larger share first
        "looks at the previous token",
        "matters",
        "far from what it is at the last checkpoint",
    ]


def test_the_better_alignment_is_said_and_a_bad_one_is_not() -> None:
    values = {"aer_predicted": 0.45, "aer_consumed": 0.3, "entropy": 0.5, "cost": 0.01}
    assert telling(values, "cross") == [
        "follows the word alignment: error rate 0.30 by consumed",
        "switching it off costs 0.010 nats a piece",
    ]
    assert shorter(values | {"aer_predicted": 0.6, "aer_consumed": 0.7}) == [
        "spread",
        "switching it off costs 0.010 nats a piece",
    ]


def test_confidence_is_said_where_no_place_is_and_evenness_always() -> None:
    sharp = {"previous": 0.1, "confidence": 0.85, "entropy": 0.2}
    assert shorter(sharp) == ["picks one token"]
    even = {"end": 0.41, "confidence": 0.1, "entropy": 0.8}
    assert shorter(even) == ["rests on </s>", "spread almost evenly"]


def test_limits_are_reached_exactly() -> None:
    assert shorter({"aer_consumed": 0.5, "entropy": 0.79}) == ["follows the word alignment"]
    assert shorter({"confidence": 0.8, "entropy": 0.79}) == ["picks one token"]


def test_what_is_not_known_is_not_said() -> None:
    assert shorter({"cost": 0.3}) == ["matters"]
    assert telling({}, "cross") == []


def test_a_head_of_which_nothing_stands_out_is_said_to_be_such() -> None:
    values = {"previous": 0.2, "same": 0.3, "entropy": 0.6, "confidence": 0.5, "distance": 0.29}
    assert telling(values, "decoder_self") == [
        "no place stands out: at most 0.30, on its own place",
        "spread: 0.60 of the largest possible entropy",
    ]


VALUES: dict[Kind, Floats] = {
    "encoder_self": np.array([[0.5, 0.1], [0.9, 0.5]], np.float32),
    "decoder_self": np.full((2, 2), NAN, np.float32),
    "cross": np.array([[-0.2, 0.7], [0.5, NAN]], np.float32),
}


def test_the_values_of_a_head_are_found() -> None:
    found = values_of({"cost": VALUES, "same": VALUES}, ("cross", 0, 1))
    assert found == {"cost": pytest.approx(0.7), "same": pytest.approx(0.7)}


def test_heads_are_ranked_and_those_without_a_value_left_out() -> None:
    found = ranked(VALUES)
    assert [head for head, _ in found] == [
        ("encoder_self", 1, 0),
        ("cross", 0, 1),
        ("encoder_self", 0, 0),  # ties as they are laid out
        ("encoder_self", 1, 1),
        ("cross", 1, 0),
        ("encoder_self", 0, 1),
        ("cross", 0, 0),
    ]
    np.testing.assert_allclose([v for _, v in found], [0.9, 0.7, 0.5, 0.5, 0.5, 0.1, -0.2])
    upwards = ranked(VALUES, kinds=["cross"], descending=False)
    assert [head[1:] for head, _ in upwards] == [(0, 0), (1, 0), (0, 1)]
    assert [head for head, _ in ranked(VALUES, least=0.5, kinds=["cross"])] == [
        ("cross", 0, 1),
        ("cross", 1, 0),
    ]
    assert ranked(VALUES, kinds=["decoder_self"]) == []


def test_a_table_has_the_kinds_of_which_a_measure_says_something() -> None:
    later: dict[Kind, Floats] = {kind: cells + 1 for kind, cells in VALUES.items()}
    heads, cells = table_of([VALUES, None, later])
    assert [head[0] for head in heads] == ["encoder_self"] * 4 + ["cross"] * 4
    assert heads[5] == ("cross", 0, 1)
    assert cells.shape == (8, 3)
    np.testing.assert_allclose(cells[5], [0.7, NAN, 1.7], rtol=1e-6)
    np.testing.assert_array_equal(cells[7], [NAN] * 3)
    assert table_of([None])[0] == []


def test_rows_go_kind_by_kind_by_their_last_known_value() -> None:
    heads, cells = table_of([VALUES, None])
    assert by_last_value(heads, cells) == [2, 0, 3, 1, 5, 6, 4, 7]
    nothing = np.full_like(cells, NAN)
    assert by_last_value(heads, nothing) == list(range(8))
