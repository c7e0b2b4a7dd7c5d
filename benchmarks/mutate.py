"""Damage every kind of file of a run in a thousand ways, and see what reading it does.

    python -m benchmarks.mutate [--count 1000] [--seed 0] [--kinds run.json …] [--first 0]

Everything in a tiny run is read, as the app and the programs read it, in a process that may use
1 GiB more than before and 20 s. Each mutation must end in one of these:

* refused: CheckpointError, and what stands in other files is as it was;
* the same: no difference in anything that is read;
* rows before: of a log, the rows before the damage, as of a training that was killed;
* other content: another valid file. Nothing can tell where no sha256 protects a file (run.json,
  counts, logs, measures, alignments), nor where the sha256 was put right too: the kinds that end
  in "+" are such forgeries, which get past the sums to the libraries behind.

Anything else is a failure: another exception, a native library that panics or kills the process,
a hang, too much memory, or other content of a file that a sha256 protects. It is printed with kind
and number: ``--kinds KIND --first NUMBER --count 1`` with the same seed repeats it.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks.mutations import Way, mutate, of_header, of_json, of_json_lines
from benchmarks.reading import read
from benchmarks.tiny import STEP, make_run
from model.checkpoint import CheckpointError

_GIB = 2**30
_SECONDS = 20.0
_WEIGHTS = f"step-{STEP:07d}.safetensors"
_MEASURES = f"measures/step-{STEP:07d}.json"
_RESUME = f"resume/step-{STEP:07d}"

FINE = ("refused", "the same", "rows before", "other content")


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    run: str
    file: str
    way: Way
    protected: bool = False
    """Whether a sha256 says what must be in it."""
    sign: Callable[[Path, bytes], bytes] | None = None
    """Puts the sha256 right."""


def _sign_weights(folder: Path, content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        table = json.dumps(header, sort_keys=True).encode()
        metadata["sha256"] = hashlib.sha256(table + content[8 + length :]).hexdigest()
        signed = json.dumps({**header, "__metadata__": metadata}).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return content
    return len(signed).to_bytes(8, "little") + signed + content[8 + length :]


def _sign_in(json_file: str, old: str, folder: Path, content: bytes) -> bytes:
    """Write the sum of what comes into another file, in place of that of ``old``."""
    before = hashlib.sha256((folder / old).read_bytes()).hexdigest()
    now = hashlib.sha256(content).hexdigest()
    (folder / json_file).write_text((folder / json_file).read_text().replace(before, now))
    return content


_SOURCE, _TARGET, _SENTENCES = (
    "source.tokenizer.json",
    "target.tokenizer.json",
    "measures/sentences.jsonl",
)
KINDS = {
    "weights": Kind("bpe", _WEIGHTS, of_header, protected=True),
    "weights+": Kind("bpe", _WEIGHTS, of_header, sign=_sign_weights),
    "bpe tokenizer": Kind("bpe", _SOURCE, of_json, protected=True),
    "bpe tokenizer+": Kind("bpe", _SOURCE, of_json, sign=partial(_sign_in, "run.json", _SOURCE)),
    "word tokenizer": Kind("word", _TARGET, of_json, protected=True),
    "word tokenizer+": Kind("word", _TARGET, of_json, sign=partial(_sign_in, "run.json", _TARGET)),
    "run.json": Kind("bpe", "run.json", of_json),
    "counts.json": Kind("bpe", "counts.json", of_json),
    "metrics.jsonl": Kind("bpe", "metrics.jsonl", of_json_lines),
    "samples.jsonl": Kind("bpe", "samples.jsonl", of_json_lines),
    "measures": Kind("bpe", _MEASURES, of_json),
    "sentences.jsonl": Kind("bpe", _SENTENCES, of_json_lines, protected=True),
    "sentences.jsonl+": Kind(
        "bpe", _SENTENCES, of_json_lines, sign=partial(_sign_in, _MEASURES, _SENTENCES)
    ),
    "alignments.jsonl": Kind("bpe", "alignments.jsonl", of_json_lines),
    "resume weights": Kind("bpe", f"{_RESUME}/state.safetensors", of_header),
    "resume state": Kind("bpe", f"{_RESUME}/state.json", of_json),
}


def judge(before: dict[str, Any], after: dict[str, Any], *, protected: bool) -> str:
    """Which outcome it is that a damaged run reads so."""
    differing = {key for key in before if before[key] != after.get(key)}
    if not differing:
        return "the same"
    refused = {key for key in differing if after.get(key, CheckpointError) is CheckpointError}
    if refused == differing:
        return "refused"
    if protected:
        return f"FAILED: silently different in {sorted(differing - refused)}"
    if all(
        isinstance(before[key], list) and before[key][: len(after[key])] == after[key]
        for key in differing
    ):
        return "rows before"
    return "other content"


class Damage:
    """Two tiny runs, and what reading them says as long as they are whole."""

    def __init__(self, scratch: Path) -> None:
        torch.set_num_threads(1)
        self.root = scratch
        for kind in ("bpe", "word"):
            make_run(scratch, kind)
        self.files = {path: path.read_bytes() for path in scratch.rglob("*") if path.is_file()}
        self.before = {
            (name, way): read(scratch, name, translating=way)
            for name in ("bpe", "word")
            for way in (True, False)
        }

    def __call__(self, name: str, seed: int, number: int) -> tuple[str, str]:
        """Damage a file, read the run, restore it; what was done, and the outcome."""
        kind = KINDS[name]
        folder = self.root / kind.run
        path = folder / kind.file
        how, content = mutate(self.files[path], kind.way, f"{name} {seed} {number}")
        try:
            path.write_bytes(kind.sign(folder, content) if kind.sign else content)
            translating = kind.file in (_WEIGHTS, _SOURCE, _TARGET, "run.json")
            after = read(self.root, kind.run, translating=translating)
            before = self.before[kind.run, translating]
            return how, judge(before, after, protected=kind.protected)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a native library is no Exception
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            return how, f"FAILED: {type(error).__name__} at {place}: {str(error)[:100]}"
        finally:
            for file in (path, folder / "run.json", folder / _MEASURES):
                file.write_bytes(self.files[file])


# --- in a process of its own ---------------------------------------------------------------------


def _work(connection: Connection, seed: int) -> None:
    """Answer (kind, number) with what was done and the outcome, in 1 GiB more than at first."""
    import resource  # of POSIX systems

    with tempfile.TemporaryDirectory() as scratch:
        damage = Damage(Path(scratch))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _GIB, used + _GIB))
        connection.send(("", "ready"))
        while (asked := connection.recv()) is not None:
            connection.send(damage(asked[0], seed, asked[1]))


class Worker:
    """A process that does the damage; after it died or was killed, another one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, self._seed), daemon=True)
        self._process.start()
        other.close()
        self._connection.recv()

    def __call__(self, name: str, number: int) -> tuple[str, str]:
        """What was done to a file, and the outcome."""
        self._connection.send((name, number))
        if not self._connection.poll(_SECONDS):
            outcome = f"FAILED: no answer within {_SECONDS:.0f} s"
        else:
            try:
                how, outcome = self._connection.recv()
                return str(how), str(outcome)
            except EOFError:
                self._process.join()
                outcome = f"FAILED: the process died with status {self._process.exitcode}"
        self._process.kill()
        self._process.join()
        self._start()
        return "?", outcome

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


