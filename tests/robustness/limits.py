"""Files that would take everything are refused within 2 s and 200 MB, or open: files × damages.

    python -m tests.robustness.limits [--only run.json tokenizer.json …]

A line for each case says how it ended, with seconds of a processor and the most memory above what
was there when the healthy folder had been opened. Each case has a process of its own, of which the
memory is bounded, so that a library that ends its process is seen. Status 1 where one does not
hold. Linux only.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import tyro

from headwise.model.budget import MEMORY
from headwise.model.placement import use_one_thread
from tests.robustness.damages import CASES, Case
from tests.robustness.open_folder import FOLDERS

MOST_SECONDS, MOST_MEGABYTES = 2.0, 200
_BOUND = 2**30
"""Bytes of addresses that a case may take."""
_BUDGET = 2**31
"""Bytes that a process may have by its settings: what needs more is refused before it is read."""


def measure(names: tuple[str, ...] = tuple(CASES)) -> Iterator[tuple[str, float, float, str]]:
    """Yield name, seconds, megabytes and outcome of cases; each folder is made and opened once."""
    os.environ[MEMORY] = f"{_BUDGET}"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not be there in a fork,
    use_one_thread()  # nor those of PyTorch
    with tempfile.TemporaryDirectory() as temporary:
        for kind, (make, read) in FOLDERS.items():
            cases = {name: CASES[name] for name in names if CASES[name].folder == kind}
            if not cases:
                continue
            folder = Path(temporary) / kind
            make(folder)
            healthy = read(folder)
            if odd := {part: error for part, error in healthy.items() if error}:
                raise AssertionError(f"{kind}: the healthy folder is refused: {odd}")
            for name, case in cases.items():
                yield name, *_in_a_process(case, folder, read)


def _in_a_process(
    case: Case, folder: Path, read: Callable[[Path], dict[str, str]]
) -> tuple[float, float, str]:
    """Damage a copy of a folder, and read it in a fork of this process."""
    damaged = folder.parent / "damaged" / folder.name
    shutil.copytree(folder, damaged)
    case.damage(damaged / case.file)
    reading, writing = os.pipe()
    gc.collect()
    gc.freeze()  # else collecting garbage would copy what the fork shares
    if (child := os.fork()) == 0:
        os.close(reading)
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (this process ends with it)
        os.write(writing, json.dumps(_measured(lambda: read(damaged))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    shutil.rmtree(damaged)
    if not said:
        return 0.0, 0.0, f"died ({os.waitstatus_to_exitcode(status)})"
    seconds, megabytes, outcome = json.loads(said)
    return seconds, megabytes, outcome


def _measured(read: Callable[[], dict[str, str]]) -> tuple[float, float, str]:
    before = _of_status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    most = _of_status("VmSize") + _BOUND
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (60 + int(time.process_time()),) * 2)
    signal.alarm(600)  # where it waits for ever
    begun = time.process_time()
    try:
        found = read()
        errors = [error for error in found.values() if error]
        outcome = f"refused: {min(errors, key=len)}" if errors else "opens"
    except BaseException as error:
        outcome = f"failed: {type(error).__name__}: {error}"
    return time.process_time() - begun, (_of_status("VmHWM") - before) / 2**20, outcome[:300]


def _of_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def holds(seconds: float, megabytes: float, outcome: str) -> bool:
    """Return whether a case ended as it must."""
    within = seconds <= MOST_SECONDS and megabytes <= MOST_MEGABYTES
    return outcome == "opens" or (outcome.startswith("refused: ") and within)


def main(only: tuple[str, ...] = ()) -> None:
    """Measure cases whose names have one of the words, and print a line for each."""
    names = tuple(name for name in CASES if not only or any(word in name for word in only))
    failed = 0
    for name, seconds, megabytes, outcome in measure(names):
        held = holds(seconds, megabytes, outcome)
        failed += not held
        said = "" if held else "NOT HELD: "
        print(f"{said}{name} | {seconds:.2f} s | {megabytes:.0f} MB | {outcome}", flush=True)
    print(f"{len(names)} cases, {failed} not held")
    sys.exit(bool(failed))


if __name__ == "__main__":
    tyro.cli(main)
