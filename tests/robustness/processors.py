"""Run the tests as other processors would: with other instructions, threads, orders and last bits.

    python -m tests.robustness.processors [--only threads ...]

Each way runs all tests but those of the browser (4 to 8 minutes on two cores). It prints a line for
each and ends with status 1 where a test failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

import tyro


@dataclass(frozen=True)
class Way:
    """A way to run the tests has settings of its environment and options of pytest."""

    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


def _instructions(torch: str, onednn: str, mkl: str) -> Way:
    return Way(
        {"ATEN_CPU_CAPABILITY": torch, "ONEDNN_MAX_CPU_ISA": onednn, "MKL_ENABLE_INSTRUCTIONS": mkl}
    )


_BESIDE_ANOTHER_PROCESS = (
    *("--deselect", "tests/model/training/test_resume.py::test_killed_it_ends_as_if_never_stopped"),
    *("--deselect", "tests/viz_app/test_measure.py::test_two_processes_write_the_same_as_one"),
)
"""Tests that compare with a process of their own to the bit: it has this machine's last bits."""

WAYS = {
    "default": _instructions("default", "SSE41", "SSE4_2"),
    "avx2": _instructions("avx2", "AVX2", "AVX2"),
    "avx512": _instructions("avx512", "AVX512_CORE", "AVX512"),
    "threads": Way({"OMP_NUM_THREADS": "2"}),
    "order": Way(options=("--random-order", "--random-order-seed=1")),
    "other-last-bits": Way(options=("-p", "tests.other_processor", *_BESIDE_ANOTHER_PROCESS)),
}
"""The instructions of PyTorch, oneDNN and MKL, which a processor may lack: they fall back then."""


@dataclass(frozen=True)
class Arguments:
    """Run the tests as other processors would."""

    only: tuple[str, ...] = tuple(WAYS)
    """Names of ways."""


def main(arguments: Arguments) -> None:
    """Run the tests in each way; exit with status 1 where one fails."""
    failed = []
    for name in arguments.only:
        way, begun = WAYS[name], time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "--ignore", "tests/browser", *way.options]
        ended = subprocess.run(
            command, env=os.environ | way.settings, capture_output=True, text=True, check=False
        )
        lines = ended.stdout.strip().splitlines()
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))))
        print(f"{name}: {lines[-1] if lines else ended.stderr} ({time.monotonic() - begun:.0f} s)")
        failed += [name] * bool(ended.returncode)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
