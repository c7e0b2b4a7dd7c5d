"""Sinks of planted heads are named right; what is lost without keys is that of other edits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.hooks import capture, edit
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.viz_app.records.trace import Tokens
from headwise.viz_app.translate.sinks.found import (
    SAME,
    Sink,
    SinkEffects,
    Unread,
    costs_of_unread,
    find_sinks,
    rest_without_content,
    sink_effects,
    stable_rank,
)
from tests.floats import PASS, near
from tests.model.pretrained.tiny import build
from tests.planted import IDLE, MIXED, SINK, sink_model
from tests.planted import SAME as BROADCASTS
from tests.tiny import tiny_model

SOURCE, TARGET = (4, 7, SINK, 5, EOS), (BOS, 12, 7, 33, EOS)


def tokens_of(ids: tuple[int, ...], texts: tuple[str, ...] = ()) -> Tokens:
    return Tokens(ids, texts or tuple(f" w{id}" for id in ids), ())


@pytest.fixture(scope="module")
def trace() -> Any:
    model = sink_model()
    path = "encoder.layers.0.self_attention"
    names = [f"{path}.{point}" for point in ("weights", "value")]
    with torch.inference_mode(), capture(model, names) as seen:
        model.encode(torch.tensor([SOURCE]))
    weights, values = (seen[name][0][0].numpy()[None] for name in names)  # (1, H, ·, ·)
    projection = model.get_parameter(f"{path}.output_projection.weight").detach().numpy()
    heads = zip(values[0], np.split(projection, 3, axis=1), strict=True)  # (M, K), (D, K) each
    norms = np.stack([np.linalg.norm(value @ w.T, axis=-1) for value, w in heads])[None]
    source = tokens_of(SOURCE)
    return SimpleNamespace(
        model=model,
        attention={"encoder_self": weights},
        value_norms={"encoder_self": norms},
        values={"encoder_self": values},
        source=source,
        target_ids=TARGET,
        keys_of=lambda kind: source,
    )


def test_planted_heads_are_named_right(trace: Any) -> None:
    idle, same = sink_effects(trace.model, trace, "encoder_self")
    sinks = [idle.sink, same.sink]
    assert sinks == find_sinks(trace, "encoder_self")
    assert [sink.head for sink in sinks] == [Head("encoder_self", 0, n) for n in (IDLE, BROADCASTS)]
    assert [sink.keys for sink in sinks] == [(SOURCE.index(SINK),)] * 2
    assert all(sink.share > 0.9 and sink.even == near(0.2) for sink in sinks)
    assert sinks[0].norm < 1e-9 < sinks[0].norm_elsewhere
    assert sinks[1].norm > 1 > 1e-9 > sinks[1].norm_elsewhere
    assert idle.role(len(TARGET) - 1) == "does nothing there"
    assert same.role(len(TARGET) - 1) == "brings one direction everywhere"
    assert idle.removed != near(0.0)
    assert abs(idle.values_zero) < 1e-9
    assert same.rank == near(1.0)
    assert same.elsewhere_zero == near(0.0, size=10.0, operations=1024)
    assert abs(same.values_zero) > 0.02


def test_a_head_without_a_sink_has_its_weight_elsewhere(trace: Any) -> None:
    assert rest_without_content(trace, Head("encoder_self", 0, MIXED)) is None


def one_map(rows: list[list[float]], texts: tuple[str, ...]) -> Any:
    """A trace with one head of cross-attention."""
    source = tokens_of((*range(10, 9 + len(texts)), EOS), texts)
    weights = np.array([[rows]], np.float32)
    norms = np.arange(1.0, 1 + len(texts))[None, None]
    return SimpleNamespace(
        attention={"cross": weights}, value_norms={"cross": norms}, keys_of=lambda kind: source
    )


def test_special_tokens_and_punctuation_are_a_sink_together() -> None:
    texts = (" He", " came", ".", "</s>")
    [sink] = find_sinks(one_map([[0.1, 0.1, 0.4, 0.4], [0.0, 0.1, 0.5, 0.4]], texts), "cross")
    assert sink.keys == (2, 3)
    assert (sink.share, sink.even) == near((0.85, 0.5), dtype=np.float32)
    assert (sink.norm, sink.norm_elsewhere) == (3.5, 1.5)
    assert sink.named(tokens_of((10, 11, 12, EOS), texts)) == "·.  ·</s>"


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([[0.1, 0.2, 0.35, 0.35]], (" He", " came", ".", "</s>")),  # 0.7 is nearer to 0.5
        ([[0.62, 0.38]], (" He", "</s>")),
        ([[0.5, 0.5]], ("!", "</s>")),  # all there is
    ],
)
def test_what_is_nearer_to_even_is_no_sink(rows: list[list[float]], texts: tuple[str, ...]) -> None:
    assert find_sinks(one_map(rows, texts), "cross") == []


@pytest.mark.parametrize(
    ("row", "rest"),
    [([0.2, 0.16, 0.64], None), ([0.2, 0.14, 0.66], None), ([0.2, 0.1, 0.7], (0.7, 1 / 3))],
)
def test_weight_on_tokens_without_content_is_said_only_of_a_head_with_a_sink(
    row: list[float], rest: tuple[float, float] | None
) -> None:
    """Of one in three tokens more than 2 / 3: less is nearer to 1 / 3 than to all of it."""
    trace = one_map([row, row], (" He", " came", "</s>"))
    found = rest_without_content(trace, Head("cross", 0, 0))
    assert found == (None if rest is None else near(rest, dtype=np.float32))
    assert [sink.share for sink in find_sinks(trace, "cross")] == near(
        [] if rest is None else [rest[0]], dtype=np.float32
    )


@pytest.mark.parametrize(
    ("values_zero", "rank", "expected"),
    [
        (-0.04, 1.0, "does nothing there"),
        (0.06, SAME - 0.01, "brings one direction everywhere"),
        (-0.06, SAME + 0.01, "brings something from there"),
        (0.06, float("nan"), "brings something from there"),
    ],
)
def test_a_head_s_role_is_by_cost_and_rank(values_zero: float, rank: float, expected: str) -> None:
    sink = Sink(Head("cross", 0, 0), (0,), 0.9, 0.1, 1.0, 1.0)
    assert SinkEffects(sink, values_zero, 0.0, 0.0, rank, 1.0).role(10) == expected


def test_stable_rank_by_hand() -> None:
    assert stable_rank(np.diag([2.0, 1.0, 1.0])) == near(1.5)
    assert stable_rank(np.outer([1.0, 2.0], [3.0, 1.0])) == near(1.0)
    assert np.isnan(stable_rank(np.zeros((2, 3))))


# What a target loses when a head does not read some keys


ASKED, FORCED = [5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]
KEYS: dict[Kind, tuple[int, ...]] = {"encoder_self": (5,), "decoder_self": (0,), "cross": (3, 5)}


@pytest.fixture(scope="module", params=["pre", "post", "t5"])
def ours(request: pytest.FixtureRequest) -> Any:
    name = request.param
    if name == "t5":
        return build(name, dtype=torch.float64).ours
    return tiny_model(norm=name, final_norm=name == "pre").double()


@torch.inference_mode()
def log_probability(ours: Any) -> float:
    memory, mask = ours.encode(torch.tensor([ASKED]))
    stream = ours.decode(torch.tensor([FORCED[:-1]]), memory, mask)
    scores = ours.unembed(stream)[0].log_softmax(dim=-1)
    return float(scores[range(len(FORCED) - 1), FORCED[1:]].sum())


def lost_under(ours: Any, head: Head, point: str, value: float) -> float:
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

    whole = log_probability(ours)
    with edit(ours, {f"{attention_path(head.kind, head.layer)}.{point}": fill}):
        return whole - log_probability(ours)


def test_costs_are_those_of_other_ways_to_the_same(ours: Any) -> None:
    """Zero values at the keys; scores without end below the others, but for a row with no other."""
    heads = [
        Head(kind, layer, 1)
        for kind in reversed(KINDS)
        for layer in range(ours.description.layers(kind))
    ]
    asked = [Unread(head, KEYS[head.kind], removed) for head in heads for removed in (False, True)]
    expected = [
        lost_under(ours, head, *(("scores", -torch.inf) if removed else ("value", 0.0)))
        for head, _, removed in asked
    ]
    assert all(abs(cost) > 1e-6 for cost in expected)
    size = abs(log_probability(ours))
    done: list[int] = []
    found = costs_of_unread(ours, ASKED, FORCED, asked, note_done=done.append)
    assert found.tolist() == near(expected, size=size, operations=PASS)
    assert done[-1] == len(asked)


def test_what_is_known_is_not_computed_again(ours: Any) -> None:
    asked = [Unread(Head("cross", 0, head), (0,)) for head in range(2)]
    known = {0: 123.0}
    found = costs_of_unread(ours, ASKED, FORCED, asked, known=known)
    assert found[0] == known[0] == 123
    assert (
        known[1]
        == found[1]
        == near(
            float(costs_of_unread(ours, ASKED, FORCED, asked[1:])),
            size=abs(log_probability(ours)),
            operations=PASS,
        )
    )


@pytest.mark.parametrize("key", [-1, len(ASKED)])
def test_a_key_that_is_not_there_is_refused(ours: Any, key: int) -> None:
    with pytest.raises(ValueError, match=f"keys: expected 0 to {len(ASKED) - 1}, got"):
        costs_of_unread(ours, ASKED, FORCED, [Unread(Head("cross", 0, 0), (0, key))])
