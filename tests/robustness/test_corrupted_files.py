"""Files of a run are corrupted in many ways; reading the run refuses them, or reads a valid run.

Everything in a tiny run is read, as the app and the programs read it, with at most 1 GiB more
memory than before and within 20 s. Each corruption must end in one of these:

* refused: CheckpointError, and what stands in other files is as it was;
* the same: no difference in anything that is read;
* rows before: of a log, the rows before the corrupted one, as after a training that was killed;
* other content: another valid file. This cannot be noticed where no sha256 protects a file
  (run.json, counts, logs, measures, pairs, alignments), nor where the sha256 was corrected too: the
  kinds that end in "+" are such forgeries, which pass the check and reach the libraries behind it.

Anything else fails: another exception, a native library that panics or kills the process, a hang,
too much memory, or other content of a file that a sha256 protects.
"""

from __future__ import annotations

import hashlib
import json
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from headwise.model.checkpoint import CheckpointError
from tests.robustness.corruptions import Corrupter, corrupt, of_header, of_json, of_json_lines
from tests.robustness.outcomes import outcomes_of
from tests.robustness.read_run import read_run
from tests.robustness.tiny_run import STEP, make_run

_GIB = 2**30
_SECONDS = 20
"""Of a processor; other work on the machine does not count."""
_WAITING = 200
"""Seconds on the clock, for what waits."""
_WEIGHTS = f"step-{STEP:07d}.safetensors"
_MEASURES = f"measures/step-{STEP:07d}.json"
_MEANS = f"measures/step-{STEP:07d}.means.safetensors"
_COSTS = f"measures/step-{STEP:07d}.costs.safetensors"
_RESAMPLES = f"measures/step-{STEP:07d}.resamples.safetensors"
_PAIRS = "measures/pairs.json"
_NEURONS = f"measures/neurons-{STEP:07d}.safetensors"
HEADS = ("encoder_self", "decoder_self", "cross")
_RESUME = f"resume/step-{STEP:07d}"


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


def _forge_header(names: Sequence[str], folder: Path, content: bytes) -> bytes:
    """Correct the sha256 of a file of safetensors: of weights, or of these tensors."""
    length = int.from_bytes(content[:8], "little")
    rest = content[8 + length :]
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        if names:
            digest = hashlib.sha256(metadata["about"].encode())
            for name in names:
                start, stop = header[name]["data_offsets"]
                digest.update(repr(tuple(header[name]["shape"])).encode())
                digest.update(rest[start:stop])
        else:
            digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode() + rest)
        metadata["sha256"] = digest.hexdigest()
        signed = json.dumps({**header, "__metadata__": metadata}).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return content
    return len(signed).to_bytes(8, "little") + signed + rest


def _forge_in(json_file: str, old: str, folder: Path, content: bytes) -> bytes:
    """Write the sha256 of the content into another file, in place of that of the file ``old``."""
    before = hashlib.sha256((folder / old).read_bytes()).hexdigest()
    now = hashlib.sha256(content).hexdigest()
    (folder / json_file).write_text((folder / json_file).read_text().replace(before, now))
    return content


_SOURCE, _TARGET = "source.tokenizer.json", "target.tokenizer.json"
_SENTENCES = "measures/sentences.jsonl"
Forge = Callable[[Path, bytes], bytes]


def _both(
    name: str, file: str, forge: Forge, how: Corrupter, run: str = "bpe"
) -> dict[str, FileKind]:
    """Return a kind that a sha256 protects, and its forgeries."""
    return {
        name: FileKind(run, file, how, protected=True),
        f"{name}+": FileKind(run, file, how, forge=forge),
    }


def _tensors(*names: str) -> Forge:
    return partial(_forge_header, names)


