"""Files of traces that lie about what is in them, or in which parts do not fit one another."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace import saved, saved_format
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from tests.viz_app.trace.test_saved import SUFFIXES, about, contents, save, write

BROKEN = r"not a saved trace, or a broken one \("
MOST_MEMORY = 2**23


def refuse(path: Path, reason: str) -> None:
    """The file is refused for this reason, and little memory is taken before that."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"{path.name}: {BROKEN}{reason}"):
            read_trace(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_MEMORY


def with_member(content: bytes, name: str, member: bytes) -> bytes:
    """An .npz file with another content for one of its arrays."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            new.writestr(each, member if each == f"{name}.npy" else old.read(each))
    return buffer.getvalue()


def header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": descr})
    return buffer.getvalue()


def change(values: dict[str, Any], how: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The content of a file after a change of all but its arrays."""
    said = about(values)
    how(said)
    return values | (said if "about" not in values else {"about": np.array(json.dumps(said))})


@pytest.mark.parametrize("shape", [(2**41,), (2**20, 2**21), (0, 2**50)])
def test_header_that_claims_more_than_there_is(
    trace: Trace, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(with_member(to_npz(trace), "encoder_stream", header(shape) + b"1234"))
    refuse(path, "encoder_stream: expected the shape of")


def test_much_that_was_compressed_to_little(trace: Trace, tmp_path: Path) -> None:
    zeros = header((25_000, 1_000)) + bytes(100_000_000)
    path = tmp_path / "trace.npz"
    path.write_bytes(with_member(to_npz(trace), "encoder_stream", zeros))
    assert path.stat().st_size < 1_000_000
    refuse(path, "encoder_stream: expected Le")


def test_more_than_a_file_may_have(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = len(to_npz(trace))
    path = save(trace, tmp_path / "trace.npz")
    monkeypatch.setattr(saved_format, "MOST_BYTES", most)
    refuse(path, f"expected at most {most:,} bytes in it, got")
    for suffix, name in ((".npz", "MOST_BYTES"), (".json", "MOST_JSON_BYTES")):
        monkeypatch.setattr(saved, name, 1_000)
        path = save(trace, tmp_path / f"trace{suffix}")
        with pytest.raises(ValueError, match=rf"{path}: expected at most 1,000 bytes, got \d"):
            read_trace(path)


def test_a_part_that_no_trace_has(trace: Trace, tmp_path: Path) -> None:
    values = contents(trace, ".npz") | {"more\x1b[2J": np.zeros(2, np.float32)}
    path = write(tmp_path / "trace.npz", values)
    refuse(path, re.escape(r"'more\x1b[2J': a trace has nothing of this name"))


def test_parts_of_other_types_or_twice(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(with_member(to_npz(trace), "entropy", header((1,), "<f8") + bytes(8)))
    refuse(path, "entropy: expected numbers of type float32, got float64")
    path.write_bytes(with_member(to_npz(trace), "about", header((), "<i8") + bytes(8)))
    refuse(path, "about: expected numbers|about: ")
    path.write_bytes(to_npz(trace))
    with (
        zipfile.ZipFile(path, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("entropy.npy", b"")
    refuse(path, "entropy: is there twice")


def test_numbers_in_another_order_of_axes_are_the_same(trace: Trace, tmp_path: Path) -> None:
    values = contents(trace, ".npz")
    turned = {name: np.array(value, order="F") for name, value in values.items()}
    path = write(tmp_path / "trace.npz", turned)
    read = read_trace(path)
    for name, array in read.arrays():
        np.testing.assert_array_equal(array, values[name])
    assert json.loads(to_json(read)) == contents(trace, ".json")


def test_numbers_in_the_other_byte_order_are_the_same(trace: Trace, tmp_path: Path) -> None:
    values = contents(trace, ".npz")
    path = write(tmp_path / "trace.npz", values | {"entropy": values["entropy"].astype(">f4")})
    read = read_trace(path).predictions.entropy
    np.testing.assert_array_equal(read, trace.predictions.entropy)
    assert read.dtype == np.float32


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("attention_cross", "attention_cross: expected Ld H_cross T S = "),
        ("keys_cross", "keys_cross: expected Ld H_cross S K_cross = "),
        ("encoder_stream", r"encoder_stream: expected Le\+1 S D = "),
        ("lens_ids", r"lens_ids: expected Ld\+1 T k = "),
    ],
)
def test_arrays_that_do_not_fit_the_tokens_or_one_another(
    trace: Trace, tmp_path: Path, suffix: str, name: str, reason: str
) -> None:
    values = contents(trace, suffix)
    cut = np.array(values[name])[..., 1:, :]
    values |= {name: cut.tolist() if suffix == ".json" else cut}
    refuse(write(tmp_path / f"trace{suffix}", values), reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([0.5, 1], "entropy: expected T = "),
        ([[0.5], [1, 2]], "entropy: expected numbers in rows of one length, got list"),
        (["0.5"], "entropy: expected numbers in rows of one length, got str"),
        ([True], "entropy: expected numbers in rows of one length, got bool"),
        ("a" * 100_000, "entropy: expected numbers in rows of one length, got str"),
    ],
)
def test_lists_that_are_no_array(trace: Trace, tmp_path: Path, value: object, reason: str) -> None:
    path = write(tmp_path / "trace.json", contents(trace, ".json") | {"entropy": value})
    refuse(path, reason)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (lambda said: said.update(step="60"), "step: expected a valid integer"),
        (lambda said: said.update(step=2**70), "step: expected a valid integer"),
        (lambda said: said.update(more=1), "more: "),
        (lambda said: said["source"]["pieces"].pop(), r"expected \d+ pieces, got \d+"),
        (lambda said: said["source"]["words"].pop(0), "expected words that follow one another"),
        (lambda said: said["source"]["words"].pop(), "expected words that follow one another"),
        (lambda said: said.update(predicted=said["source"]), r"expected predictions of \d+ steps"),
        (lambda said: said["top_pieces"].pop(), r"expected predictions of \d+ steps"),
        (lambda said: said["lens_pieces"][0][0].pop(), r"expected predictions of \d+ steps"),
        (
            lambda said: said.update(switched_off=[["cross", 0, 3]]),
            "switched_off: there is no head cross 0 3",
        ),
    ],
)
def test_descriptions_that_do_not_fit(
    trace: Trace,
    tmp_path: Path,
    suffix: str,
    how: Callable[[dict[str, Any]], None],
    reason: str,
) -> None:
    values = change(contents(trace, suffix), how)
    refuse(write(tmp_path / f"trace{suffix}", values), reason)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan"), 1e300])
def test_weights_that_are_no_shares(
    trace: Trace, tmp_path: Path, suffix: str, weight: float
) -> None:
    values = contents(trace, suffix)
    with np.errstate(over="ignore"):
        changed = np.array(values["attention_cross"], np.float64)
        changed[0, 0, 0, 0] = weight
        values["attention_cross"] = (
            json.loads(json.dumps(changed.tolist()).replace("NaN", "null"))
            if suffix == ".json"
            else changed.astype(np.float32)
        )
    refuse(
        write(tmp_path / f"trace{suffix}", values), "attention_cross: expected weights from 0 to 1"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_probabilities_above_1(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = contents(trace, suffix)
    changed = np.array(values["lens_log_probability"], np.float32)
    changed[0, 0, 0] = 99
    values["lens_log_probability"] = changed.tolist() if suffix == ".json" else changed
    reason = "lens_log_probability: expected logarithms of at most 0"
    refuse(write(tmp_path / f"trace{suffix}", values), reason)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_check_without_a_number_has_not_passed(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = change(contents(trace, suffix), lambda said: said["checks"][0].update(deviation=None))
    read = read_trace(write(tmp_path / f"trace{suffix}", values))
    assert [check.passed for check in read.checks] == [False, True, True, True]
