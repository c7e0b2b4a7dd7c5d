"""Change files of saved traces in many ways, and check what reading them does.

    python -m tests.robustness.saved_traces [--count 1000] [--seed 0]

Each changed file must be refused with a ValueError that names it, or be read as a trace of which
every other form can be written; neither may take more than 64 MiB. Anything else is printed with
its number: ``--first NUMBER --count 1`` with the same seed repeats it.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
import tracemalloc
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.lib import format as npy

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.robustness.corruptions import Corrupter, Corruption, corrupt, of_json
from tests.robustness.fuzz import tiny_model

_MOST_MEMORY = 2**26
_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2**40,), (2**20, 2**20), (10**6, 3, 0))
_TYPES = ("<f4", ">f4", "<f8", "<i8", "|b1", "|O", "<U7", "|V9", "<c8", "<M8[s]", "<f2")


def make_trace() -> Trace:
    """Trace a sentence with a tiny model."""
    model, tokenizers = tiny_model("bpe")
    return run_trace(model, tokenizers, "The old man gave the girl an apple.", run="tiny")


def of_archive(content: bytes, rng: random.Random) -> Corruption:
    """Change one member of an .npz file: its header, its text, its name or its place."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(["about.npy", *members])
    how = rng.choice(("shape", "type", "both", "text", "text", "text", "remove", "rename", "swap"))
    if how == "text":
        with np.load(io.BytesIO(content)) as file:
            said, changed = of_json(str(file["about"]).encode(), rng)
        members["about.npy"] = _written(np.array(changed.decode("utf-8", "replace")))
        how = f"about: {said}"
    elif how == "remove":
        del members[name]
    elif how == "rename":
        new = rng.choice((*members, "x.npy", "../x.npy", "about", "a" * 1_000))
        members[new] = members.pop(name)
    elif how == "swap":
        members[name] = members[rng.choice(list(members))]
    else:
        members[name] = _with_header(members[name], how, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
        if rng.random() < 0.05:
            with warnings.catch_warnings(action="ignore"):  # of a name that is there twice
                archive.writestr(name, members.get(name, b""))
    return f"{name}: {how}", buffer.getvalue()


def _written(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _with_header(member: bytes, how: str, rng: random.Random) -> bytes:
    file = io.BytesIO(member)
    npy.read_magic(file)
    shape, _, dtype = npy.read_array_header_1_0(file)
    data = file.read()
    if how in ("shape", "both"):
        shape = rng.choice((*_SHAPES, shape[::-1], (*shape, 1), shape[1:], (1, *shape)))
    descr = rng.choice(_TYPES) if how in ("type", "both") else dtype.str
    buffer = io.BytesIO()
    order = rng.random() < 0.1
    npy.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": order, "descr": descr})
    return buffer.getvalue() + data


KINDS: dict[str, Corrupter] = {".npz": of_archive, ".json": of_json}


class Changeable:
    """A saved trace in both forms, whose files can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        trace = make_trace()
        self.contents = {".npz": to_npz(trace), ".json": to_json(trace)}

    def __call__(self, suffix: str, seed: int, number: int) -> tuple[str, str]:
        """Change a file and read it; return what was done, and the outcome."""
        content = self.contents[suffix]
        how, changed = corrupt(content, KINDS[suffix], f"{suffix} {seed} {number}")
        path = self.folder / f"trace{suffix}"
        path.write_bytes(changed)
        tracemalloc.start()
        try:
            outcome = _outcome_of(path)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return how, f"FAILED: took {most:,} bytes" if most > _MOST_MEMORY else outcome


def _outcome_of(path: Path) -> str:
    with warnings.catch_warnings(action="error"):
        return _read_and_write(path)


def _read_and_write(path: Path) -> str:
    try:
        trace = read_trace(path)
    except ValueError as error:
        named = str(error).startswith(f"{path}: ")
        return "refused" if named else f"FAILED: {error} does not name the file"
    except Exception as error:
        return f"FAILED: reading: {type(error).__name__}: {str(error)[:200]}"
    try:
        for write in (to_html, to_npz, to_json):
            write(trace)
    except Exception as error:
        return f"FAILED: {write.__name__}: {type(error).__name__}: {str(error)[:200]}"
    return "read"


@dataclass(frozen=True)
class SavedTracesArguments:
    """Change files of saved traces and read them; ends with status 1 if anything failed."""

    count: int = 1_000
    """Changes of each form."""
    seed: int = 0
    """Seed of the changes."""
    first: int = 0
    """Number of the first change."""


def main(arguments: SavedTracesArguments) -> int:
    """Change files as the arguments say; return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        changeable = Changeable(Path(folder))
        for suffix in KINDS:
            outcomes = Counter[str]()
            for number in range(arguments.first, arguments.first + arguments.count):
                how, outcome = changeable(suffix, arguments.seed, number)
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith("FAILED"):
                    failed += 1
                    print(f"{suffix} {number}: {how}: {outcome}")
            print(f"{suffix}: {dict(outcomes)}")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(tyro.cli(SavedTracesArguments))))
