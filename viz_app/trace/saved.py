"""Writes traces as .npz and .json files and reads them again, without pickle.

An .npz file has every array under its name in the ``Trace`` and the rest as JSON in ``about``; a
.json file has the same as one object.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from model.interface import KINDS, Head
from viz_app.records.trace import (
    SPECIAL_IDS,
    Check,
    HookSummary,
    Predictions,
    StackInput,
    Tokens,
    Trace,
    Word,
)

_READ_ERRORS = (
    *(ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError, EOFError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Errors that reading a damaged or foreign file may raise."""
SCHEMA_VERSION = 1
"""Version of both formats, which grows when a name or a meaning changes. (Files say "pieces" for
tokens.)"""


def metadata(trace: Trace) -> dict[str, Any]:
    """Return all of a trace but its arrays, as plain JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": trace.run,
        "step": trace.step,
        "sha256": trace.sha256,
        "source_text": trace.source_text,
        "target_text": trace.target_text,
        "forced": trace.forced,
        "switched_off": [list(head) for head in trace.ablated],
        **{
            side: _tokens_as_json(getattr(trace, side))
            for side in ("source", "consumed", "predicted")
        },
        "top_pieces": trace.top_tokens,
        "lens_pieces": trace.lens_tokens,
        "summary": [asdict(summary) for summary in trace.summary],
        "checks": [{**asdict(check), "passed": check.passed} for check in trace.checks],
    }


def _tokens_as_json(tokens: Tokens) -> dict[str, Any]:
    words = [asdict(word) for word in tokens.words]
    special = {} if tokens.special_ids == SPECIAL_IDS else {"special": sorted(tokens.special_ids)}
    return {"ids": tokens.ids, "pieces": tokens.texts, "words": words, **special}


def to_npz(trace: Trace) -> bytes:
    """Return a trace as the content of an .npz file, which can be read without pickle."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"about": np.array(orjson.dumps(metadata(trace)).decode())}
    np.savez_compressed(buffer, **arrays | dict(trace.arrays()))
    return buffer.getvalue()


def to_json(trace: Trace) -> bytes:
    """Return a trace as the content of a .json file; infinities become null."""
    values = {**metadata(trace), **dict(trace.arrays())}
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def read_trace(path: Path) -> Trace:
    """Read a trace that was saved.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a saved trace, of another version, or damaged.
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
    except _READ_ERRORS as error:
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

    hook_points = {summary["name"] for summary in about["summary"]}

    def embedding(side: str) -> StackInput:
        name = f"{side}_embedding"
        stack = {"source": "encoder", "target": "decoder"}[side]
        added = f"{stack}.embedding.positions" in hook_points  # some models add no positions
        return StackInput(
            tokens=array(f"{name}_tokens"),
            positions=array(f"{name}_positions") if added else None,
            total=array(f"{name}_total"),
        )

    def tokens(name: str) -> Tokens:
        read = about[name]
        words = tuple(Word(**word) for word in read["words"])
        special = frozenset(read.get("special", SPECIAL_IDS))
        return Tokens(tuple(read["ids"]), tuple(read["pieces"]), words, special)

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
        top_tokens=tuple(map(tuple, about["top_pieces"])),
        lens_tokens=tuple(tuple(map(tuple, layer)) for layer in about["lens_pieces"]),
        summary=tuple(
            HookSummary(**{**summary, "shape": tuple(summary["shape"])})
            for summary in about["summary"]
        ),
        checks=tuple(
            Check(check["name"], check["deviation"], check["limit"]) for check in about["checks"]
        ),
        ablated=tuple(Head(*head) for head in about["switched_off"]),
    )
