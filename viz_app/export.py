"""A trace as a file: python -m viz_app.export --help."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
import tyro

from model.checkpoint import CHECKPOINTS, CheckpointError, open_checkpoint
from model.files import write_bytes
from viz_app.records import Trace
from viz_app.trace import run_trace

SCHEMA_VERSION = 1
"""Of both formats; raised when a name or a meaning changes."""


@dataclass(frozen=True)
class Arguments:
    """Translate a sentence and write all that the model did on the way to a file.

    OUT.npz holds every array under its name in the Trace (attention_encoder_self,
    attention_decoder_self, attention_cross, …, all float32 or int64, axes as documented there) and
    the rest as JSON in "about"; OUT.json holds the same as one object.
    """

    run: str
    """Name of the run."""
    text: str
    """The sentence to translate."""
    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .npz or .json."""
    step: int | None = None
    """Checkpoint; without it, the last."""
    target: str | None = None
    """A translation to force; without it, the model's own."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


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


_WRITERS = {".npz": to_npz, ".json": to_json}


def main(arguments: Arguments) -> None:
    """Export as the arguments say."""
    writer = _WRITERS.get(arguments.out.suffix)
    if writer is None:
        raise ValueError(f"{arguments.out}: expected a name that ends in .npz or .json")
    if not arguments.out.parent.is_dir():
        raise ValueError(f"{arguments.out.parent}: no such folder; create it first")
    run, checkpoint = open_checkpoint(arguments.run, arguments.step, arguments.checkpoints)
    trace = run_trace(
        checkpoint.model,
        run.tokenizers,
        arguments.text,
        arguments.target,
        run=run.info.name,
        step=checkpoint.step,
        sha256=checkpoint.sha256,
    )
    write_bytes(arguments.out, writer(trace))
    print(f"{arguments.out}: {trace.target_text}")


if __name__ == "__main__":
    try:
        main(tyro.cli(Arguments))
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
