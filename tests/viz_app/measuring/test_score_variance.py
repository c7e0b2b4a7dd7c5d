"""What explains the scores of heads: sums over a batch are those of scores taken apart one by one.

``score_parts`` takes a row apart in float64, for one sentence; its own test has it from NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.config import BOS, EOS
from headwise.model.interface import KINDS, Head, Kind, Seq2SeqModel
from headwise.model.turned import AS_IT_IS
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.measuring.score_variance import score_variance
from headwise.viz_app.records.trace import Tokens
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import MAKES, build
from tests.planted import EQUAL, PREVIOUS, planted_model
from tests.viz_app.core.test_circuits import OURS, tiny_preset

PAIRS = [([5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]), ([5, 5, EOS], [BOS, 9, 8, 7, 6, 5, EOS])]
"""Ids of different lengths, so that a batch has padding on both sides."""


@pytest.fixture(scope="module", params=[*OURS, *MAKES])
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model in float64 of every preset's make, and of every family's."""
    name = request.param
    ours = tiny_preset(name) if name in OURS else build(name, dtype=torch.float64).ours
    return ours.double()


def rows_of(model: Seq2SeqModel, head: Head, pair: tuple[list[int], list[int]]) -> Iterator[Any]:
    """Take all rows of a head apart that may look at several keys."""
    source, consumed = (Tokens(tuple(ids), ("",) * len(ids), ()) for ids in (pair[0], pair[1][:-1]))
    trace: Any = SimpleNamespace(source=source, consumed=consumed, turned=AS_IT_IS)
    rows = len(source if head.kind == "encoder_self" else consumed)
    first = 1 if head.kind == "decoder_self" else 0
    for row in range(first, rows):
        yield score_parts(model, trace, head, row)


def covariances(row: ScoreParts) -> dict[str, float]:
    """What NumPy says of one row: the covariance of each term with the scores, over the keys."""
    names, tables = ([*row.query_parts], [*row.key_parts]), row.tables()

    def term(query: str, key: str) -> Any:
        return tables[names[0].index(query), names[1].index(key)]

    terms = {"by_token": term("token", "token"), "variance": row.scores}
    if "position" in row.query_parts:
        terms["by_position"] = term("position", "position")
        terms["by_both"] = term("token", "position") + term("position", "token")
    if row.relative is not None:
        terms["by_position"] = terms.get("by_position", 0.0) + row.relative
    return {name: float(np.cov(of, row.scores, bias=True)[0, 1]) for name, of in terms.items()}


def test_sums_are_those_of_rows_taken_apart(model: Any) -> None:
    found = score_variance(model, PaddedIds.of(*map(list, zip(*PAIRS, strict=True)), model))
    for kind, place in product(KINDS, range(len(PAIRS))):
        head = Head(kind, 1, 1)  # a layer with all that is written and normed before it
        column = model.description.heads(kind) + 1
        rows = [covariances(row) for row in rows_of(model, head, PAIRS[place])]
        assert {name for name, of in found if of == kind} == {*rows[0]} - {"variance"}
        for name in {*rows[0]} - {"variance"}:
            sums = found[name, kind]
            for got, of in ((sums.total, name), (sums.count, "variance")):
                expected = sum(row[of] for row in rows)
                largest = sum(abs(row["variance"]) + abs(row[of]) for row in rows)
                assert_near(got[place, column].numpy(), expected, size=largest, operations=PASS)


def shares(model: Seq2SeqModel, pairs: list[Any], kind: Kind) -> dict[str, np.ndarray]:
    """The share of each measure over some pairs of ids, (L H,)."""
    ids = PaddedIds.of(*map(list, zip(*pairs, strict=True)), model)
    return {
        name: (sums.total.sum(dim=0) / sums.count.sum(dim=0)).numpy()
        for (name, of), sums in score_variance(model, ids).items()
        if of == kind
    }


def test_planted_heads_are_by_their_one_part() -> None:
    pairs = [([5, 9, 5, 7, 9, EOS], [BOS, EOS]), ([4, 4, EOS], [BOS, EOS])]
    found = shares(planted_model(), pairs, "encoder_self")
    for name, head in (("by_position", PREVIOUS), ("by_token", EQUAL)):
        assert found[name][head] == pytest.approx(1, abs=1e-9)
        for other in {*found} - {name}:
            assert found[other][head] == pytest.approx(0, abs=1e-9)
