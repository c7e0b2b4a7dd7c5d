"""Sessions share records in a process, and the app shares the machine: neither harms the other."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

import headwise.viz_app.analysis
import headwise.viz_app.records


@pytest.mark.parametrize("package", [headwise.viz_app.analysis, headwise.viz_app.records])
def test_shared_dataclasses_are_frozen(package: ModuleType) -> None:
    classes = {
        value
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and is_dataclass(value)
    }
    assert len(classes) > 15
    assert [each for each in classes if not cast(Any, each).__dataclass_params__.frozen] == []


ROOT = Path(__file__).parents[2]
TORCH_IS_IMPORTED = """
import os, runpy, sys

class Torch:
    def find_spec(self, name, *_):
        if name == "torch":
            print(os.environ["OMP_WAIT_POLICY"], flush=True)
            os._exit(0)

sys.meta_path.insert(0, Torch())
"""
STARTS = {
    "a page": f"runpy.run_path({str(ROOT / 'viz_app' / 'script.py')!r})",
    "import headwise.viz_app": "import headwise.viz_app.trace.sentence",
} | {
    f"python -m headwise.viz_app{name}": f"runpy.run_module('headwise.viz_app{name}', "
    "run_name='__main__')"
    for name in ("", ".align", ".export", ".measure")
}


@pytest.mark.parametrize(
    ("start", "given"),
    [*((start, None) for start in STARTS), ("import headwise.viz_app", "ACTIVE")],
)
def test_threads_sleep_while_they_wait_unless_told_otherwise(start: str, given: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run(
        [sys.executable, "-c", TORCH_IS_IMPORTED + STARTS[start]],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.stdout.strip() == (given or "PASSIVE")
