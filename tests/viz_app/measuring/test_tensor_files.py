"""Records of a checkpoint in files: written, read, and refused where damaged or foreign."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import Head
from headwise.viz_app.measuring.head_measures import RESAMPLED
from headwise.viz_app.measuring.tensor_files import CheckpointRecord, Resamples
from tests.viz_app.measures import made_up_costs, made_up_means, made_up_resamples

Make = Callable[..., CheckpointRecord]


@pytest.fixture(params=[made_up_means, made_up_costs, made_up_resamples])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_records_survive_writing_and_reading(tmp_path: Path, make: Make) -> None:
    written = make()
    kept = type(written)
    assert kept.read(tmp_path, 20) is None
    written.write(tmp_path)
    read = kept.read(tmp_path, 20)
    assert read is not None
    assert (read.run, read.step, read.sha256, read.corpus) == ("tiny", 20, "5ha", written.corpus)
    expected = written.arrays()
    assert {*read.arrays()} == {*expected}
    for name, array in read.arrays().items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r'\\"step\\":20', r'\\"step\\":21', "expected format version 1 and step 20, got 1 and 21"),
        (r'format_version\\":1', r'format_version\\":2', "got 2 and 20"),
        (r'\\"sentences\\":600', r'\\"sentences\\":601', "its sha256 is not that of its content"),
        ('"F(32|16)"', r'"I\1"', "finite numbers of type float"),
        ('"cross"', '"crosz"', "expected tensors .*cross, got .*crosz"),
        ('"about"', '"abuot"', "about"),
        ("(?s)(.{250}).*", r"\1", ""),
        ("(?s)(.*).(.)", r"\1\0\2", "sha256|finite"),
    ],
)
def test_damaged_or_foreign_files_are_refused(
    tmp_path: Path, make: Make, old: str, new: str, message: str
) -> None:
    record = make()
    record.write(tmp_path)
    path = record.path(tmp_path, 20)
    content = path.read_bytes().decode("latin-1")
    changed = re.sub(old, new, content, count=1)
    assert changed != content
    path.write_bytes(changed.encode("latin-1"))
    refused = rf"the {record.what} of step 20, or damaged .*{message}.*measure again"
    with pytest.raises(CheckpointError, match=refused):
        type(record).read(tmp_path, 20)


def test_odd_numbers_are_refused_in_files(tmp_path: Path, make: Make) -> None:
    """NaN, too, but in resamples, in which a measure may have no value."""
    for odd in (np.inf, np.nan):
        record = make()
        record.arrays()[next(n for n in record.arrays() if n.endswith("_cross"))][-1, -1] = odd
        record.write(tmp_path)
        if record.may_be_nan and np.isnan(odd):
            assert type(record).read(tmp_path, 20) is not None
            continue
        with pytest.raises(CheckpointError, match="cross: expected finite numbers"):
            type(record).read(tmp_path, 20)


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (made_up_costs, {"tokens": np.array([9, 7, 8, 0], np.int32)}, "tokens in each"),
        (made_up_costs, {"places": np.array([0, 1, 2], np.int32)}, r"expected \(N = 3\), got"),
        (made_up_resamples, {"cross": np.s_[1:]}, r"expected \(measure = 18, resample = 5"),
        (made_up_resamples, {"cross": np.s_[:, 1:]}, r"expected \(measure = 18, resample = 5"),
        (made_up_means, {"cross": np.s_[0]}, r"expected \(L of cross, H of cross, K of cross\)"),
    ],
)
def test_arrays_not_fitting_are_refused(make: Make, change: dict[str, Any], message: str) -> None:
    made = make()
    if "cross" in change:
        name = next(name for name in ("means", "deviations") if hasattr(made, name))
        of_kinds = getattr(made, name)
        change = {name: {**of_kinds, "cross": of_kinds["cross"][change["cross"]]}}
    with pytest.raises(ValueError, match=message):
        replace(made, **change)


def test_files_from_before_scores_were_resampled_have_all_else(tmp_path: Path) -> None:
    made = made_up_resamples()
    assert made.names == RESAMPLED
    deviations = {kind: of_kind[:15] for kind, of_kind in made.deviations.items()}
    made_up_resamples(deviations=deviations).write(tmp_path)
    read = Resamples.read(tmp_path, 20)
    assert read is not None
    assert read.names == tuple(name for name in made.names if not name.startswith("by_"))
    head = Head("cross", 1, 2)
    np.testing.assert_array_equal(read.of("velocity", head), made.of("velocity", head))
    with pytest.raises(ValueError, match="expected resamples of 18 measures"):
        made_up_resamples(deviations={k: of[:7] for k, of in made.deviations.items()})
