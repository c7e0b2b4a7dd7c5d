"""Scores of composition, and paths through heads, beside passes with their vectors edited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.hooks import capture, edit
from headwise.model.interface import Head, attention_path, head_name
from headwise.viz_app.core.circuits import score_parts
from headwise.viz_app.heads.composition import paths
from headwise.viz_app.heads.composition.paths import PathEffects, map_distances
from headwise.viz_app.heads.composition.scores import Composition, Edge, composition
from headwise.viz_app.records.trace import Doubles
from tests.floats import PASS, near
from tests.model.pretrained.tiny import MAKES, build
from tests.viz_app.core import test_circuits
from tests.viz_app.core.test_circuits import CONSUMED, SOURCE, array, tiny_preset, trace_like


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


def test_edges_are_counted_on_both_sides_of_random_matrices() -> None:
    """Of 740 edges with a standard deviation of 0.01, one would be beyond 0.03 by chance."""
    ends, error = np.zeros(740, np.int64), np.full(740, 0.01, np.float32)
    heads = (Head("cross", 0, 0), Head("cross", 1, 0))
    for above, below, fair in ((30, 20, False), (30, 9, True), (0, 90, True)):
        score = np.full(740, 0.02, np.float32)
        score[:above], score[above : above + below] = 0.04, -0.04
        found = Composition(heads, ends, ends + 1, ends, score, error, error)
        assert found.said == (
            f"Of 740 edges {above} lie above random matrices, {below} below (by chance 1 each)"
        )
        assert ("no fair baseline" not in found.against_random) == fair


model = test_circuits.model

PATHS = [
    (Head("encoder_self", 0, 1), Head("encoder_self", 1, 0), {"query", "key"}, True),
    (Head("encoder_self", 1, 0), Head("cross", 0, 1), {"key"}, True),
    (Head("cross", 0, 1), Head("decoder_self", 1, 1), {"query", "key"}, True),
    (Head("decoder_self", 1, 0), Head("cross", 1, 1), {"query"}, False),
]


@pytest.mark.parametrize(("earlier", "later", "roles", "by_value"), PATHS)
def test_a_path_is_that_of_a_pass_with_its_vectors_edited(
    model: Any, earlier: Head, later: Head, roles: set[str], by_value: bool
) -> None:
    """The queries or keys of the later head are edited at its hook points, less their part."""
    if model.description.merged_attention and earlier.kind == "decoder_self":
        with pytest.raises(ValueError, match="expected a head that reads"):
            paths.path(model, trace_like(), earlier, later)
        return  # the two are halves of one attention
    found = paths.path(model, trace_like(), earlier, later)
    assert {*found.maps} == roles
    assert (found.change_value is not None) == by_value
    path = attention_path(later.kind, later.layer)
    for role in roles:
        parts = []
        for row in range(len(found.weights)) if role == "query" else [len(found.weights) - 1]:
            one = score_parts(model, trace_like(), later, row)
            parts.append(getattr(one, f"{role}_parts")[head_name(earlier)])
        part = torch.tensor(np.stack(parts) if role == "query" else parts[0])

        def without(vectors: Tensor, part: Tensor = part) -> Tensor:
            made = vectors.clone()
            made[0, later.head] -= part
            return made

        point = f"{path}.weights"
        edits = {f"{path}.{role}": without}
        with torch.inference_mode(), edit(model, edits), capture(model, [point]) as seen:
            model.decode(torch.tensor([CONSUMED]), *model.encode(torch.tensor([SOURCE])))
        expected = array(seen[point][0][0, later.head])
        assert np.abs(found.maps[role][earlier.head] - expected).max() < 1e-9  # type: ignore[index]


def test_a_planted_path_carries_what_its_reader_looks_at() -> None:
    """A head whose keys read what one head writes loses more by it than by the others."""
    model: Any = tiny_preset("default").double()
    with torch.no_grad():
        attention = model.encoder.layers[1].self_attention
        rows = model.encoder.layers[0].self_attention.output_projection.weight[:, :5]
        attention.key_projection.weight[:5] = 5 * rows.T
    found = paths.path(model, trace_like(), Head("encoder_self", 0, 0), Head("encoder_self", 1, 0))
    moved = map_distances(found.weights, found.maps["key"])
    assert moved[0] > 1.3 * moved[1:].max()
    with pytest.raises(ValueError, match=r"reads what cross\.2\.1 wrote, got decoder_self\.1\.1"):
        paths.path(model, trace_like(), Head("cross", 1, 0), Head("decoder_self", 0, 0))


def test_maps_move_by_the_distance_of_their_rows() -> None:
    """The first row may look at one key only; of two others one stays, one has none in common."""
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]])
    others = np.array([weights, [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1.0]]])
    assert map_distances(weights, others).tolist() == pytest.approx([0, 0.5])
    assert np.isnan(map_distances(np.eye(2), np.eye(2)[None])).all()
    found = PathEffects(
        earlier=Head("cross", 0, 1),
        later=Head("decoder_self", 1, 0),
        without=np.array(["cross.1.1", "cross.1.2"]),
        distances={"key": map_distances(weights, others)},
        change_value=None,
        weights=weights,
        maps={"key": others},
    )
    said = "Without it in the keys, rows of the map move by 0.500 (0.000 without another head of "
    assert found.said == said + "that layer)."
