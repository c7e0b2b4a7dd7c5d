"""The file of resamples: written and read, and refused where it is damaged or foreign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS, Head
from headwise.viz_app.measuring.resamples import read_resamples, resamples_path, write_resamples
from headwise.viz_app.records.measures import RESAMPLED
from tests.viz_app.measures import made_up_resamples


def test_resamples_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_resamples(tmp_path, 20) is None
    written = made_up_resamples()
    write_resamples(tmp_path, written)
    read = read_resamples(tmp_path, 20)
    assert read is not None
    for kind in KINDS:
        np.testing.assert_array_equal(read.deviations[kind], written.deviations[kind])
        assert not read.deviations[kind].flags.writeable
    assert (read.run, read.step, read.sha256, read.corpus) == ("tiny", 20, "5ha", written.corpus)


def test_files_from_before_scores_were_resampled_have_all_else(tmp_path: Path) -> None:
    made = made_up_resamples()
    assert made.names == RESAMPLED
    deviations = {kind: of_kind[:15] for kind, of_kind in made.deviations.items()}
    write_resamples(tmp_path, made_up_resamples(deviations=deviations))
    read = read_resamples(tmp_path, 20)
    assert read is not None
    assert read.names == tuple(name for name in made.names if not name.startswith("by_"))
    head = Head("cross", 1, 2)
    np.testing.assert_array_equal(read.of("velocity", head), made.of("velocity", head))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('\\"step\\":20', '\\"step\\":21', "expected format version 1 and step 20, got 1 and 21"),
        ('"F16"', '"I16"', "expected float16"),
        (None, "", "damaged"),
    ],
)
def test_damaged_or_foreign_resamples_are_refused(
    tmp_path: Path, old: str | None, new: str, message: str
) -> None:
    """Without a text to replace, the file is cut off."""
    write_resamples(tmp_path, made_up_resamples())
    path = resamples_path(tmp_path, 20)
    content = path.read_bytes()
    assert old is None or old.encode() in content
    changed = content[:300] if old is None else content.replace(old.encode(), new.encode(), 1)
    path.write_bytes(changed)
    with pytest.raises(CheckpointError, match=rf"resamples of step 20, or .*{message}"):
        read_resamples(tmp_path, 20)


def test_measures_or_resamples_that_are_missing_are_refused(tmp_path: Path) -> None:
    made = made_up_resamples()
    for cut in (np.s_[1:], np.s_[:, 1:]):
        deviations = {**made.deviations, "cross": made.deviations["cross"][cut]}
        write_resamples(tmp_path, made_up_resamples(deviations=deviations))
        with pytest.raises(CheckpointError, match="expected"):
            read_resamples(tmp_path, 20)
