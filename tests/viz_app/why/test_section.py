"""What the section *this word* says, on parts written by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from headwise.viz_app.records.trace import Tokens, Trace, Word
from headwise.viz_app.why.word.section.neurons import activation_said
from headwise.viz_app.why.word.section.this_word import say_largest
from tests.viz_app.why.test_bars import account

SOURCE = Tokens((5, 6), (" uno", " dos"), (Word("uno", 0, 1), Word("dos", 1, 2)))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([700.0, 500.0], "most of it by “uno” (+700.000)"),
        ([600.0, 600.0], "the largest part of it by “uno” (+600.000)"),
        ([1500.0, -300.0], "most by “uno” (+1500.000), of which others take back 300.000"),
    ],
)
def test_most_of_a_head_is_more_than_half_of_it_and_no_more_than_all(
    cells: list[float], said: str
) -> None:
    made, trace = account(), cast(Trace, SimpleNamespace(source=SOURCE, consumed=SOURCE))
    cross = made.parts.heads["cross"].copy()
    cross[1, 0] = cells
    parts = replace(made.parts, heads={**made.parts.heads, "cross": cross})
    told = say_largest(trace, replace(made, parts=parts), "**x**")
    assert told == f"Most for **x** of all parts: Cross 2.1, +1200.000, {said}."


@pytest.mark.parametrize(("sign", "way"), [(1, "for"), (-1, "against")])
def test_no_head_is_named_where_none_speaks_that_way(sign: int, way: str) -> None:
    made, trace = account(), cast(Trace, SimpleNamespace(source=SOURCE, consumed=SOURCE))
    heads = {kind: -sign * np.abs(cells) for kind, cells in made.parts.heads.items()}
    parts = replace(made.parts, heads=heads, biases=np.array(sign * 1024.0))
    told = say_largest(trace, replace(made, parts=parts, difference=sign * 1.0), "**x**")
    assert told == (
        f"Most {way} **x** of all parts: Biases, {sign * 1024:+.3f}. No head speaks {way} it."
    )


@pytest.mark.parametrize(
    ("activation", "said"),
    [
        (0.0, "It is off here"),
        (0.5, "+0.5."),
        (-0.25, "does the opposite"),
        (-1.9e-8, "as good as off here: its activation is -2e-08."),  # GELU of -5.80
    ],
)
def test_a_neuron_that_is_off_is_said_to_be(activation: float, said: str) -> None:
    assert said in activation_said(activation)
