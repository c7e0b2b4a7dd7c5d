"""A trace as bytes and back: .npz and .json, neither with pickle.

An .npz file has every array under its name in the ``Trace`` and the rest as JSON in ``about``; a
.json file has the same as one object.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from viz_app.records import (
    KINDS,
    Check,
    HookSummary,
    InputEmbedding,
    Predictions,
    Tokens,
    Trace,
    Word,
)

_BROKEN = (
    *(ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a file raises that is damaged, or none of ours."""
SCHEMA_VERSION = 1
"""Of both formats; raised when a name or a meaning changes."""


def describe(trace: Trace) -> dict[str, Any]:
    """All of a trace but its arrays, as plain JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": trace.run,
        "step": trace.step,
        "sha256": trace.sha256,
        "source_text": trace.source_text,
        "target_text": trace.target_text,
        "forced": trace.forced,
        "switched_off": [list(head) for head in trace.switched_off],
        **{side: asdict(getattr(trace, side)) for side in ("source", "consumed", "predicted")},
        "top_pieces": trace.top_pieces,
        "lens_pieces": trace.lens_pieces,
        "summary": [asdict(summary) for summary in trace.summary],
        "checks": [{**asdict(check), "passed": check.passed} for check in trace.checks],
    }


def to_npz(trace: Trace) -> bytes:
    """A trace as the content of an .npz file, readable without pickle."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"about": np.array(orjson.dumps(describe(trace)).decode())}
    np.savez_compressed(buffer, **arrays | dict(trace.arrays()))
    return buffer.getvalue()


def to_json(trace: Trace) -> bytes:
    """A trace as the content of a .json file; infinities become null."""
    values = {**describe(trace), **dict(trace.arrays())}
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def read_trace(path: Path) -> Trace:
    """A trace that was saved.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is none of ours, of another version, or incomplete.
    """
    readers: dict[str, Callable[[bytes], tuple[Any, Mapping[str, Any]]]] = {
        ".npz": _read_npz,
        ".json": _read_json,
    }
    if path.suffix not in readers:
        raise ValueError(f"{path}: expected a name that ends in .npz or .json")
    content = path.read_bytes()
    try:
        about, arrays = readers[path.suffix](content)
        if about["schema_version"] != SCHEMA_VERSION:
            raise ValueError(
                f"expected version {SCHEMA_VERSION} of the format, got {about['schema_version']}"
            )
        return _rebuild(about, arrays)
    except _BROKEN as error:
        raise ValueError(f"{path}: not a saved trace, or a broken one ({error})") from error


def _read_npz(content: bytes) -> tuple[Any, Mapping[str, Any]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = dict(file)
    return orjson.loads(str(arrays.pop("about"))), arrays


def _read_json(content: bytes) -> tuple[Any, Mapping[str, Any]]:
    values = orjson.loads(content)
    return values, values


def _rebuild(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Trace:
    def array(name: str) -> NDArray[Any]:
        if name.endswith(("_ids", "rank")):
            read: NDArray[Any] = np.array(arrays[name], dtype=np.int64)
        else:
            read = np.array(arrays[name], dtype=np.float32)
            # JSON has no infinities, and nothing else of a trace is no number.
            read[np.isnan(read)] = -np.inf
        read.flags.writeable = False
        return read

    def of_kinds(name: str) -> dict[Any, NDArray[Any]]:
        return {kind: array(f"{name}_{kind}") for kind in KINDS}

    def embedding(side: str) -> InputEmbedding:
        parts = (field.name for field in fields(InputEmbedding))
        return InputEmbedding(*(array(f"{side}_embedding_{part}") for part in parts))

    def tokens(name: str) -> Tokens:
        read = about[name]
        words = tuple(Word(**word) for word in read["words"])
        return Tokens(tuple(read["ids"]), tuple(read["pieces"]), words)

    return Trace(
        run=about["run"],
        step=about["step"],
        sha256=about["sha256"],
        source_text=about["source_text"],
        target_text=about["target_text"],
        forced=about["forced"],
        source=tokens("source"),
        consumed=tokens("consumed"),
        predicted=tokens("predicted"),
        attention=of_kinds("attention"),
        value_norms=of_kinds("value_norms"),
        queries=of_kinds("queries"),
        keys=of_kinds("keys"),
        values=of_kinds("values"),
        source_embedding=embedding("source"),
        target_embedding=embedding("target"),
        encoder_stream=array("encoder_stream"),
        decoder_stream=array("decoder_stream"),
        predictions=Predictions(*(array(field.name) for field in fields(Predictions))),
        top_pieces=tuple(map(tuple, about["top_pieces"])),
        lens_pieces=tuple(tuple(map(tuple, layer)) for layer in about["lens_pieces"]),
        summary=tuple(
            HookSummary(**{**summary, "shape": tuple(summary["shape"])})
            for summary in about["summary"]
        ),
        checks=tuple(
            Check(check["name"], check["deviation"], check["limit"]) for check in about["checks"]
        ),
        switched_off=tuple((kind, layer, head) for kind, layer, head in about["switched_off"]),
    )
