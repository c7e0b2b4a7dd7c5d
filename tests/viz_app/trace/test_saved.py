"""Traces written and read back, and files that are none."""

from __future__ import annotations

import io
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz

WRITERS: dict[str, Callable[[Trace], bytes]] = {".npz": to_npz, ".json": to_json}
SUFFIXES = list(WRITERS)
BROKEN = r"not a saved trace, or a broken one \("


class Bait:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def contents(trace: Trace, suffix: str) -> dict[str, Any]:
    """What a file of a trace has, name by name, to be changed and written again."""
    if suffix == ".json":
        return json.loads(to_json(trace))
    with np.load(io.BytesIO(to_npz(trace)), allow_pickle=False) as file:
        return dict(file)


def write(path: Path, values: dict[str, Any]) -> Path:
    """A file with these contents, whatever they are."""
    if path.suffix == ".json":
        path.write_text(json.dumps(values))
    else:
        np.savez(path, **values)
    return path


def about(values: dict[str, Any]) -> dict[str, Any]:
    """All but the arrays; of a .json file, these too."""
    return json.loads(str(values["about"])) if "about" in values else values


def save(trace: Trace, path: Path) -> Path:
    path.write_bytes(WRITERS[path.suffix](trace))
    return path


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


def damaged(content: bytes, generator: random.Random) -> bytes:
    """Cut off, with a part taken out, or with some bytes changed, anywhere or near the end."""
    damage = generator.choice(["cut", "gap", "change", "end"])
    at = generator.randrange(len(content))
    if damage == "cut":
        return content[:at]
    if damage == "gap":
        return content[:at] + content[at + generator.randrange(1, 50) :]
    changed = bytearray(content)
    first = max(0, len(content) - 3_000) if damage == "end" else 0  # there a .zip has its list
    for _ in range(generator.choice([1, 1, 3, 20])):
        changed[generator.randrange(first, len(content))] = generator.randrange(256)
    return bytes(changed)


# Round trips


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_trace_survives_writing_and_reading_bit_for_bit(
    trace: Trace, tmp_path: Path, suffix: str
) -> None:
    tiny = np.nextafter(np.float32(0), np.float32(1))
    odd = np.array([tiny, -0.0, 1 / 3, np.pi * 1e30], dtype=np.float32)
    stream = trace.encoder_stream.copy()
    stream[0, 0, : len(odd)] = odd
    trace = replace(
        trace,
        encoder_stream=stream,
        ablated=(("cross", 1, 2), ("encoder_self", 0, 0)),
        source_text='a "quoted" \\ sentence\u2028 with 👩‍👩‍👧 and {{TITLE}}',
    )
    assert_equal(read_trace(save(trace, tmp_path / f"trace{suffix}")), trace)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_infinite_log_probabilities_survive(trace: Trace, tmp_path: Path, suffix: str) -> None:
    predictions = trace.predictions
    changed: dict[str, Any] = {}
    for name in ("log_probability", "top_log_probability", "lens_log_probability"):
        changed[name] = getattr(predictions, name).copy()
        changed[name][1] = -np.inf
    trace = replace(trace, predictions=replace(predictions, **changed))
    assert_equal(read_trace(save(trace, tmp_path / f"trace{suffix}")), trace)
    if suffix == ".json":
        assert json.loads(to_json(trace))["log_probability"][1] is None


def test_npz_has_every_array_and_no_pickle(trace: Trace) -> None:
    with np.load(io.BytesIO(to_npz(trace)), allow_pickle=False) as file:
        names = {name for name, _ in trace.arrays()}
        assert set(file) == names | {"about"}
        for name, array in trace.arrays():
            np.testing.assert_array_equal(file[name], array, err_msg=name)
            assert file[name].dtype == array.dtype, name


def test_json_has_every_array_bit_for_bit(trace: Trace) -> None:
    values = json.loads(to_json(trace))
    for name, array in trace.arrays():
        np.testing.assert_array_equal(np.array(values[name], array.dtype), array, err_msg=name)


def test_npz_and_json_have_the_same_description(trace: Trace) -> None:
    said = about(contents(trace, ".npz"))
    values = contents(trace, ".json")
    assert {name: values[name] for name in said} == said
    assert set(values) - set(said) == {name for name, _ in trace.arrays()}


