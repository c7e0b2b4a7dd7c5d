"""A short form of ``limits.py``: one case of each way in which a file is bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT
from tests.robustness.damages import CASES, QUICK
from tests.robustness.limits import holds


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux counts peaks")
def test_a_file_is_refused_within_2_s_and_200_mb_or_opens() -> None:
    command = [sys.executable, "-m", "tests.robustness.limits", "--only", *QUICK]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith(f"{len(QUICK)} cases, 0 not held\n")


def test_too_slow_too_large_dead_and_crashed_are_failures() -> None:
    assert {*QUICK} <= {*CASES}
    assert holds(1.9, 199, "refused: x")
    assert holds(9, 999, "opens")
    for ended in ((2.1, 1, "refused: x"), (1, 201, "refused: x"), (0, 0, "died (-6)")):
        assert not holds(*ended)
    assert not holds(1, 1, "failed: MemoryError: ")
