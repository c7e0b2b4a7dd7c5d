"""Paths from an earlier head to a later one: as a pass with edited vectors, and in words."""

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
from tests.viz_app.core import test_circuits
from tests.viz_app.core.test_circuits import CONSUMED, SOURCE, array, tiny_preset, trace_like

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


def test_a_head_that_reads_nothing_of_another_is_refused() -> None:
    with pytest.raises(ValueError, match=r"reads what cross\.2\.1 wrote, got decoder_self\.1\.1"):
        paths.path(
            tiny_preset("copy"), trace_like(), Head("cross", 1, 0), Head("decoder_self", 0, 0)
        )


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