def test_description_of_a_saved_trace(trace: Trace) -> None:
    values = json.loads(to_json(trace))
    assert values["schema_version"] == 1
    assert (values["run"], values["step"], values["sha256"]) == ("tiny", 60, "5ha")
    assert values["source_text"] == "Don't worry, she sees him."
    assert values["target_text"] == "No te preocupes, ella lo ve."
    assert values["forced"] is True
    assert values["predicted"]["pieces"] == list(trace.predicted.texts)
    assert values["consumed"]["words"][0] == {"text": "<s>", "start": 0, "stop": 1}
    assert values["source"]["ids"] == list(trace.source.ids)
    assert values["top_pieces"] == [list(row) for row in trace.top_tokens]
    assert values["lens_pieces"][1][2] == list(trace.lens_tokens[1][2])
    assert [check["passed"] for check in values["checks"]] == [True] * 4
    assert values["summary"][-1] == {
        "name": "logits",
        "shape": list(trace.summary[-1].shape),
        "mean": trace.summary[-1].mean,
        "standard_deviation": trace.summary[-1].standard_deviation,
        "norm": trace.summary[-1].norm,
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_infinite_numbers_are_null_in_the_description(trace: Trace, suffix: str) -> None:
    summary = replace(trace.summary[0], mean=float("nan"), norm=float("inf"))
    values = contents(replace(trace, summary=(summary,)), suffix)
    written = about(values)["summary"][0]
    assert (written["mean"], written["norm"]) == (None, None)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_file_of_before_the_sums_over_heads_is_read_without_them(
    trace: Trace, tmp_path: Path, suffix: str
) -> None:
    values = contents(trace, suffix)
    left = {name: value for name, value in values.items() if "head_sum_norms" not in name}
    assert len(left) == len(values) - 3
    read = read_trace(write(tmp_path / f"trace{suffix}", left))
    assert read.head_sum_norms == {}
    assert_equal(read, replace(trace, head_sum_norms={}))
    assert_equal(read_trace(save(read, tmp_path / f"again{suffix}")), read)


# What is refused


@pytest.mark.parametrize("name", ["trace.html", "trace", "trace.npz.gz", "trace.NPZ"])
def test_unknown_suffix_is_refused(trace: Trace, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(to_npz(trace))
    with pytest.raises(ValueError, match=rf"{name}: expected a name that ends in .npz or .json$"):
        read_trace(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"\x80\x04\x95", bytes(range(256)) * 40, b"[]", b"null", b'{"a": 1}'],
    ids=["empty", "zip", "pickle", "garbage", "list", "null", "another object"],
)
def test_file_that_is_not_a_trace_is_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"trace\{suffix}: {BROKEN}"):
        read_trace(path)


def test_file_with_a_single_array_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    path = tmp_path / "trace.npz"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match=rf"trace\.npz: {BROKEN}"):
        read_trace(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_truncated_file_is_refused(trace: Trace, tmp_path: Path, suffix: str, share: float) -> None:
    path = save(trace, tmp_path / f"trace{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=rf"trace\{suffix}: {BROKEN}"):
        read_trace(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_file_with_a_missing_part_is_refused(trace: Trace, tmp_path: Path, suffix: str) -> None:
    values = contents(trace, suffix)
    for name in values:
        left = {key: value for key, value in values.items() if key != name}
        path = write(tmp_path / f"trace{suffix}", left)
        with pytest.raises(ValueError, match=rf"trace\{suffix}: {BROKEN}.*\b{name}\b"):
            read_trace(path)


@pytest.mark.parametrize("method", [12, 99])
def test_zip_with_wrong_compression_is_refused(trace: Trace, tmp_path: Path, method: int) -> None:
    content = to_npz(trace)
    path = tmp_path / "trace.npz"
    path.write_bytes(
        re.sub(rb"(PK\x01\x02.{6}).", lambda m: m[1] + bytes([method]), content, flags=re.DOTALL)
    )
    with pytest.raises(ValueError, match=rf"trace\.npz: {BROKEN}"):
        read_trace(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("version", [2, "1"])
def test_unknown_version_is_refused(
    trace: Trace, tmp_path: Path, suffix: str, version: object
) -> None:
    values = contents(trace, suffix)
    said = about(values) | {"schema_version": version}
    values |= said if suffix == ".json" else {"about": np.array(json.dumps(said))}
    path = write(tmp_path / f"trace{suffix}", values)
    message = rf"trace\{suffix}: {BROKEN}expected version 1 of the format, got {version!r}\)$"
    with pytest.raises(ValueError, match=message):
        read_trace(path)


@pytest.mark.parametrize("name", ["about", "attention_cross", "another"])
def test_pickles_are_never_loaded(trace: Trace, tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    bait = np.array([Bait(made)], dtype=object)
    path = write(tmp_path / "trace.npz", contents(trace, ".npz") | {name: bait})
    with pytest.raises(ValueError, match=rf"trace\.npz: {BROKEN}"):
        read_trace(path)
    assert not made.exists()
    with np.load(path, allow_pickle=True) as file:
        file[name]
    assert made.is_dir()  # it was a bait


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_file_raises_oserror(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_trace(tmp_path / f"nowhere{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(OSError, match="folder"):
        read_trace(tmp_path / f"folder{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_corrupted_file_is_read_or_refused(trace: Trace, tmp_path: Path, suffix: str) -> None:
    """A change in a text or a number may be a trace still; nothing else is ever raised."""
    content, path = WRITERS[suffix](trace), tmp_path / f"trace{suffix}"
    generator = random.Random(5)
    said, escaped = [], set()
    for _ in range(200):
        path.write_bytes(damaged(content, generator))
        try:
            assert isinstance(read_trace(path), Trace)
        except ValueError as error:
            said.append(str(error))
        except Exception as error:
            escaped.add(f"{type(error).__module__}.{type(error).__name__}: {error}")
    assert escaped == set()
    assert len(said) > 100
    assert all(text.startswith(f"{path}: ") for text in said)
