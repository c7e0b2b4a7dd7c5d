"""``benchmarks/mutants.py``: which mutants, which tests, and what is said of them."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from pathlib import Path
from types import ModuleType

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


PYTHON = [sys.executable, "-S", "-c"]
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


@pytest.mark.skipif(os.name != "posix", reason="the program says so itself")
def test_a_mutant_lives_that_no_test_notices(
    mutants: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_operator = {
        m.operator_name.partition("_")[2]: m for m in mutants.sample(["shares.py"], 99, 0)
    }

    def verdicts(command: str, timeout: float, *operators: str) -> list[str]:
        monkeypatch.setattr(mutants, "_command", lambda _: shlex.join([*PYTHON, command]))
        return [mutants._try(by_operator[name], timeout).verdict for name in operators]

    test = "from shares import share; assert share(2, of=8) == 0.25"
    expected = {"Eq_LtE": "killed", "Eq_NotEq": "killed", "Eq_GtE": "survived"}
    assert verdicts(test, 60, *expected) == list(expected.values())
    assert verdicts("while True: pass", 0.1, "Eq_NotEq") == ["timed out"]
    assert (tree / "shares.py").read_text(encoding="utf-8") == CODE
