"""Damage to every kind of file of a run, a few times each; the long version is a command."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmarks() -> SimpleNamespace:
    """Modules of ``benchmarks/``, which is no installed package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        from benchmarks import mutate, mutations, reading

        return SimpleNamespace(mutate=mutate, mutations=mutations, reading=reading)


@pytest.fixture(scope="module")
def damage(benchmarks: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> object:
    return benchmarks.mutate.Damage(tmp_path_factory.mktemp("runs"))


def test_damaged_files_are_refused_or_read_as_valid_others(
    benchmarks: SimpleNamespace, damage: object
) -> None:
    """With another seed than the command's, so that both together see more."""
    outcomes = set()
    for name, kind in benchmarks.mutate.KINDS.items():
        for number in range(25 if kind.protected else 50):
            how, outcome = damage(name, 7, number)
            assert outcome in benchmarks.mutate.FINE, (name, number, how, outcome)
            outcomes.add(outcome)
    assert outcomes == set(benchmarks.mutate.FINE)


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
def test_outcomes_are_told_apart(
    benchmarks: SimpleNamespace, after: dict[str, object], protected: bool, outcome: str
) -> None:
    before = {"a": [1, 2], "b": 3}
    assert benchmarks.mutate.judge(before, after, protected=protected) == outcome
    refused = after | {"b": benchmarks.mutate.CheckpointError}
    assert (
        benchmarks.mutate.judge(before, before | {"b": refused["b"]}, protected=True) == "refused"
    )


def test_an_exception_of_another_kind_is_a_failure(
    benchmarks: SimpleNamespace, damage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """As native libraries raise it."""

    def fail(_: object) -> None:
        raise Panic("out of bounds")

    monkeypatch.setattr(benchmarks.reading, "read_alignments", fail)
    _, outcome = damage("samples.jsonl", 7, 0)
    assert outcome.startswith("FAILED: Panic at test_mutate.py:")


def test_a_mutation_follows_from_its_seed_and_changes_the_file(
    benchmarks: SimpleNamespace,
) -> None:
    mutations, content = benchmarks.mutations, b'{"a": [1, 2], "b": {"c": "d"}}'
    found = {mutations.mutate(content, mutations.of_json, str(n)) for n in range(40)}
    assert found == {mutations.mutate(content, mutations.of_json, str(n)) for n in range(40)}
    assert len(found) > 30
    assert all(changed != content for _, changed in found)
    for how in mutations._OF_BYTES:  # of files of a byte, too
        how(b"x", random.Random(0))


@pytest.mark.skipif(os.name != "posix", reason="memory is watched as Linux has it")
def test_a_process_that_dies_is_replaced(benchmarks: SimpleNamespace) -> None:
    """Without the seconds that a real one takes to start."""
    worker = benchmarks.mutate.Worker.__new__(benchmarks.mutate.Worker)
    started = []

    class Dead:
        """One that was killed, for memory say."""

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
