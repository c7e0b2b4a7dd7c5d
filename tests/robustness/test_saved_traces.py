"""Files of saved traces are changed in many ways; reading refuses them or gives a whole trace.

Traces come from others too. Each changed file must be refused with a ValueError that names it, or
be read as a trace of which every form can be written; neither may take more than 64 MiB.
"""

from __future__ import annotations

import io
import random
import tracemalloc
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.lib import format as npy

from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.robustness.corruptions import Corrupter, Corruption, corrupt, of_json
from tests.robustness.outcomes import outcomes_of
from tests.robustness.tiny_run import markup_model

_MOST_MEMORY = 2**26
_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2**40,), (2**20, 2**20), (10**6, 3, 0))
_TYPES = ("<f4", ">f4", "<f8", "<i8", "|b1", "|O", "<U7", "|V9", "<c8", "<M8[s]", "<f2")


def of_archive(content: bytes, rng: random.Random) -> Corruption:
    """Change one member of an .npz file: its header, its text, its name or its place."""
    members = _members_of(content)
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


def _members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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


FORMS: dict[str, Corrupter] = {".npz": of_archive, ".json": of_json}


def outcome_of(path: Path, content: bytes, seed: int) -> str:
    """Change a saved trace and read it; say whether it was refused."""
    how, changed = corrupt(content, FORMS[path.suffix], seed)
    hypothesis.note(how)
    return outcome_of_content(path, changed)


def outcome_of_content(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(action="error"):
            outcome = _read_and_write(path)
        assert tracemalloc.get_traced_memory()[1] <= _MOST_MEMORY
    finally:
        tracemalloc.stop()
    return outcome


def _read_and_write(path: Path) -> str:
    try:
        trace = read_trace(path)
    except ValueError as error:
        if not str(error).startswith(f"{path}: "):
            raise
        return "refused"
    for write in (to_html, to_npz, to_json):
        write(trace)
    return "read"


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    """A saved trace in each form."""
    model, tokenizers = markup_model("bpe")
    trace = run_trace(model, tokenizers, "The old man.")
    return {".npz": to_npz(trace), ".json": to_json(trace)}


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_file_is_refused_or_a_trace_that_can_be_written(
    contents: dict[str, bytes], tmp_path: Path, form: str
) -> None:
    changed = partial(outcome_of, tmp_path / f"trace{form}", contents[form])
    outcomes = outcomes_of(changed, st.integers(0, 2**64), share=2)
    assert set(outcomes) == {"refused", "read"}


def test_a_text_is_as_long_as_its_header_says(contents: dict[str, bytes], tmp_path: Path) -> None:
    """Nothing else bounds it before it is read: arrays must also fit the tokens."""
    header, archived = io.BytesIO(), io.BytesIO()
    promised = {"shape": (), "fortran_order": False, "descr": "<U100000000"}
    npy.write_array_header_1_0(header, promised)
    with zipfile.ZipFile(archived, "w") as archive:
        for name, data in (
            _members_of(contents[".npz"]) | {"about.npy": header.getvalue()}
        ).items():
            archive.writestr(name, data)
    assert outcome_of_content(tmp_path / "trace.npz", archived.getvalue()) == "refused"
