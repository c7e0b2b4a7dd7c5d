from __future__ import annotations

import pytest

from headwise.model.interface import Kind
from headwise.viz_app.analysis.head_descriptions import describe_head, describe_value
from headwise.viz_app.analysis.measure_descriptions import MEASURE_DESCRIPTIONS
from headwise.viz_app.records.measures import MEASURES, AlignmentBaselines

NAN = float("nan")
BASELINES = AlignmentBaselines(lowest=0.06, diagonal=0.61)


def test_every_measure_is_described() -> None:
    assert set(MEASURE_DESCRIPTIONS) == {*MEASURES, "emergence"}
    signed = [name for name, about in MEASURE_DESCRIPTIONS.items() if about.range == "signed"]
    assert signed == ["cost"]
    for name in MEASURES:
        assert "7.25"[:3] in describe_value(name, "cross", 7.25)
    assert describe_value("emergence", "cross", 2000.0) == "emergence: 2,000"
    with pytest.raises(ValueError, match="expected a measure that is described here, got 'mood'"):
        describe_value("mood", "cross", 0.25)


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("previous", "decoder_self", 0.834, "looks at the previous token: 0.83 of its weight"),
        ("same", "cross", 0.5, "looks at the source token at its own place: 0.50 of its weight"),
        ("end", "encoder_self", 0.71, "rests on </s>: 0.71 of its weight"),
        (
            "punctuation",
            "cross",
            0.6,
            "rests on punctuation: 0.60 of its weight",
        ),
        ("entropy", "cross", 0.96, "spread almost evenly: 0.96 of the largest possible entropy"),
        ("entropy", "cross", 0.79, "spread: 0.79 of the largest possible entropy"),
        ("confidence", "cross", 0.8, "picks one token: 0.80 on average"),
        ("confidence", "cross", 0.79, "largest weight of a row: 0.79 on average"),
        ("aer_predicted", "cross", 0.28, "alignment error rate 0.28 by predicted"),
        ("cost", "cross", -0.0001, "hardly matters: switching it off costs 0.000 nats per token"),
        ("cost", "cross", -0.004, "hardly matters: switching it off gains 0.004 nats per token"),
        ("cost", "cross", 0.005, "switching it off costs 0.005 nats per token"),
        ("cost", "cross", 0.05, "matters: switching it off costs 0.050 nats per token"),
        ("cost", "cross", -0.02, "is in the way: switching it off gains 0.020 nats per token"),
        ("distance", "cross", 0.62, "far from what it is at the last checkpoint: distance 0.62"),
        ("distance", "cross", 0.29, "near what it is at the last checkpoint: distance 0.29"),
        ("next", "decoder_self", NAN, "next token: no value"),
    ],
)
def test_describe_value(name: str, kind: Kind, value: float, expected: str) -> None:
    assert describe_value(name, kind, value) == expected


@pytest.mark.parametrize(
    ("value", "how"),
    [
        (0.33, "follows the word alignment: error rate 0.33"),
        (0.34, "follows the word alignment in part: error rate 0.34"),
        (0.6, "follows the word alignment in part: error rate 0.60"),
        (0.61, "does not follow the word alignment: error rate 0.61"),
    ],
)
def test_alignment_is_said_against_the_diagonal(value: float, how: str) -> None:
    said = describe_value("aer_consumed", "cross", value, baselines=BASELINES)
    assert said == f"{how} by consumed, of the diagonal 0.61, at best 0.06"


def test_where_the_diagonal_is_the_alignment_a_head_can_follow_it() -> None:
    copying = AlignmentBaselines(lowest=0.0, diagonal=0.0)
    found = [
        describe_value("aer_predicted", "cross", rate, baselines=copying).partition(":")[0]
        for rate in (0.02, 0.3)
    ]
    assert found == ["follows the word alignment", "does not follow the word alignment"]


def test_a_cost_is_said_with_its_standard_error() -> None:
    said = describe_value("cost", "cross", 0.0604, error=0.0052)
    assert said == "matters: switching it off costs 0.060 ± 0.005 nats per token"


def shorter(values: dict[str, float], kind: Kind = "cross") -> list[str]:
    said = describe_head(values, kind, baselines=BASELINES)
    return [text.partition(":")[0] for text in said]


def test_shares_that_are_listed_together_are_of_other_keys() -> None:
    """The previous token may be punctuation: its weight would be counted twice."""
    shares = {"previous": 0.7, "punctuation": 0.6, "end": 0.4, "same": 0.1, "entropy": 0.3}
    assert shorter(shares, "encoder_self") == ["looks at the previous token"]
    assert shorter(shares | {"previous": 0.5}, "encoder_self") == [
        "rests on punctuation",  # the larger share first
        "rests on </s>",
    ]


def test_describe_head_ends_with_cost_and_distance() -> None:
    everything = {"end": 0.5, "same": 0.39, "entropy": 0.3, "confidence": 0.9}
    everything |= {"cost": 0.06, "distance": 0.3, "next": NAN}
    assert shorter(everything, "encoder_self") == [
        "rests on </s>",
        "matters",
        "far from what it is at the last checkpoint",
    ]


def test_describe_head_gives_the_better_alignment_if_it_is_near_the_best() -> None:
    values = {"aer_predicted": 0.45, "aer_consumed": 0.3, "entropy": 0.5, "cost": 0.01}
    assert describe_head(values, "cross", cost_error=0.002, baselines=BASELINES) == [
        "follows the word alignment: error rate 0.30 by consumed, of the diagonal 0.61, at best "
        "0.06",
        "switching it off costs 0.010 ± 0.002 nats per token",
    ]
    assert shorter(values | {"aer_consumed": 0.34}) == [
        "spread",
        "switching it off costs 0.010 nats per token",
    ]


def test_describe_head_gives_confidence_or_entropy() -> None:
    sharp = {"previous": 0.1, "confidence": 0.85, "entropy": 0.2}
    assert shorter(sharp) == ["picks one token"]
    even = {"end": 0.41, "confidence": 0.1, "entropy": 0.8}
    assert shorter(even) == ["rests on </s>", "spread almost evenly"]


def test_describe_head_without_characteristic_measure() -> None:
    values = {"previous": 0.2, "same": 0.3, "entropy": 0.6, "confidence": 0.5, "distance": 0.29}
    assert describe_head(values, "decoder_self") == [
        "no place stands out: at most 0.30, on its own place",
        "spread: 0.60 of the largest possible entropy",
    ]
