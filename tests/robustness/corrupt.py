"""Corrupt every kind of file of a run in many ways, and check what reading the run does.

    python -m tests.robustness.corrupt [--count 1000] [--seed 0] [--kinds run.json …] [--first 0]

Everything in a tiny run is read, as the app and the programs read it, in a process that may use
1 GiB more than before and 20 s. Each corruption must end in one of these:

* refused: CheckpointError, and what stands in other files is as it was;
* the same: no difference in anything that is read;
* rows before: of a log, the rows before the corrupted one, as after a training that was killed;
* other content: another valid file. This cannot be noticed where no sha256 protects a file
  (run.json, counts, logs, measures, alignments), nor where the sha256 was corrected too: the kinds
  that end in "+" are such forgeries, which pass the check and reach the libraries behind it.

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

from headwise.model.checkpoint import CheckpointError
from tests.robustness.corruptions import Corrupter, corrupt, of_header, of_json, of_json_lines
from tests.robustness.read_run import read_run
from tests.robustness.tiny_run import STEP, make_run

_GIB = 2**30
_SECONDS = 20.0
_WEIGHTS = f"step-{STEP:07d}.safetensors"
_MEASURES = f"measures/step-{STEP:07d}.json"
_RESUME = f"resume/step-{STEP:07d}"

FINE = ("refused", "the same", "rows before", "other content")


@dataclass(frozen=True)
class FileKind:
    """One kind of file in a run, and how it is corrupted."""

    run: str
    file: str
    corrupter: Corrupter
    """Changes its structure."""
    protected: bool = False
    """Whether a sha256 says what must be in it."""
    forge: Callable[[Path, bytes], bytes] | None = None
    """Corrects the sha256, in this content or in another file; gives the content to write."""


def _forge_weights(folder: Path, content: bytes) -> bytes:
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


def _forge_in(json_file: str, old: str, folder: Path, content: bytes) -> bytes:
    """Write the sha256 of the content into another file, in place of that of the file ``old``."""
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
    "weights": FileKind("bpe", _WEIGHTS, of_header, protected=True),
    "weights+": FileKind("bpe", _WEIGHTS, of_header, forge=_forge_weights),
    "bpe tokenizer": FileKind("bpe", _SOURCE, of_json, protected=True),
    "bpe tokenizer+": FileKind(
        "bpe", _SOURCE, of_json, forge=partial(_forge_in, "run.json", _SOURCE)
    ),
    "word tokenizer": FileKind("word", _TARGET, of_json, protected=True),
    "word tokenizer+": FileKind(
        "word", _TARGET, of_json, forge=partial(_forge_in, "run.json", _TARGET)
    ),
    "run.json": FileKind("bpe", "run.json", of_json),
    "counts.json": FileKind("bpe", "counts.json", of_json),
    "metrics.jsonl": FileKind("bpe", "metrics.jsonl", of_json_lines),
    "samples.jsonl": FileKind("bpe", "samples.jsonl", of_json_lines),
    "measures": FileKind("bpe", _MEASURES, of_json),
    "sentences.jsonl": FileKind("bpe", _SENTENCES, of_json_lines, protected=True),
    "sentences.jsonl+": FileKind(
        "bpe", _SENTENCES, of_json_lines, forge=partial(_forge_in, _MEASURES, _SENTENCES)
    ),
    "alignments.jsonl": FileKind("bpe", "alignments.jsonl", of_json_lines),
    "resume weights": FileKind("bpe", f"{_RESUME}/state.safetensors", of_header),
    "resume state": FileKind("bpe", f"{_RESUME}/state.json", of_json),
}


def outcome_of(before: dict[str, Any], after: dict[str, Any], *, protected: bool) -> str:
    """Classify what reading a run gave before and after one of its files was corrupted."""
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


class Corruptible:
    """Two tiny runs whose files can be corrupted, and what reading them gives before that."""

    def __init__(self, scratch: Path) -> None:
        torch.set_num_threads(1)
        self.root = scratch
        for kind in ("bpe", "word"):
            make_run(scratch, kind)
        self.files = {path: path.read_bytes() for path in scratch.rglob("*") if path.is_file()}
        self.before = {
            (name, translating): read_run(scratch, name, translating=translating)
            for name in ("bpe", "word")
            for translating in (True, False)
        }

    def __call__(self, name: str, seed: int, number: int) -> tuple[str, str]:
        """Corrupt a file, read the run, restore it; return what was done, and the outcome."""
        kind = KINDS[name]
        folder = self.root / kind.run
        path = folder / kind.file
        how, content = corrupt(self.files[path], kind.corrupter, f"{name} {seed} {number}")
        try:
            path.write_bytes(kind.forge(folder, content) if kind.forge else content)
            translating = kind.file in (_WEIGHTS, _SOURCE, _TARGET, "run.json")
            after = read_run(self.root, kind.run, translating=translating)
            before = self.before[kind.run, translating]
            return how, outcome_of(before, after, protected=kind.protected)
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
    """Answer each (kind, number) with what was done and the outcome, in at most 1 GiB more."""
    import resource  # of POSIX systems

    with tempfile.TemporaryDirectory() as scratch:
        runs = Corruptible(Path(scratch))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _GIB, used + _GIB))
        connection.send(("", "ready"))
        while (asked := connection.recv()) is not None:
            connection.send(runs(asked[0], seed, asked[1]))


class Worker:
    """A process that corrupts and reads; it is replaced by another when it dies or hangs."""

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
        """Corrupt a file; return what was done to it, and the outcome."""
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
class CorruptArguments:
    """Corrupt files and read them; ends with status 1 if anything failed."""

    count: int = 1_000
    """Corruptions of each kind of file."""
    seed: int = 0
    """Seed of the corruptions."""
    kinds: tuple[str, ...] = tuple(KINDS)
    """Kinds of file."""
    first: int = 0
    """Number of the first corruption."""


def main(arguments: CorruptArguments) -> int:
    """Corrupt as the arguments say; return how many failed."""
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
    sys.exit(bool(main(tyro.cli(CorruptArguments))))
