"""The file of costs by sentence: written and read, and refused where it is damaged or foreign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS
from headwise.viz_app.measuring.sentence_costs import costs_path, read_costs, write_costs
from tests.viz_app.measures import made_up_costs


def test_costs_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_costs(tmp_path, 20) is None
    written = made_up_costs()
    write_costs(tmp_path, written)
    read = read_costs(tmp_path, 20)
    assert read is not None
    np.testing.assert_array_equal(read.places, written.places)
    np.testing.assert_array_equal(read.tokens, written.tokens)
    for kind in KINDS:
        np.testing.assert_array_equal(read.costs[kind], written.costs[kind])
        assert not read.costs[kind].flags.writeable
    assert (read.run, read.step, read.sha256, read.corpus) == ("tiny", 20, "5ha", written.corpus)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('\\"step\\":20', '\\"step\\":21', "expected format version 1 and step 20, got 1 and 21"),
        ('format_version\\":1', 'format_version\\":2', "got 2 and 20"),
        ('\\"sentences\\":600', '\\"sentences\\":601', "its sha256 is not that of its content"),
        ('"F16"', '"I16"', "expected torch.float16 of 4 sentences"),
        ('"places"', '"placez"', "expected tensors places, tokens, .* got"),
        (None, "", "damaged"),
    ],
)
def test_damaged_or_foreign_costs_are_refused(
    tmp_path: Path, old: str | None, new: str, message: str
) -> None:
    """Without a text to replace, the file is cut off."""
    write_costs(tmp_path, made_up_costs())
    path = costs_path(tmp_path, 20)
    content = path.read_bytes()
    assert old is None or old.encode() in content
    changed = content[:300] if old is None else content.replace(old.encode(), new.encode(), 1)
    path.write_bytes(changed)
    with pytest.raises(CheckpointError, match=rf"costs of step 20, or .*{message}.*measure again"):
        read_costs(tmp_path, 20)


@pytest.mark.parametrize("changes", [{"tokens": [9, 7, 8, 0]}, {"places": [0, 1, 2]}])
def test_sentences_without_tokens_or_places_are_refused(
    tmp_path: Path, changes: dict[str, list[int]]
) -> None:
    arrays = {name: np.array(numbers, np.int32) for name, numbers in changes.items()}
    write_costs(tmp_path, made_up_costs(**arrays))
    with pytest.raises(CheckpointError, match="expected"):
        read_costs(tmp_path, 20)


def test_an_altered_number_is_noticed(tmp_path: Path) -> None:
    write_costs(tmp_path, made_up_costs())
    content = bytearray(costs_path(tmp_path, 20).read_bytes())
    content[-2] ^= 1
    costs_path(tmp_path, 20).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"its sha256 is not that of its content|finite"):
        read_costs(tmp_path, 20)