@dataclass(frozen=True)
class Arguments:
    """Damage files and read them; ends with status 1 if anything failed."""

    count: int = 1_000
    """Mutations of each kind of file."""
    seed: int = 0
    """Decides all of them."""
    kinds: tuple[str, ...] = tuple(KINDS)
    """Of file."""
    first: int = 0
    """Number of the first mutation."""


def main(arguments: Arguments) -> int:
    """Do it; how many failed."""
    worker, failed = Worker(arguments.seed), 0
    table = [f"| {' | '.join(('file', *FINE, 'failed'))} |", "|---" * (len(FINE) + 2) + "|"]
    for name in arguments.kinds:
        outcomes = Counter[str]()
        numbers = range(arguments.first, arguments.first + arguments.count)
        for number in tqdm(numbers, desc=name, leave=False):
            how, outcome = worker(name, number)
            outcomes[outcome] += 1
            if outcome not in FINE:
                failed += 1
                tqdm.write(f"{name} {number}: {how}: {outcome}")
        bad = sum(count for outcome, count in outcomes.items() if outcome not in FINE)
        table.append(f"| {name} | {' | '.join(str(outcomes[o]) for o in FINE)} | {bad} |")
    worker.close()
    print("\n".join(table))
    return failed


if __name__ == "__main__":
    if not Path("/proc/self/statm").exists() or os.name != "posix":
        sys.exit("error: memory is watched as Linux has it")
    sys.exit(bool(main(tyro.cli(Arguments))))
