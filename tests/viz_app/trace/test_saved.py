"""Traces written and read back, files that are none, and files that lie about what is in them."""

from __future__ import annotations

import io
import json
import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from headwise.model.turned import Turned
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace import saved
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz

WRITERS: dict[str, Callable[[Trace], bytes]] = {".npz": to_npz, ".json": to_json}
BROKEN = r"not a saved trace, or a broken one \("
MOST_MEMORY = 2**23
Values = dict[str, Any]
both = pytest.mark.parametrize("suffix", list(WRITERS))


class Bait:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def contents(trace: Trace) -> Values:
    """What a file of a trace has, name by name, to be changed and written again."""
    return json.loads(to_json(trace)) | {name: array.copy() for name, array in trace.arrays()}


def write(path: Path, values: Values) -> Path:
    """A file with these contents, whatever they are."""
    if path.suffix == ".json":
        path.write_text(json.dumps(values, default=np.ndarray.tolist).replace("NaN", "null"))
    else:
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        said = {name: value for name, value in values.items() if name not in arrays}
        np.savez(path, **{"about": np.array(json.dumps(said))} | arrays)
    return path


def save(trace: Trace, path: Path) -> Path:
    path.write_bytes(WRITERS[path.suffix](trace))
    return path


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


def assert_equal(read: Trace, trace: Trace) -> None:
    """Equal in every field, arrays to the last bit, in their type, and read-only."""
    arrays, expected = dict(read.arrays()), dict(trace.arrays())
    assert list(arrays) == list(expected)
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype, name
        assert array.tobytes() == expected[name].tobytes(), name
        assert array.shape == expected[name].shape, name
        assert not array.flags.writeable, name
    for field in fields(Trace):
        value = getattr(trace, field.name)
        has_arrays = isinstance(value, (dict, np.ndarray)) or (
            is_dataclass(value) and isinstance(next(iter(vars(value).values())), np.ndarray)
        )
        if not has_arrays:
            assert getattr(read, field.name) == value, field.name


# What is written


@both
def test_a_trace_is_read_as_written_to_the_bit(trace: Trace, tmp_path: Path, suffix: str) -> None:
    """With numbers that are hard to write: of infinite ones JSON makes null."""
    tiny = np.nextafter(np.float32(0), np.float32(1))
    stream = trace.encoder_stream.copy()
    stream[0, 0, :4] = np.array([tiny, -0.0, 1 / 3, np.pi * 1e30], dtype=np.float32)
    changed: Values = {}
    for name in ("log_probability", "top_log_probability", "lens_log_probability"):
        changed[name] = getattr(trace.predictions, name).copy()
        changed[name][1] = -np.inf
    trace = replace(
        trace,
        encoder_stream=stream,
        predictions=replace(trace.predictions, **changed),
        turned=Turned.of(
            {("cross", 1, 2): 0, ("encoder_self", 0, 0): -1 / 3},
            [
                (("cross", 0, 1), 2, 1),
                (("decoder_self", 1, 0), 2, None),
                (("encoder_self", 0, 0), 1, (1 / 3, 2 / 3)),
            ],
        ),
        source_text='a "quoted" \\ sentence\u2028 with 👩‍👩‍👧 and {{TITLE}}',
    )
    assert_equal(read_trace(save(trace, tmp_path / f"trace{suffix}")), trace)
    assert json.loads(to_json(trace))["log_probability"][1] is None


def test_files_have_every_array_by_its_name_and_the_same_description(trace: Trace) -> None:
    values = json.loads(to_json(trace))
    with np.load(io.BytesIO(to_npz(trace)), allow_pickle=False) as file:
        names = {name for name, _ in trace.arrays()}
        assert set(file) == names | {"about"}
        for name, array in trace.arrays():
            assert file[name].dtype == array.dtype, name
            np.testing.assert_array_equal(file[name], array, err_msg=name)
            np.testing.assert_array_equal(np.array(values[name], array.dtype), array, err_msg=name)
        assert json.loads(str(file["about"])) == {
            name: value for name, value in values.items() if name not in names
        }


