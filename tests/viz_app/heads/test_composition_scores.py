"""Composition of heads: norms as NumPy has them, chance by random matrices, and planted edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.interface import Head, attention_path
from headwise.viz_app.heads.composition.scores import Composition, Edge, composition
from headwise.viz_app.records.trace import Doubles
from tests.floats import PASS, near
from tests.model.pretrained.tiny import MAKES, build
from tests.viz_app.core.test_circuits import array, tiny_preset


def all_edges(found: Composition) -> dict[tuple[Head, Head, str], Edge]:
    edges = [found.edge(place) for place in range(len(found.score))]
    return {(edge.earlier, edge.later, edge.role): edge for edge in edges}


def read_by(model: Any, head: Head, role: str, norm: Any) -> Doubles:
    """The columns of a projection, (D, K), with the norm's gain and centring before it."""
    weight = array(model.linear(f"{attention_path(*head[:2])}.{role}_projection").weight)
    columns = weight[:, head.head * 5 : head.head * 5 + 5]
    if norm is None:
        return columns
    width = len(columns)
    return (np.eye(width) - 1 / width) @ (array(norm.gain)[:, None] * columns)


def written_by(model: Any, head: Head, norm: Any) -> Doubles:
    """The rows of the output projection, (K, D), with centring and gain of the norm behind it."""
    path = attention_path(*head[:2])
    rows = array(model.linear(f"{path}.output_projection").weight)
    rows = rows[head.head * 5 : head.head * 5 + 5]
    if norm is None:
        return rows
    width = rows.shape[1]
    return rows @ (np.eye(width) - 1 / width) * array(norm.gain)


def random_of(spectrum: Doubles, width: int, draw: np.random.Generator) -> Doubles:
    """A matrix (K, D) of these singular values, its singular vectors drawn evenly."""
    left, right = (
        np.linalg.qr(draw.standard_normal((size, len(spectrum))))[0]
        for size in (len(spectrum), width)
    )
    return (left * spectrum) @ right.T


@pytest.mark.parametrize("preset", ["default", "books-small"])
def test_scores_are_those_of_numpy(preset: str) -> None:
    """One preset has its norms before the reader, the other behind the writer."""
    model: Any = tiny_preset(preset).double()
    pre = preset == "default"
    edges = all_edges(composition(model))
    draw = np.random.default_rng(1)
    for earlier, later, role in (
        (Head("encoder_self", 0, 1), Head("encoder_self", 1, 2), "key"),
        (Head("encoder_self", 1, 0), Head("cross", 0, 1), "value"),
        (Head("cross", 0, 2), Head("decoder_self", 1, 0), "query"),
    ):
        last = model.final_norm("source")
        before = last if later.kind == "cross" else model.norm(attention_path(*later[:2]))
        behind = model.norm(attention_path(*earlier[:2]))
        rows = written_by(model, earlier, None if pre else behind)
        columns = read_by(model, later, role, before if pre else None)
        norms = np.linalg.norm(rows) * np.linalg.norm(columns)
        edge = edges[earlier, later, role]
        ratio = np.linalg.norm(rows @ columns) / norms
        assert edge.score + edge.chance == near(ratio, dtype=np.float64, operations=PASS)
        spectra = [np.linalg.svd(each, compute_uv=False) for each in (rows, columns)]
        drawn = [
            np.linalg.norm(random_of(spectra[0], 14, draw) @ random_of(spectra[1], 14, draw).T)
            / norms
            for _ in range(400)
        ]
        # Means of 64 and of 400 draws are within four standard errors of each other.
        apart = np.std(drawn) * (1 / 64 + 1 / 400) ** 0.5
        assert edge.chance == pytest.approx(np.mean(drawn), abs=4 * apart)
        assert edge.error == pytest.approx(np.std(drawn), rel=0.4)


@pytest.mark.parametrize("family", MAKES)
def test_every_family_has_edges_between_what_is_written_and_read(family: str) -> None:
    model: Any = build(family).ours
    found = all_edges(composition(model))
    assert all(np.isfinite([edge.score, edge.error]).all() for edge in found.values())
    layers, heads = model.description.shapes["encoder_self"]
    of_decoder, wide = model.description.shapes["decoder_self"]
    within = layers * (layers - 1) // 2 * 3 * heads**2
    across = layers * of_decoder * 2 * heads * wide
    # Of layer l read 2 l sublayers before the self-attention, 2 l + 1 before the cross-attention.
    # Both attentions of a layer read the same where they are halves of one.
    one = not model.description.merged_attention
    decoder = sum(2 * layer * 3 + 2 * layer + one for layer in range(of_decoder)) * wide**2
    assert len(found) == within + across + decoder
    assert ((Head("decoder_self", 0, 0), Head("cross", 0, 0), "query") in found) == one
    assert (Head("cross", 0, 0), Head("cross", 0, 0), "query") not in found


def test_a_planted_edge_is_the_strongest() -> None:
    """A later head reads, for its queries, the very directions that an earlier one writes."""
    model: Any = tiny_preset("copy").double()
    writer, reader = Head("decoder_self", 0, 2), Head("cross", 1, 1)
    with torch.no_grad():
        rows = model.linear("decoder.layers.0.self_attention.output_projection").weight[10:15]
        queries = model.decoder.layers[1].cross_attention.query_projection.weight
        queries[5:10] = rows
    [strongest, *_] = composition(model).strongest(3)
    assert (strongest.earlier, strongest.later, strongest.role) == (writer, reader, "query")
    assert strongest.stands_out


@pytest.mark.parametrize(
    ("scores", "above", "below", "fair"),
    [
        ([0.04] * 30 + [-0.04] * 20 + [0.02] * 690, 30, 20, False),
        ([0.04] * 30 + [-0.04] * 9 + [0.02] * 701, 30, 9, True),
        ([-0.04] * 90 + [0.02] * 650, 0, 90, True),
    ],
)
def test_edges_are_counted_on_both_sides_of_random_matrices(
    scores: list[float], above: int, below: int, fair: bool
) -> None:
    """Of 740 edges with a standard deviation of 0.01, one would be beyond 0.03 by chance."""
    ends, score = np.zeros(740, np.int64), np.array(scores, np.float32)
    error = np.full(740, 0.01, np.float32)
    heads = (Head("cross", 0, 0), Head("cross", 1, 0))
    found = Composition(heads, ends, ends + 1, ends, score, error, error)
    assert found.said == (
        f"Of 740 edges {above} lie above random matrices, {below} below (by chance 1 each)"
    )
    assert ("no fair baseline" not in found.against_random) == fair
