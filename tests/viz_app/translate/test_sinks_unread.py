"""What a target loses when a head does not read some keys: two ways, against other edits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.hooks import edit
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.viz_app.translate.sinks.found import Unread, costs_of_unread
from tests.floats import PASS, near
from tests.model.pretrained.tiny import build
from tests.tiny import tiny_model

SOURCE, TARGET = [5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]
KEYS: dict[Kind, tuple[int, ...]] = {"encoder_self": (5,), "decoder_self": (0,), "cross": (3, 5)}


@pytest.fixture(scope="module", params=["pre", "post", "t5"])
def model(request: pytest.FixtureRequest) -> Any:
    name = request.param
    if name == "t5":
        return build(name, dtype=torch.float64).ours
    return tiny_model(norm=name, final_norm=name == "pre").double()


@torch.inference_mode()
def log_probability(model: Any) -> float:
    memory, mask = model.encode(torch.tensor([SOURCE]))
    stream = model.decode(torch.tensor([TARGET[:-1]]), memory, mask)
    scores = model.unembed(stream)[0].log_softmax(dim=-1)
    return float(scores[range(len(TARGET) - 1), TARGET[1:]].sum())


def lost_under(model: Any, head: Head, point: str, value: float) -> float:
    """What the target loses if a head's scores or values at its keys are all of one value."""

    def fill(x: Tensor) -> Tensor:  # scores (B, H, Q, M), or values (B, H, M, K)
        x = x.clone()
        where = x[:, head.head]
        if point == "scores":
            several = range(1, where.shape[-2]) if head.kind == "decoder_self" else slice(None)
            for key in KEYS[head.kind]:
                where[:, several, key] = value
        else:
            where[:, list(KEYS[head.kind])] = value
        return x

    whole = log_probability(model)
    with edit(model, {f"{attention_path(head.kind, head.layer)}.{point}": fill}):
        return whole - log_probability(model)


def test_costs_are_those_of_other_ways_to_the_same(model: Any) -> None:
    """Zero values at the keys; scores without end below the others, but for a row with no other."""
    heads = [
        Head(kind, layer, 1)
        for kind in reversed(KINDS)
        for layer in range(model.description.layers(kind))
    ]
    asked = [Unread(head, KEYS[head.kind], removed) for head in heads for removed in (False, True)]
    expected = [
        lost_under(model, head, *(("scores", -torch.inf) if removed else ("value", 0.0)))
        for head, _, removed in asked
    ]
    assert all(abs(cost) > 1e-6 for cost in expected)
    size = abs(log_probability(model))
    done: list[int] = []
    found = costs_of_unread(model, SOURCE, TARGET, asked, note_done=done.append)
    assert found.tolist() == near(expected, size=size, operations=PASS)
    assert done[-1] == len(asked)


def test_what_is_known_is_not_computed_again(model: Any) -> None:
    asked = [Unread(Head("cross", 0, head), (0,)) for head in range(2)]
    known = {0: 123.0}
    found = costs_of_unread(model, SOURCE, TARGET, asked, known=known)
    assert found[0] == known[0] == 123
    assert (
        known[1]
        == found[1]
        == near(
            float(costs_of_unread(model, SOURCE, TARGET, asked[1:])),
            size=abs(log_probability(model)),
            operations=PASS,
        )
    )


@pytest.mark.parametrize("key", [-1, len(SOURCE)])
def test_a_key_that_is_not_there_is_refused(model: Any, key: int) -> None:
    with pytest.raises(ValueError, match=f"keys: expected 0 to {len(SOURCE) - 1}, got"):
        costs_of_unread(model, SOURCE, TARGET, [Unread(Head("cross", 0, 0), (0, key))])