@both
def test_a_file_of_when_heads_were_off_is_read(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = contents(trace)
    assert not {"strengths", "pinned"} & set(values)
    values["switched_off"] = [["cross", 1, 2], ["encoder_self", 0, 0]]
    read = read_trace(write(tmp_path / f"trace{suffix}", values))
    assert read.turned == Turned.off([("cross", 1, 2), ("encoder_self", 0, 0)])
    assert json.loads(to_json(read))["switched_off"] == values["switched_off"]


# What is read


@both
def test_a_file_without_sums_over_heads_is_read(trace: Trace, tmp_path: Path, suffix: str) -> None:
    left = {name: value for name, value in contents(trace).items() if "head_sum" not in name}
    read = read_trace(write(tmp_path / f"trace{suffix}", left))
    assert_equal(read, replace(trace, head_sum_norms={}))
    assert_equal(read_trace(save(read, tmp_path / f"again{suffix}")), read)


def test_numbers_in_other_orders_of_axes_or_bytes_are_kept(trace: Trace, tmp_path: Path) -> None:
    values = contents(trace)
    turned = {name: np.array(array, order="F") for name, array in trace.arrays()}
    turned["entropy"] = turned["entropy"].astype(">f4")
    read = read_trace(write(tmp_path / "trace.npz", values | turned))
    assert_equal(read, trace)
    assert json.loads(to_json(read)) == json.loads(to_json(trace))


# What is refused


@pytest.mark.parametrize("name", ["trace.html", "trace", "trace.npz.gz", "trace.NPZ"])
def test_unknown_suffix_is_refused(trace: Trace, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(to_npz(trace))
    with pytest.raises(ValueError, match=rf"{name}: expected a name that ends in .npz or .json$"):
        read_trace(path)


@both
def test_a_missing_file_and_a_folder_are_named(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_trace(tmp_path / f"nowhere{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(ValueError, match=r"folder\.\w+: expected a regular file"):
        read_trace(tmp_path / f"folder{suffix}")


@both
def test_file_that_is_not_a_trace_is_refused(trace: Trace, tmp_path: Path, suffix: str) -> None:
    whole, single = WRITERS[suffix](trace), io.BytesIO()
    np.save(single, np.zeros(3))
    path = tmp_path / f"trace{suffix}"
    for content in (
        *(b"", b"PK\x03\x04", b"\x80\x04\x95", bytes(range(256)) * 40, single.getvalue()),
        *(b"[]", b"null", b'{"a": 1}'),
        *(whole[: int(share * len(whole))] for share in (0.5, 0.999)),
    ):
        path.write_bytes(content)
        refuse(path, "")


@both
def test_file_with_a_missing_part_is_refused(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = contents(trace)
    for name in [*values][:: 1 if suffix == ".npz" else 5]:  # to read JSON takes long
        left = {key: value for key, value in values.items() if key != name}
        refuse(write(tmp_path / f"trace{suffix}", left), rf".*\b{name}\b")


def cut(name: str) -> Callable[[Values], None]:
    return lambda values: values.update({name: values[name][..., 1:, :]})


def put(name: str, number: float) -> Callable[[Values], None]:
    """Puts a number into the first cell of an array."""
    return lambda values: np.put(values[name], 0, np.float32(min(number, 3e38)))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (lambda v: v.update(schema_version=2), r"expected version 1 of the format, got 2\)$"),
        (lambda v: v.update(schema_version="1"), r"expected version 1 of the format, got '1'\)$"),
        (lambda v: v.update(step="60"), "step: expected a valid integer"),
        (lambda v: v.update(step=2**70), "step: expected a valid integer"),
        (lambda v: v.update(more=1), "more: "),
        (lambda v: v["source"]["pieces"].pop(), r"expected \d+ pieces, got \d+"),
        (lambda v: v["source"]["words"].pop(0), "expected words that follow one another"),
        (lambda v: v["source"]["words"].pop(), "expected words that follow one another"),
        (lambda v: v.update(predicted=v["source"]), r"expected predictions of \d+ positions"),
        (lambda v: v["top_pieces"].pop(), r"expected predictions of \d+ positions"),
        (lambda v: v["lens_pieces"][0][0].pop(), r"expected predictions of \d+ positions"),
        (lambda v: v.update(switched_off=[["cross", 0, 3]]), "there is no head cross 0 3"),
        (lambda v: v.update(strengths=[["cross", 0, 3, 2.0]]), "there is no head cross 0 3"),
        (lambda v: v.update(strengths=[["cross", 0, 0, 3.5]]), "strength .* expected -1 to 3"),
        (lambda v: v.update(pinned=[["cross", 0, 0, 1, 99]]), "row 2 of .* expected a key up to"),
        (lambda v: v.update(pinned=[["decoder_self", 0, 0, 1, 2]]), "row 2 of .* from 1 to 2"),
        (cut("attention_cross"), "attention_cross: expected Ld H_cross T S = "),
        (cut("keys_cross"), "keys_cross: expected Ld H_cross S K_cross = "),
        (cut("encoder_stream"), r"encoder_stream: expected Le\+1 S De = "),
        (cut("lens_ids"), r"lens_ids: expected Ld\+1 T k = "),
        *(
            (put("attention_cross", weight), "attention_cross: expected weights from 0 to 1")
            for weight in (-0.1, 1.5, float("nan"), 1e300)
        ),
        (put("lens_log_probability", 99), "lens_.*: expected logarithms of at most 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    trace: Trace, tmp_path: Path, how: Callable[[Values], None], reason: str
) -> None:
    values = contents(trace)
    how(values)
    refuse(write(tmp_path / "trace.npz", values), reason)


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
    refuse(write(tmp_path / "trace.json", contents(trace) | {"entropy": value}), reason)


@pytest.mark.parametrize("name", ["about", "attention_cross", "another"])
def test_pickles_are_never_loaded(trace: Trace, tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    bait = np.array([Bait(made)], dtype=object)
    path = write(tmp_path / "trace.npz", contents(trace) | {name: bait})
    refuse(path, "")
    assert not made.exists()
    with np.load(path, allow_pickle=True) as file:
        file[name]
    assert made.is_dir()  # it was a bait


# Archives that lie


def header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": descr})
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "member", "reason"),
    [
        *(
            ("encoder_stream", header(shape) + b"1234", "encoder_stream: expected the shape of")
            for shape in ((2**41,), (2**20, 2**21), (0, 2**50))
        ),
        ("encoder_stream", header((25_000, 1_000)) + bytes(10**8), "expected at most .* bytes in"),
        ("entropy", header((1,), "<f8") + bytes(8), "entropy: .* type float32, got float64"),
        ("about", header((), "<i8") + bytes(8), "about: "),
    ],
    ids=["long", "wide", "none", "much", "double", "number"],
)
def test_arrays_of_another_shape_or_type_than_they_say_are_refused(
    trace: Trace, tmp_path: Path, name: str, member: bytes, reason: str
) -> None:
    """One of them is much that was compressed to little."""
    path = tmp_path / "trace.npz"
    with (
        zipfile.ZipFile(io.BytesIO(to_npz(trace))) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            new.writestr(each, member if each == f"{name}.npy" else old.read(each))
    assert path.stat().st_size < 1_000_000
    refuse(path, reason)


def test_parts_that_no_trace_has_or_that_are_there_twice(trace: Trace, tmp_path: Path) -> None:
    more = {"more\x1b[2J": np.zeros(2, np.float32)}
    path = write(tmp_path / "trace.npz", contents(trace) | more)
    refuse(path, re.escape(r"'more\x1b[2J': a trace has nothing of this name"))
    path = save(trace, path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("entropy.npy", b"")
    refuse(path, "entropy: is there twice")


@pytest.mark.parametrize("method", [12, 99])
def test_zip_with_wrong_compression_is_refused(trace: Trace, tmp_path: Path, method: int) -> None:
    path = tmp_path / "trace.npz"
    entry = re.compile(rb"(PK\x01\x02.{6}).", re.DOTALL)
    path.write_bytes(entry.sub(lambda m: m[1] + bytes([method]), to_npz(trace)))
    refuse(path, "")


def test_files_of_too_much(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = len(to_npz(trace))
    path = save(trace, tmp_path / "trace.npz")
    monkeypatch.setattr(saved, "MOST_BYTES", most)
    refuse(path, f"expected at most {most:,} bytes in it, got")
    for suffix, name in ((".npz", "MOST_BYTES"), (".json", "MOST_JSON_BYTES")):
        monkeypatch.setattr(saved, name, 1_000)
        path = save(trace, tmp_path / f"trace{suffix}")
        with pytest.raises(ValueError, match=rf"{path}: expected at most 1,000 bytes, got \d"):
            read_trace(path)


@both
def test_a_check_without_a_number_has_not_passed(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = contents(trace)
    values["checks"][0]["deviation"] = None
    read = read_trace(write(tmp_path / f"trace{suffix}", values))
    assert [check.passed for check in read.checks] == [False, True, True, True]
