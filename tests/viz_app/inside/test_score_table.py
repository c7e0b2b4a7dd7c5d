"""The table of a score is grouped by layer, and its largest terms are said in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwise.viz_app.core.circuits import ScoreParts
from headwise.viz_app.inside.scores.section import (
    ScoreTable,
    layers_of,
    score_sentence,
    score_table,
    word_or_place,
)
from tests.floats import near

NAMES = ("token", "encoder_self.1.1", "encoder_self.1.2", "feed_forward.1", "biases")


def parts(
    query: list[float], keys: list[list[float]], relative: list[float] | None = None
) -> ScoreParts:
    """Parts of one number each: of the query by part, of the keys by part and key; scale 2."""
    return ScoreParts(
        query_parts={name: np.array([value]) for name, value in zip(NAMES, query, strict=True)},
        key_parts={name: np.array(of)[:, None] for name, of in zip(NAMES, keys, strict=True)},
        scale=2.0,
        relative=None if relative is None else np.array(relative),
        scores=np.zeros(2),
    )


QUERY = [1.0, 2.0, -1.0, 3.0, 0.5]
KEYS = [[1.0, 3.0], [1.0, 1.0], [0.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
"""By part and key."""


def test_parts_of_a_layer_are_summed_until_it_is_unfolded() -> None:
    found = score_table(parts(QUERY, KEYS), 1, query_layer=1)
    assert found.rows == NAMES
    assert found.columns == ("token", "layer.1", "biases")
    # 2 · query part · (3, 1 + 2 + 0, 1)
    assert found.cells.tolist() == [[6, 6, 2], [12, 12, 4], [-6, -6, -2], [18, 18, 6], [3, 3, 1]]
    folded = score_table(parts(QUERY, KEYS), 1)
    assert folded.rows == folded.columns
    assert folded.cells.tolist() == [[6, 6, 2], [24, 24, 8], [3, 3, 1]]
    assert folded.total == found.total == 77
    assert found.limit == folded.limit == 24
    assert layers_of(parts(QUERY, KEYS).query_parts) == 1


def test_against_the_mean_key_what_all_keys_share_is_nothing() -> None:
    found = score_table(parts(QUERY, KEYS, [4.0, 1.0]), 0, against_mean=True)
    # keys of token: 1 less their mean 2; of layer 1: 1 less 2; of biases: 1 less 1
    assert found.cells.tolist() == [[-2, -2, 0], [-8, -8, 0], [-1, -1, 0]]
    assert found.relative == 1.5
    assert found.total == near(-20.5)
    alone = score_table(parts(QUERY, [values[:1] for values in KEYS]), 0, against_mean=True)
    said = "The score less the row's mean is 0, and so is each of its terms."
    assert score_sentence(alone) == said  # of a key that is the only one
    with pytest.raises(ValueError, match="key: expected 0 to 1, got 2"):
        score_table(parts(QUERY, KEYS), 2)


def test_what_the_encoder_wrote_into_a_key_is_told_from_the_decoder() -> None:
    of_keys = parts(QUERY, KEYS)
    query = {name.replace("encoder", "decoder"): of for name, of in of_keys.query_parts.items()}
    terms = [*score_table(replace(of_keys, query_parts=query), 1).terms()]
    assert "layer 1 × encoder layer 1" in terms


def test_the_largest_terms_are_named_with_their_share() -> None:
    told = score_sentence(score_table(parts(QUERY, KEYS), 1))
    assert told == (
        "The score is +77.00: +24.00 (0.31 of it) is layer 1 × token, +24.00 (0.31 of it) is "
        "layer 1 × layer 1, +8.00 (0.10 of it) is layer 1 × biases, and +21.00 the other 6 "
        "together."
    )
    told = score_sentence(score_table(parts([0] * 5, KEYS, [4.0, 1.0]), 0, against_mean=True))
    assert told.startswith(
        "The score less the row's mean is +1.50: +1.50 (1.00 of it) is relative position, "
    )


def test_terms_are_summed_by_word_or_place() -> None:
    """Of the nine cells above; nothing is said of what is 0."""
    told = word_or_place(score_table(parts(QUERY, KEYS), 1))
    assert told == "By word or place: token × token +6.00, with what layers wrote +54.00, " + (
        "with biases +17.00."
    )
    names, cells = ("token", "position"), np.array([[3.0, 2.0], [0.5, 1.0]])
    assert word_or_place(ScoreTable(False, names, names, cells, None, "", 3.0)) == (
        "By word or place: token × token +3.00, position × position +1.00, token × position +2.50."
    )


def test_terms_that_cancel_have_no_share() -> None:
    told = score_sentence(score_table(parts([1, 0, 0, 0, -0.9], KEYS), 0))
    # 2 · (1, −0.9) · (1, 1, 1): ±2 and ±1.8 three times each
    assert told == (
        "The score is +0.60: +2.00 is token × token, +2.00 is token × layer 1, +2.00 is "
        "token × biases, and -5.40 the other 6 together. Terms cancel: their magnitudes sum to "
        "11.40, so that none has a share of the score."
    )
