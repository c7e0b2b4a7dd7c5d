"""A few changed files of traces; ``python -m tests.robustness.saved_traces`` reads more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness import saved_traces
from tests.robustness.saved_traces import KINDS, Changeable


@pytest.fixture(scope="module")
def changeable(tmp_path_factory: pytest.TempPathFactory) -> Changeable:
    return Changeable(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("suffix", KINDS)
def test_changed_files_are_refused_or_read_as_traces_that_can_be_written(
    changeable: Changeable, suffix: str
) -> None:
    """With another seed than the command's, so that both together see more."""
    outcomes = set()
    for number in range(50):
        how, outcome = changeable(suffix, 7, number)
        assert outcome in ("refused", "read"), (suffix, number, how, outcome)
        outcomes.add(outcome)
    assert outcomes == {"refused", "read"}


def test_another_exception_or_much_memory_is_a_failure(
    changeable: Changeable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(_: Path) -> None:
        bytes(2**27)
        raise ValueError(f"{_}: no")

    def fail(_: Path) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(saved_traces, "read_trace", take)
    assert changeable(".npz", 7, 0)[1].startswith("FAILED: took 134,")
    monkeypatch.setattr(saved_traces, "read_trace", fail)
    assert changeable(".npz", 7, 0)[1] == "FAILED: reading: IndexError: out of range"
