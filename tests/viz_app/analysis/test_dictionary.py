"""What heads write, in words."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.model.interface import Head
from headwise.viz_app.analysis.dictionary import best_other, copying_sentence, precision_sentence
from headwise.viz_app.records.dictionary import WritingScores

HEAD = Head("decoder_self", 0, 1)


def scores(value: float, chance: float, error: float) -> WritingScores:
    """One layer of three heads, the second with this score; the third has none."""
    found = [np.array([[0.3, of, np.nan]], np.float32) for of in (value, chance, error)]
    return WritingScores(*found, tokens=100)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "chance", "error", "said"),
    [
        (0.97, 0.6, 0.01, "it copies what it reads"),
        (0.97, 0.96, 0.01, "it neither copies nor suppresses"),
        (0.7, 0.5, 0.01, "it neither copies nor suppresses"),
        (0.12, 0.5, 0.01, "it suppresses what it reads"),
        (0.12, 0.13, 0.1, "it neither copies nor suppresses"),
    ],
)
def test_copying_is_said_beyond_chance(
    value: float, chance: float, error: float, said: str
) -> None:
    found = copying_sentence(scores(value, chance, error), HEAD)
    assert found.startswith(said)
    assert f"{value - chance:+.2f} ± {error:.2f}" in found


def test_precision_has_its_interval_and_chance() -> None:
    found = precision_sentence(scores(0.5, 0.02, 0.05), HEAD)
    assert "for 50 of 100 source tokens, 0.50 (95% interval 0.40 to 0.60)" in found
    assert found.endswith("it would be 0.02.")
    assert best_other(scores(0.5, 0.02, 0.05), HEAD) == Head("decoder_self", 0, 0)
