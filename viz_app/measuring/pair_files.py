"""The file of a run's accuracy on pairs, ``measures/pairs.json``, and the pairs of the program.

The file has the pairs and, by checkpoint, the log-probabilities of both targets in nats with five
decimals; of the last checkpoint, by head, how each pair counts with the head off, a letter a pair.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import StringConstraints

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS, Kind
from headwise.viz_app.measuring.files import Finite, read_json, write_json
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs, PairScores
from headwise.viz_app.records.trace import Doubles, Floats

PAIRS_VERSION = 1  # version of the format; raised when a name or a meaning changes
SENTENCES = Path(__file__).parent.parent / "sentences"
"""Folder of the program's sentences: for each pair of languages examples, such as en-es.jsonl, and
contrastive pairs, such as en-es.pairs.jsonl."""
_LETTERS = "-=+"  # the wrong target is likelier, both are alike, the right one is


@dataclass(frozen=True)
class _File:
    format_version: int
    run: str
    name: str
    pairs: list[tuple[str, str, str, str]]  # source, right target, wrong target, phenomenon
    checkpoints: list[_Scores]
    heads_step: int | None
    heads: list[tuple[Kind, int, int, Annotated[str, StringConstraints(pattern=r"^[-=+]+$")]]]
    """Kind, layer, head, and a letter for each pair."""


@dataclass(frozen=True)
class _Scores:
    step: int
    sha256: str
    right: list[Finite]
    wrong: list[Finite]


def pairs_path(folder: Path) -> Path:
    return folder / "measures" / "pairs.json"


def shipped_pairs(source_language: str, target_language: str) -> Path | None:
    """Return the file of the pairs that the program has for two languages, if it has any."""
    path = SENTENCES / f"{source_language}-{target_language}.pairs.jsonl"
    return path if path.is_file() else None


# --- writing -------------------------------------------------------------------------------------


def write_pairs(folder: Path, measured: MeasuredPairs, steps: Collection[int]) -> None:
    """Write the accuracy on pairs into a run's folder; what was measured on the same pairs of other
    checkpoints among ``steps`` stays, with the heads. CheckpointError if it cannot be written.
    """
    measured = _with_earlier(folder, measured, steps)
    file = _File(
        format_version=PAIRS_VERSION,
        run=measured.run,
        name=measured.name,
        pairs=[(pair.source, pair.right, pair.wrong, pair.phenomenon) for pair in measured.pairs],
        checkpoints=[_Scores(*vars(scores).values()) for scores in measured.checkpoints.values()],
        heads_step=measured.heads_step,
        heads=[
            (kind, layer, head, "".join(_LETTERS[round(2 * one)] for one in counted[layer, head]))
            for kind, counted in measured.without_heads.items()
            for layer, head in np.ndindex(counted.shape[:2])
        ],
    )
    write_json(pairs_path(folder), file, items_apart=True)


def _with_earlier(folder: Path, measured: MeasuredPairs, steps: Collection[int]) -> MeasuredPairs:
    try:
        earlier = read_measured_pairs(folder)
    except CheckpointError:  # which is replaced
        return measured
    if earlier is None or earlier.pairs != measured.pairs:
        return measured
    kept = {
        step: scores
        for step, scores in earlier.checkpoints.items()
        if step in steps and step not in measured.checkpoints
    }
    if measured.heads_step is None and earlier.heads_step in kept:
        measured = replace(
            measured, heads_step=earlier.heads_step, without_heads=earlier.without_heads
        )
    return replace(measured, checkpoints=dict(sorted({**kept, **measured.checkpoints}.items())))


# --- reading -------------------------------------------------------------------------------------


def read_measured_pairs(folder: Path) -> MeasuredPairs | None:
    """Read the accuracy on pairs of a run; None if it was not measured. The caller compares sha256.

    CheckpointError if the file is damaged, foreign or of another version.
    """
    path = pairs_path(folder)
    if not path.exists():
        return None
    what = "the accuracy on pairs"
    return read_json(path, _File, _rebuild, what=what, version=PAIRS_VERSION)


def _rebuild(file: _File) -> MeasuredPairs:
    pairs = tuple(ContrastivePair(*texts) for texts in file.pairs)
    count = len(pairs)
    if not count or not file.checkpoints:
        raise ValueError(f"expected pairs and checkpoints, got {count} of {len(file.checkpoints)}")
    checkpoints = {
        row.step: PairScores(
            row.step, row.sha256, _array(row.right, count), _array(row.wrong, count)
        )
        for row in file.checkpoints
    }
    steps = [row.step for row in file.checkpoints]
    if steps != sorted(set(steps)) or steps[0] < 0:
        raise ValueError(f"expected steps that rise from 0, got {steps[:8]}")
    if (file.heads_step is None) != (not file.heads):
        raise ValueError("expected heads with their step, got one without the other")
    if file.heads_step is not None and file.heads_step not in checkpoints:
        raise ValueError(f"there are heads of step {file.heads_step}, which has no row")
    return MeasuredPairs(
        run=file.run,
        name=file.name,
        pairs=pairs,
        checkpoints=checkpoints,
        heads_step=file.heads_step,
        without_heads=_by_kind(file.heads, count),
    )


def _array(values: list[float], count: int) -> Doubles:
    if len(values) != count:
        raise ValueError(f"expected {count} log-probabilities, got {len(values)}")
    array = np.array(values, np.float64)
    array.flags.writeable = False
    return array


def _by_kind(rows: list[tuple[Kind, int, int, str]], count: int) -> dict[Kind, Floats]:
    """Return how each pair counts without each head, (L, H, n) for each kind that has heads."""
    found: dict[Kind, Floats] = {}
    for kind in KINDS:
        of_kind = sorted(row[1:] for row in rows if row[0] == kind)
        if not of_kind:
            continue
        shape = (of_kind[-1][0] + 1, max(head for _, head, _ in of_kind) + 1)
        is_whole = len(of_kind) == shape[0] * shape[1]  # else all its places may be far too many
        if not is_whole or [each[:2] for each in of_kind] != list(np.ndindex(shape)):
            raise ValueError(f"{kind}: expected each head of {shape[0]} layers of {shape[1]} once")
        if {len(letters) for _, _, letters in of_kind} != {count}:
            raise ValueError(f"{kind}: expected {count} letters for each head")
        counted = [_LETTERS.index(letter) / 2 for *_, letters in of_kind for letter in letters]
        array = np.array(counted, np.float32).reshape(*shape, count)
        array.flags.writeable = False
        found[kind] = array
    return found
