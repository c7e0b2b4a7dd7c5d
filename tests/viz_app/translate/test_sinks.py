"""Sinks of planted heads are named right; costs and ranks are those of other computations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.config import BOS, EOS
from headwise.model.hooks import capture
from headwise.model.interface import Head
from headwise.viz_app.records.trace import Tokens
from headwise.viz_app.translate.sinks.found import (
    SAME,
    Sink,
    SinkEffects,
    find_sinks,
    rest_without_content,
    sink_effects,
    stable_rank,
)
from tests.floats import near
from tests.planted import IDLE, MIXED, SINK, sink_model
from tests.planted import SAME as BROADCASTS

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
