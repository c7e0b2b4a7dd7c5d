"""``benchmarks/mutants.py``: which mutants, which tests, and what is said of them."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path
from queue import Queue
from types import ModuleType
from unittest.mock import patch

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import mutants

    return mutants


def test_a_file_is_tested_by_its_own_tests_first(mutants: ModuleType) -> None:
    found = {module: mutants.tests_of(module) for module in mutants.MODULES}
    assert found["viz_app/analysis/grid.py"][0] == "tests/viz_app/analysis/test_grid.py"
    assert found["model/masks.py"][0] == "tests/model/test_masks.py"
    assert len(found) > 15
    for tests in found.values():
        assert len(set(tests)) == len(tests)
        assert all((ROOT / test).exists() for test in tests)


def test_a_table_counts_by_module_and_in_all(mutants: ModuleType) -> None:
    outcomes = [
        mutants.Outcome("b.py", "killed", ""),
        mutants.Outcome("a.py", "survived", ""),
        mutants.Outcome("b.py", "timed out", ""),
        mutants.Outcome("b.py", "killed", ""),
    ]
    assert mutants.table(outcomes).splitlines()[2:] == [
        "| a.py | 1 | 0 | 1 | 0 |",
        "| b.py | 3 | 2 | 0 | 1 |",
        "| all | 4 | 2 | 1 | 1 |",
    ]


CODE = '''
def share(part: int | None, *, of: int) -> float:
    """A docstring with 1 + 1."""
    return 1.0 if part == 3 else (part or 0) / of
'''


@pytest.fixture
def tree(mutants: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A tree with one file instead of the project's."""
    pytest.importorskip("cosmic_ray", reason="it is in benchmarks/requirements.txt")
    (tmp_path / "shares.py").write_text(CODE, encoding="utf-8")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_mutants_are_programs_that_do_something_else(mutants: ModuleType, tree: Path) -> None:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    found = mutants.sample(["shares.py"], 1000, 0)
    assert found == mutants.sample(["shares.py"], 1000, 0)
    assert found[:5] == mutants.sample(["shares.py"], 5, 0) != mutants.sample(["shares.py"], 5, 1)
    changed = [mutate_code(CODE, get_operator(m.operator_name)(), m.occurrence) for m in found]
    assert any("part != 3" in code for code in changed)
    assert not any("part is 3" in code for code in changed)
    for code in changed:
        (before,), (after,) = ast.parse(CODE).body, ast.parse(code).body
        assert isinstance(before, ast.FunctionDef)
        assert isinstance(after, ast.FunctionDef)
        assert ast.dump(before.args) == ast.dump(after.args)
        assert ast.dump(before) != ast.dump(after)


def test_the_tests_of_a_mutant_see_it_and_nobody_else_does(
    mutants: ModuleType, tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = shutil.copytree(tree, tmp_path_factory.mktemp("copies") / "0")
    folders: Queue[Path] = Queue()
    folders.put(copy)
    seen: list[str] = []

    def verdict_of(folder: Path, tests: list[str], timeout: float) -> str:
        assert (tests[0], timeout) == ("tests/test_shares.py", 7)
        seen.append((folder / "shares.py").read_text(encoding="utf-8"))
        return "survived"

    [mutation] = mutants.sample(["shares.py"], 1, 0)
    with patch.object(mutants, "verdict_of", verdict_of):
        outcome = mutants._try(mutation, folders, 7)
    assert (outcome.module, outcome.verdict) == ("shares.py", "survived")
    assert seen != [CODE]
    assert set(outcome.diff.splitlines()) > {
        f"+{line}" for line in set(seen[0].splitlines()) - set(CODE.splitlines())
    }
    assert folders.get_nowait() == copy
    assert (copy / "shares.py").read_text(encoding="utf-8") == CODE
    assert (tree / "shares.py").read_text(encoding="utf-8") == CODE


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_what_tests_say_is_the_verdict(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes begin with the main program, which Streamlit's own tests leave replaced.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    (tmp_path / "pyproject.toml").touch()
    for test, timeout, verdict in (
        ("assert 1 + 1 == 2", 60, "survived"),
        ("assert 1 + 1 == 3", 60, "killed"),
        ("while True: pass", 0.5, "timed out"),
    ):
        (tmp_path / "test_it.py").write_text(f"def test() -> None:\n    {test}\n", encoding="utf-8")
        assert mutants.verdict_of(tmp_path, ["test_it.py"], timeout) == verdict
