from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import cast

import numpy as np

from headwise.model.interface import Head, Kind
from headwise.viz_app.analysis.attention import MapFacts, map_facts, most_on_punctuation
from headwise.viz_app.records.trace import Tokens
from tests.floats import near

MakeTokens = Callable[..., Tokens]


def test_facts_of_a_causal_map_by_hand(make_tokens: MakeTokens) -> None:
    """The first row, which has only one key, does not count."""
    keys = make_tokens(["<s>"], [" so"], [","])
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.0, 0.75]], np.float32)
    facts = cast(MapFacts, map_facts(weights, keys, allowed=np.tri(3, dtype=bool), own_keys=True))
    assert (facts.largest, facts.row, facts.column) == (0.75, 2, 2)
    assert facts.special == near((0.5 + 0.25) / 2)
    assert facts.punctuation == near((0 + 0.75) / 2)
    assert facts.itself == near((0.5 + 0.75) / 2)
    assert facts.even_weight == near((1 / 2 + 1 / 3) / 2)
    last = -(0.25 * log(0.25) + 0.75 * log(0.75)) / log(3)
    assert facts.evenness == near((1 + last) / 2)


def test_an_even_map_without_punctuation_across(make_tokens: MakeTokens) -> None:
    keys = make_tokens([" a"], [" b"], [" c"], [" d"], ["</s>"])
    weights = np.full((2, 5), 0.2, np.float32)
    facts = cast(MapFacts, map_facts(weights, keys, allowed=None, own_keys=False))
    assert facts.evenness == near(1, dtype=np.float32)
    assert facts.special == near(0.2, dtype=np.float32)
    assert facts.even_weight == near(0.2)
    assert facts.punctuation is None
    assert facts.itself is None


def test_a_map_of_a_single_key_has_no_facts(make_tokens: MakeTokens) -> None:
    ones = np.ones((2, 1), np.float32)
    assert map_facts(ones, make_tokens(["</s>"]), allowed=None, own_keys=False) is None


def test_a_single_key_that_is_punctuation_is_no_choice(make_tokens: MakeTokens) -> None:
    ones = np.ones((1, 1, 2, 1), np.float32)
    assert most_on_punctuation({"cross": ones}, lambda _: make_tokens(["."])) is None


def test_the_head_that_rests_most_on_punctuation_by_hand(make_tokens: MakeTokens) -> None:
    """Rows in which the mask forbids the comma count as 0; the row with a single key does not."""
    keys: dict[Kind, Tokens] = {
        "cross": make_tokens([" a"], ["."], ["</s>"]),
        "decoder_self": make_tokens(["<s>"], [" a"], [","]),
    }
    cross = np.array([[[[0.5, 0.25, 0.25], [0, 0, 1]], [[0, 0.5, 0.5], [0.5, 0.25, 0.25]]]])
    own = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.1, 0.8]]]])
    attention: dict[Kind, np.ndarray] = {"cross": cross, "decoder_self": own}
    assert most_on_punctuation(attention, keys.__getitem__) == (Head("decoder_self", 0, 0), 0.4)
    assert most_on_punctuation({"cross": cross}, keys.__getitem__) == (Head("cross", 0, 1), 0.375)
    assert (
        most_on_punctuation({"cross": cross}, lambda _: make_tokens([" a"], [" b"], ["</s>"]))
        is None
    )
