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


def train(root: Path, delay: float = 600.0) -> tuple[bool, float]:
    """Begin the training, or resume it, and kill it some seconds after it locked its folder.

    Returns whether it was killed before its end, and the seconds from that moment on.
    """
    milestones = tuple(range(0, _STEPS, 6))
    changes = {"steps": _STEPS, "accumulate": 1, "milestones": milestones, "resume_every": 2}
    process = start_training(replace(tiny_training(root, **changes), run=_RUN), ["--resume"])
    while process.poll() is None and not has_writer(root / _RUN):
        time.sleep(0.02)
    began = time.monotonic()
    try:
        _, errors = process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(errors.decode(errors="replace"))
    return process.returncode != 0, time.monotonic() - began


def main(arguments: KillArguments) -> list[str]:
    """Kill as often as the arguments say; return a line for each failure."""
    rng, wrong, where = random.Random(arguments.seed), list[str](), Counter[str]()
    kills = ends = 0
    with tempfile.TemporaryDirectory() as scratch, tqdm(total=arguments.times) as progress:
        _, seconds = train(Path(scratch, "undisturbed"))
        expected = end_of(Path(scratch, "undisturbed"))
        print(f"undisturbed: {seconds:.1f} s from locking the folder to the end")
        root, is_last = Path(scratch, "killed"), False
        while not is_last:
            is_last = kills == arguments.times
            delay = 600.0 if is_last else rng.uniform(0, 2 * seconds / _KILLS_A_TRAINING)
            try:
                killed, _ = train(root, delay)
                place = check(root)
                found = {} if killed else end_of(root)
            except Exception as error:
                wrong.append(f"kill {kills + 1}, after {delay:.3f} s: {error!r}")
                killed, place = True, "unreadable"
                shutil.rmtree(root, ignore_errors=True)
            if killed:
                kills += 1
                where[place] += 1
                progress.update()
                continue
            ends += 1
            names = {*found, *expected}
            differing = sorted(name for name in names if found.get(name) != expected.get(name))
            wrong += [f"kill {kills}: {name} differs" for name in differing]
            shutil.rmtree(root)
    print(f"{kills} kills, {ends} trainings reached their end and were compared")
    for place, count in sorted(where.items()):
        print(f"{count:4} killed {place}")
    print("\n".join(wrong) or "every file was readable each time, every end the same")
    return wrong


if __name__ == "__main__":
    if os.name != "posix":
        sys.exit("error: only POSIX systems have SIGKILL")
    sys.exit(bool(main(tyro.cli(KillArguments))))
