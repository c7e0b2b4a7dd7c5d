"""Kill a training at random moments, and check that its folder can always be read and resumed.

    python -m tests.robustness.kill [--times 50] [--seed 0]

A tiny training on tests/data is killed with SIGKILL and continued by --resume. After each kill its
whole folder is read as the programs read it. When a training reaches its end, its weights,
tokenizers, counts, samples and state must equal those of an undisturbed training bit for bit; then
another training begins, until all kills are done. The last training is not killed. A kill comes
between the moment when the training locks its folder and half the length of an undisturbed training
after that.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
import tyro
from tqdm import tqdm

from headwise.model.checkpoint import load_weights, open_trained_run, steps_of
from headwise.model.files import has_writer
from headwise.model.training.resume import latest_resume_step, read_resume_state
from headwise.model.transformer import Transformer
from tests.tiny import start_training, tiny_training

Content = dict[str, bytes | list[int] | str]
"""File → what must be the same at the end of each training."""

_RUN = "killed"
_STEPS = 240
_KILLS_A_TRAINING = 4
"""About as many kills until a training reaches its end."""


@dataclass(frozen=True)
class KillArguments:
    """Kill a tiny training at random moments; ends with status 1 if a file was ever unreadable."""

    times: int = 50
    """Number of kills."""
    seed: int = 0
    """Seed of the moments."""


def start(root: Path) -> subprocess.Popen[bytes]:
    """Begin the training, or resume it."""
    milestones = tuple(range(0, _STEPS, 6))
    changes = {"steps": _STEPS, "accumulate": 1, "milestones": milestones, "resume_every": 2}
    return start_training(replace(tiny_training(root, **changes), run=_RUN), ["--resume"])


def wait_for_writer(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the training has locked its folder, or has ended."""
    while process.poll() is None and not has_writer(folder):
        time.sleep(0.02)


def check(root: Path) -> str:
    """Read everything in the run's folder as the programs do; return how far the training was."""
    folder = root / _RUN
    if not (folder / "run.json").exists():
        return "before run.json"
    run = open_trained_run(_RUN, root=root)
    if len(run.counts.source) != run.info.model.source_vocab_size:
        raise ValueError("counts of another vocabulary")
    for step in steps_of(folder):
        load_weights(run, step)
    run.metrics()
    run.samples()
    last = latest_resume_step(folder)
    if last is None:
        return "before the first state"
    read_resume_state(folder, Transformer(run.info.model))
    return f"after the state of a step from {last // 60 * 60} on"


def end_of(root: Path) -> Content:
    """Read what must be the same at the end: everything but times; of weights, their sha256."""
    run = open_trained_run(_RUN, root=root)
    end: Content = {f"step {step}": load_weights(run, step).sha256 for step in run.steps()}
    end["metrics"] = [row["step"] for row in run.metrics()]
    for path in sorted(run.folder.rglob("*")):
        name = path.relative_to(run.folder).as_posix()
        # The library writes the header's fields in any order.
        if path.is_file() and not path.match("*.safetensors") and not path.match("*.lock"):
            end[name] = b"" if name == "metrics.jsonl" else path.read_bytes()
    tensors = read_resume_state(run.folder, Transformer(run.info.model)).tensors
    end["state"] = safetensors.torch.save(dict(sorted(tensors.items())))
    return end


def undisturbed(root: Path) -> tuple[Content, float]:
    """Train to the end; return the content, and the seconds from locking the folder to the end."""
    process = start(root)
    wait_for_writer(process, root / _RUN)
    began = time.monotonic()
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.decode(errors="replace"))
    return end_of(root), time.monotonic() - began


def kill_once(root: Path, delay: float) -> bool:
    """Start or resume, and kill after ``delay`` seconds; return False if it had ended before."""
    process = start(root)
    wait_for_writer(process, root / _RUN)
    try:
        _, errors = process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(errors.decode(errors="replace"))
    return process.returncode != 0


def compare(root: Path, expected: Content) -> list[str]:
    """List what differs from an undisturbed training."""
    found = end_of(root)
    return sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))


def main(arguments: KillArguments) -> list[str]:
    """Kill as often as the arguments say; return a line for each failure."""
    rng, wrong, where = random.Random(arguments.seed), [], Counter[str]()
    ends = 0
    with tempfile.TemporaryDirectory() as scratch:
        expected, seconds = undisturbed(Path(scratch) / "undisturbed")
        print(f"undisturbed: {seconds:.1f} s from locking the folder to the end")
        root, kills = Path(scratch) / "killed", 0
        with tqdm(total=arguments.times, unit="kill") as progress:
            while True:
                last = kills == arguments.times
                delay = 600.0 if last else rng.uniform(0, 2 * seconds / _KILLS_A_TRAINING)
                try:
                    killed = kill_once(root, delay)
                    place = check(root)
                    if not killed:
                        ends += 1
                        wrong += [f"kill {kills}: {n} differs" for n in compare(root, expected)]
                except Exception as error:
                    wrong.append(f"kill {kills + 1}, after {delay:.3f} s: {error!r}")
                    killed, place = True, "unreadable"
                    shutil.rmtree(root, ignore_errors=True)
                if last:
                    break
                if killed:
                    kills += 1
                    where[place] += 1
                    progress.update()
                else:
                    shutil.rmtree(root)
    print(f"{arguments.times} kills, {ends} trainings reached their end and were compared")
    for place, count in sorted(where.items()):
        print(f"{count:4} killed {place}")
    print("\n".join(wrong) or "every file was readable each time, every end the same")
    return wrong


if __name__ == "__main__":
    if os.name != "posix":
        sys.exit("error: only POSIX systems have SIGKILL")
    sys.exit(bool(main(tyro.cli(KillArguments))))
