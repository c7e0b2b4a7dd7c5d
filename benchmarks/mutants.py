"""Change the code in one place at a time, and see whether the tests notice.

    python -m benchmarks.mutants [--count 200] [--seed 0] [--workers 2] [--modules model/masks.py …]

Cosmic Ray (benchmarks/requirements.txt) changes an operator, comparison, number, condition, loop,
exception or decorator in a copy of the tree; then the tests of that file run, its own first, until
one fails. A mutant that no test kills is printed as a diff: either a test is missing, or the
program does the same without that piece.
"""

from __future__ import annotations

import difflib
import itertools
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest
import tyro
from tqdm import tqdm

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

    from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
ANALYSIS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "viz_app" / "analysis").glob("*.py")
    if path.name != "__init__.py"
)
MODULES = ("model/masks.py", "model/attention.py", "model/checkpoint.py", *ANALYSIS)
_MODEL_TESTS = ("masks", "attention", "parity", "transformer", "checkpoint", "files")
_LEFT_OUT = re.compile(
    # What floats cannot do is noticed by any test that gets there; | is mostly in annotations.
    r".*BinaryOperator_(BitOr_\w+|\w+_(RShift|LShift|BitOr|BitAnd|BitXor))"
    # Small numbers and interned words are identical where they are equal.
    r"|.*ComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE)_(Is|IsNot)"
)
"""Operators of Cosmic Ray that say nothing of the tests."""
_LONGEST = 1_800
"""Seconds that the tests may take on the code as it is."""


@dataclass(frozen=True)
class Arguments:
    """Sample mutants and run the tests on each; ends with status 1 if under 90% are killed."""

    count: int = 200
    """Mutants in all."""
    seed: int = 0
    """Of the sample."""
    workers: int = 2
    """Mutants at a time, each in a copy of the tree."""
    modules: tuple[str, ...] = MODULES
    """Files to change."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    module: str
    verdict: str
    """``killed``, ``survived`` or ``timed out``."""
    diff: str


def tests_of(module: str) -> list[str]:
    """The tests to run on a changed file, those that mirror it first."""
    path = Path(module)
    own = Path("tests") / path.with_name(f"test_{path.name}")
    rest = (
        [f"tests/model/test_{name}.py" for name in _MODEL_TESTS]
        if path.parts[0] == "model"
        else ["tests/viz_app/analysis"]
    )
    return [own.as_posix(), *(file for file in rest if file != own.as_posix())]


def sample(modules: Iterable[str], count: int, seed: int) -> list[MutationSpec]:
    """So many mutants of these files (below ``ROOT``), all equally likely."""
    from cosmic_ray.commands import init
    from cosmic_ray.work_db import use_db

    with use_db(":memory:") as database:
        init([ROOT / module for module in modules], database, {})
        found = [item.mutations[0] for item in database.work_items]
    found = [mutation for mutation in found if not _LEFT_OUT.fullmatch(mutation.operator_name)]
    found.sort(key=lambda one: (one.module_path, one.operator_name, one.occurrence))
    random.Random(seed).shuffle(found)
    return list(itertools.islice(filter(_makes_a_program, found), count))


def _makes_a_program(mutation: MutationSpec) -> bool:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = mutation.module_path.read_text(encoding="utf-8")
    line, column = mutation.start_pos
    if source.splitlines()[line - 1].startswith("*,", column):  # among parameters, no product
        return False
    code = mutate_code(source, get_operator(mutation.operator_name)(), mutation.occurrence)
    with suppress(SyntaxError):
        compile(code, mutation.module_path, "exec")
        return True
    return False


def _run_tests(folder: Path, tests: list[str]) -> None:
    """Run them in this process, which began with all packages loaded but those of the tree."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # a file changes twice within a second
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # to load them takes longer than most tests
    flags = ["-x", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    sys.exit(pytest.main([*flags, *tests]))


@cache
def _forks() -> ForkServerContext:
    """Processes that have begun already; where there is no fork, ValueError."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "safetensors.torch", "tokenizers"])
    return context


def verdict_of(folder: Path, tests: list[str], timeout: float) -> str:
    """What the tests say of the tree in a folder: ``killed``, ``survived`` or ``timed out``."""
    process = _forks().Process(target=_run_tests, args=(folder, tests))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        return "timed out"
    return "killed" if process.exitcode else "survived"


def _try(mutation: MutationSpec, folders: Queue[Path], timeout: float) -> Outcome:
    """Change a file of a free copy, run its tests, and put it back."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    path, operator = mutation.module_path.relative_to(ROOT), get_operator(mutation.operator_name)()
    folder = folders.get()
    with use_mutation(folder / path, operator, mutation.occurrence) as codes:
        verdict = verdict_of(folder, tests_of(path.as_posix()), timeout)
    folders.put(folder)
    lines = [code.splitlines(keepends=True) for code in codes]
    diff = "".join(difflib.unified_diff(*lines, str(path), str(path), n=1))
    return Outcome(path.as_posix(), verdict, diff)


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row a module, and their sum."""
    counted = Counter((outcome.module, outcome.verdict) for outcome in outcomes)
    counted.update(("all", outcome.verdict) for outcome in outcomes)
    lines = ["| module | mutants | killed | survived | timed out |", "|---|---|---|---|---|"]
    for module in [*sorted({outcome.module for outcome in outcomes}), "all"]:
        numbers = [counted[module, verdict] for verdict in ("killed", "survived", "timed out")]
        lines.append(f"| {module} | {' | '.join(map(str, [sum(numbers), *numbers]))} |")
    return "\n".join(lines)


def _copies(scratch: str, count: int) -> Queue[Path]:
    """Copies of the tree, all with the same shipped runs."""
    folders: Queue[Path] = Queue()
    for number in range(count):
        folder = Path(scratch) / str(number)
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "checkpoints", "docs"))
        (folder / "checkpoints").symlink_to(ROOT / "checkpoints")
        folders.put(folder)
    return folders


def main(arguments: Arguments) -> list[Outcome]:
    """Run the sample, print what became of it, and give back the survivors.

    Raises:
        RuntimeError: if tests fail on the code as it is.
    """
    outcomes: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(arguments.workers) as threads,
    ):
        folders = _copies(scratch, arguments.workers)
        began = time.monotonic()
        tests = sorted({file for module in arguments.modules for file in tests_of(module)})
        if verdict_of(folders.queue[0], tests, _LONGEST) != "survived":
            raise RuntimeError(f"the tests fail on the code as it is: pytest {' '.join(tests)}")
        timeout = 30 + 5 * (time.monotonic() - began)
        mutations = sample(arguments.modules, arguments.count, arguments.seed)
        tasks = [threads.submit(_try, mutation, folders, timeout) for mutation in mutations]
        for task in tqdm(as_completed(tasks), total=len(tasks), unit="mutant"):
            outcomes.append(task.result())
    survivors = sorted(
        (outcome for outcome in outcomes if outcome.verdict == "survived"),
        key=lambda outcome: (outcome.module, outcome.diff),
    )
    print(table(outcomes))
    print("\n".join(outcome.diff for outcome in survivors))
    return survivors


if __name__ == "__main__":
    options = tyro.cli(Arguments)
    sys.exit(len(main(options)) > options.count / 10)
