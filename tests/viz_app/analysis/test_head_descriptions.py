from __future__ import annotations

import pytest

from model.interface import Kind
from viz_app.analysis.head_descriptions import MEASURE_DESCRIPTIONS, describe_head, describe_value
from viz_app.records.measures import MEASURES

NAN = float("nan")


def test_every_measure_is_described() -> None:
    assert set(MEASURE_DESCRIPTIONS) == set(MEASURES)
    assert [name for name in MEASURES if MEASURE_DESCRIPTIONS[name].signed] == ["cost"]
    for name in MEASURES:
        assert "0.25" in describe_value(name, "cross", 0.25)
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
            "rests on punctuation: 0.60 of its weight, in rows that can look at any",
        ),
        ("entropy", "cross", 0.96, "spread almost evenly: 0.96 of the largest possible entropy"),
        ("entropy", "cross", 0.79, "spread: 0.79 of the largest possible entropy"),
        ("confidence", "cross", 0.8, "picks one token: 0.80 on average"),
        ("confidence", "cross", 0.79, "largest weight of a row: 0.79 on average"),
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


def shorter(values: dict[str, float], kind: Kind = "cross") -> list[str]:
    return [said.partition(":")[0] for said in describe_head(values, kind)]


def test_describe_head_names_large_shares_first() -> None:
    everything = {"previous": 0.4, "end": 0.5, "same": 0.39, "entropy": 0.3, "confidence": 0.9}
    everything |= {"cost": 0.06, "distance": 0.3, "next": NAN}
    assert shorter(everything, "encoder_self") == [
        "rests on </s>",  # the larger share first
        "looks at the previous token",
        "matters",
        "far from what it is at the last checkpoint",
    ]


def test_describe_head_names_what_just_reaches_its_bound() -> None:
    assert shorter({"aer_predicted": 0.5, "entropy": 0.2}) == ["follows the word alignment"]


def test_describe_head_gives_the_better_alignment_if_good() -> None:
    values = {"aer_predicted": 0.45, "aer_consumed": 0.3, "entropy": 0.5, "cost": 0.01}
    assert describe_head(values, "cross") == [
        "follows the word alignment: error rate 0.30 by consumed",
        "switching it off costs 0.010 nats per token",
    ]
    assert shorter(values | {"aer_predicted": 0.6, "aer_consumed": 0.7}) == [
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