KINDS = {
    **_both("weights", _WEIGHTS, _tensors(), of_header),
    **_both("bpe tokenizer", _SOURCE, partial(_forge_in, "run.json", _SOURCE), of_json),
    **_both("word tokenizer", _TARGET, partial(_forge_in, "run.json", _TARGET), of_json, "word"),
    "run.json": FileKind("bpe", "run.json", of_json),
    "counts.json": FileKind("bpe", "counts.json", of_json),
    "metrics.jsonl": FileKind("bpe", "metrics.jsonl", of_json_lines),
    "samples.jsonl": FileKind("bpe", "samples.jsonl", of_json_lines),
    "measures": FileKind("bpe", _MEASURES, of_json),
    **_both("means", _MEANS, _tensors(*HEADS), of_header),
    **_both("costs", _COSTS, _tensors("places", "tokens", *HEADS), of_header),
    **_both("resamples", _RESAMPLES, _tensors(*HEADS), of_header),
    **_both(
        "sentences.jsonl", _SENTENCES, partial(_forge_in, _MEASURES, _SENTENCES), of_json_lines
    ),
    "pairs": FileKind("bpe", _PAIRS, of_json),
    "neurons": FileKind("bpe", _NEURONS, of_header),
    "alignments.jsonl": FileKind("bpe", "alignments.jsonl", of_json_lines),
    "resume weights": FileKind("bpe", f"{_RESUME}/state.safetensors", of_header),
    "resume state": FileKind("bpe", f"{_RESUME}/state.json", of_json),
}


def outcome_of(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Classify what reading a run gave before and after one of its files was corrupted."""
    differing = {key for key in before if before[key] != after.get(key)}
    if not differing:
        return "the same"
    if all(after.get(key, CheckpointError) is CheckpointError for key in differing):
        return "refused"
    if all(
        isinstance(before[key], list) and before[key][: len(after[key])] == after[key]
        for key in differing
    ):
        return "rows before"
    return "other content"


class Hang(BaseException):
    """Reading took too long; no code that catches exceptions goes on after it."""


def _stop(*_: object) -> None:
    raise Hang(f"no answer within {_SECONDS} s of computing, or {_WAITING} s of waiting")


@contextmanager
def limited() -> Iterator[None]:
    """Limit memory, where the system is Linux, and time."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if (used := Path("/proc/self/statm")).exists():
        most = int(used.read_text().split()[0]) * resource.getpagesize() + _GIB
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.signal(signal.SIGALRM, _stop)
    signal.signal(signal.SIGPROF, _stop)
    signal.alarm(_WAITING)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)


class Corruptible:
    """Two tiny runs whose files can be corrupted, and what reading them gives before that."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for kind in ("bpe", "word"):
            make_run(root, kind)
        self.files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        self.before = {
            (name, translating): read_run(root, name, translating=translating)
            for name in ("bpe", "word")
            for translating in (True, False)
        }

    def outcome(self, kind: FileKind, seed: int) -> str:
        """Corrupt a file, read the run and restore the file."""
        folder = self.root / kind.run
        path = folder / kind.file
        how, content = corrupt(self.files[path], kind.corrupter, seed)
        hypothesis.note(how)
        try:
            path.write_bytes(kind.forge(folder, content) if kind.forge else content)
            translating = kind.file in (_WEIGHTS, _SOURCE, _TARGET, "run.json")
            with limited():
                after = read_run(self.root, kind.run, translating=translating)
            return outcome_of(self.before[kind.run, translating], after)
        finally:
            for file in (path, folder / "run.json", folder / _MEASURES):
                file.write_bytes(self.files[file])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Corruptible:
    return Corruptible(tmp_path_factory.mktemp("runs"))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_corrupted_file_is_refused_or_a_valid_one(runs: Corruptible, kind: FileKind) -> None:
    outcomes = outcomes_of(partial(runs.outcome, kind), st.integers(0, 2**64))
    assert outcomes["refused"] > 0
    if kind.protected:
        assert set(outcomes) <= {"refused", "the same"}


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ({"a": [1, 2], "b": 3}, "the same"),
        ({"a": [1], "b": 3}, "rows before"),
        ({"a": [2], "b": 3}, "other content"),
        ({"a": [1, 2], "b": 4}, "other content"),
        ({"a": [1, 2], "b": CheckpointError}, "refused"),
        ({"run": CheckpointError}, "refused"),
        ({"a": [1], "b": CheckpointError}, "other content"),
    ],
)
def test_outcomes_are_distinguished(after: dict[str, object], outcome: str) -> None:
    assert outcome_of({"a": [1, 2], "b": 3}, after) == outcome


def test_too_much_memory_or_time_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._WAITING", 1)
    with pytest.raises(Hang), limited():
        signal.pause()
    with monkeypatch.context() as short:
        short.setattr(f"{__name__}._SECONDS", 0.1)
        short.setattr(f"{__name__}._WAITING", 200)
        with pytest.raises(Hang), limited():
            all(iter(lambda: True, False))  # without an end
    if Path("/proc/self/statm").exists():
        with pytest.raises(MemoryError), limited():
            bytes(2 * _GIB)
