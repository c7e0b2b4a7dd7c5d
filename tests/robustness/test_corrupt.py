"""A few corruptions of every kind of file; ``python -m tests.robustness.corrupt`` does more."""

from __future__ import annotations

import os
import random

import pytest

from tests.robustness import corrupt, corruptions, read_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> corrupt.Corruptible:
    return corrupt.Corruptible(tmp_path_factory.mktemp("runs"))


def test_corrupted_files_are_refused_or_read_as_other_valid_ones(runs: corrupt.Corruptible) -> None:
    """With another seed than the command's, so that both together see more."""
    outcomes = set()
    for name, kind in corrupt.KINDS.items():
        for number in range(12 if kind.protected else 25):
            how, outcome = runs(name, 7, number)
            assert outcome in corrupt.FINE, (name, number, how, outcome)
            outcomes.add(outcome)
    assert outcomes == set(corrupt.FINE)


@pytest.mark.parametrize(
    ("after", "protected", "outcome"),
    [
        ({"a": [1, 2], "b": 3}, True, "the same"),
        ({"a": [1], "b": 3}, False, "rows before"),
        ({"a": [2], "b": 3}, False, "other content"),
        ({"a": [1, 2], "b": 4}, False, "other content"),
        ({"a": [1, 2], "b": 4}, True, "FAILED: silently different in ['b']"),
    ],
)
def test_outcomes_are_distinguished(
    after: dict[str, object], protected: bool, outcome: str
) -> None:
    before = {"a": [1, 2], "b": 3}
    assert corrupt.outcome_of(before, after, protected=protected) == outcome
    refused = after | {"b": corrupt.CheckpointError}
    assert corrupt.outcome_of(before, before | {"b": refused["b"]}, protected=True) == "refused"


def test_an_exception_of_another_kind_is_a_failure(
    runs: corrupt.Corruptible, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """The exception that native libraries raise."""

    def fail(_: object) -> None:
        raise Panic("out of bounds")

    monkeypatch.setattr(read_run, "read_alignments", fail)
    _, outcome = runs("samples.jsonl", 7, 0)
    assert outcome.startswith("FAILED: Panic at test_corrupt.py:")


def test_a_corruption_follows_from_its_seed_and_changes_the_file() -> None:
    content = b'{"a": [1, 2], "b": {"c": "d"}}'
    found = {corruptions.corrupt(content, corruptions.of_json, str(n)) for n in range(40)}
    assert found == {corruptions.corrupt(content, corruptions.of_json, str(n)) for n in range(40)}
    assert len(found) > 30
    assert all(changed != content for _, changed in found)
    for how in corruptions._OF_BYTES:  # of files of a byte, too
        how(b"x", random.Random(0))


@pytest.mark.skipif(os.name != "posix", reason="memory is watched as Linux has it")
def test_a_process_that_dies_is_replaced() -> None:
    worker = corrupt.Worker.__new__(corrupt.Worker)
    started = []

    class Dead:
        """A process that was killed, and the connection to it."""

        exitcode = -9

        def send(self, _: object) -> None: ...

        def poll(self, _: float) -> bool:
            return True

        def recv(self) -> object:
            raise EOFError

        def kill(self) -> None: ...

        def join(self) -> None: ...

    worker._connection = worker._process = Dead()
    worker._start = lambda: started.append(True)
    assert worker("weights", 3) == ("?", "FAILED: the process died with status -9")
    assert started == [True]
