"""The accuracy on pairs written, added to and read back, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS
from headwise.viz_app.measuring.pair_files import pairs_path, read_measured_pairs, write_pairs
from headwise.viz_app.records.pairs import MeasuredPairs
from tests.viz_app.pairs import made_up_pairs


def written(folder: Path, measured: MeasuredPairs, *steps: int) -> MeasuredPairs:
    write_pairs(folder, measured, steps or (0, 20))
    found = read_measured_pairs(folder)
    assert found is not None
    return found


def one(measured: MeasuredPairs, step: int, *, heads: bool) -> MeasuredPairs:
    """Leave one checkpoint, with or without its heads."""
    rest = {} if heads else {"heads_step": None, "without_heads": {}}
    return replace(measured, checkpoints={step: measured.checkpoints[step]}, **rest)


def test_pairs_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_measured_pairs(tmp_path) is None
    measured = made_up_pairs()
    measured.checkpoints[20].right[1] = -1 / 3
    found = written(tmp_path, measured)
    plain = {"checkpoints": {}, "without_heads": {}}
    assert replace(found, **plain) == replace(measured, **plain)
    for step, scores in found.checkpoints.items():
        assert (scores.step, scores.sha256) == (step, "5ha")
        np.testing.assert_allclose(scores.right, measured.checkpoints[step].right, atol=0.5e-5)
        np.testing.assert_array_equal(scores.wrong, measured.checkpoints[step].wrong)
        assert not scores.right.flags.writeable
    for kind in KINDS:
        np.testing.assert_array_equal(found.without_heads[kind], measured.without_heads[kind])


def test_other_checkpoints_of_the_same_pairs_stay(tmp_path: Path) -> None:
    measured = made_up_pairs()
    written(tmp_path, one(measured, 20, heads=True))
    found = written(tmp_path, one(made_up_pairs("new"), 0, heads=False))
    assert {step: s.sha256 for step, s in found.checkpoints.items()} == {0: "new", 20: "5ha"}
    assert found.heads_step == 20
    # The heads go with their checkpoint: when it is measured again, or is there no more.
    again = written(tmp_path, one(made_up_pairs("new"), 20, heads=False))
    assert (list(again.checkpoints), again.heads_step) == ([0, 20], None)
    assert list(written(tmp_path, one(measured, 0, heads=False), 0).checkpoints) == [0]
    other = replace(one(measured, 20, heads=True), pairs=measured.pairs[::-1])
    assert list(written(tmp_path, other).checkpoints) == [20]
    pairs_path(tmp_path).write_text("{")
    assert list(written(tmp_path, one(measured, 0, heads=False)).checkpoints) == [0]


def longer(content: dict[str, Any]) -> None:
    content["checkpoints"][0]["right"].append(-1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format_version=2), "format version 2, this program reads 1"),
        (lambda c: c.update(pairs=[]), "expected pairs and checkpoints, got 0 of 2"),
        (lambda c: c.update(checkpoints=[]), "expected pairs and checkpoints, got 4 of 0"),
        (lambda c: c["pairs"][0].pop(), r"pairs\[0\]"),
        (lambda c: c["pairs"].__setitem__(0, ["a", "b", "b", "c"]), "right and wrong are both"),
        (longer, "expected 4 log-probabilities, got 5"),
        (lambda c: c["checkpoints"].reverse(), "expected steps that rise from 0"),
        (lambda c: c["checkpoints"][0].update(step=-1), "expected steps that rise from 0"),
        (lambda c: c["checkpoints"][0].update(right=[None] * 4), "right"),
        (lambda c: c.update(heads_step=None), "heads with their step"),
        (lambda c: c.update(heads=[]), "heads with their step"),
        (lambda c: c.update(heads_step=60), "heads of step 60, which has no row"),
        (lambda c: c["heads"].pop(), "cross: expected each head of 2 layers of 3 once"),
        (lambda c: c["heads"].append(c["heads"][0]), "encoder_self: expected each head of 2"),
        (lambda c: c["heads"][-1].__setitem__(1, 10**12), "cross: expected each head"),
        (lambda c: c["heads"][0].__setitem__(1, -1), "encoder_self: expected each head"),
        (lambda c: c["heads"][0].__setitem__(3, "+++"), "expected 4 letters for each head"),
        (lambda c: c["heads"][0].__setitem__(3, "+?++"), r"should match pattern .*got '\+\?\+\+'"),
    ],
)
def test_damage_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    write_pairs(tmp_path, made_up_pairs(), (0, 20))
    path = pairs_path(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"pairs\.json: .*{message}"):
        read_measured_pairs(tmp_path)
