from __future__ import annotations

import math

import pytest

from headwise.viz_app.analysis.measure_descriptions import STAGE_DESCRIPTIONS, describe_stage
from headwise.viz_app.records.measures import STAGES


def test_descriptions_are_of_stages_and_their_references() -> None:
    named = {*STAGE_DESCRIPTIONS} | {about.reference for about in STAGE_DESCRIPTIONS.values()}
    assert named - {None} == {*STAGES}
    names = [about.name for about in STAGE_DESCRIPTIONS.values()]
    assert len(set(names)) == len(names)
    for about in STAGE_DESCRIPTIONS.values():
        assert about.note.endswith(".")
        assert about.source.endswith(".")
        assert about.formula.count("{") == about.formula.count("}")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "language_model",
            -math.log(25),
            "log-probability as text: -3.22 nats per token, as of a choice among 25 tokens that "
            "are equally likely",
        ),
        (
            "source_contribution",
            0.624,
            "share of the source: 0.62 of a prediction, the rest is of the target so far",
        ),
        (
            "prefix_entropy",
            0.5,
            "spread over the target so far: 0.50 of the largest possible entropy",
        ),
        ("chrf", 54.26, "chrF 54.3 of 100 against the references"),
        ("reordering", 0.851, "order of the source: 0.85 of neighbouring words stay neighbours"),
    ],
)
def test_values_are_said_in_words(name: str, value: float, words: str) -> None:
    assert describe_stage(name, value) == words
    assert describe_stage(name, math.nan).endswith(": no value")


def test_every_description_has_words() -> None:
    for name in STAGE_DESCRIPTIONS:
        assert describe_stage(name, 0.5)
    with pytest.raises(ValueError, match=r"^name: expected one of .*, got 'cost'$"):
        describe_stage("cost", 1.0)
