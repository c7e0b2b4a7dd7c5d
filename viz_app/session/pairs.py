"""Read the accuracy of a run on contrastive pairs, of the checkpoints that are as when measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.viz_app.measuring.pair_files import pairs_path, read_measured_pairs
from headwise.viz_app.records.pairs import MeasuredPairs
from headwise.viz_app.session.cache import cached, stamp_if_there
from headwise.viz_app.session.caches import Run, weights_sha256


@dataclass(frozen=True)
class RunPairs:
    """What was measured of a run on pairs is held with the steps that have nothing to be used."""

    measured: MeasuredPairs | None
    """None if nothing was measured with the weights that checkpoints have."""
    missing: Sequence[int]
    stale: Sequence[int]
    """Steps that were measured with other weights than the checkpoint has now."""


def pairs_of(run: Run) -> RunPairs:
    """Read what was measured of a run on pairs, without loading weights.

    Raises:
        CheckpointError: if the file is damaged or of another version.
    """
    steps, measured = run.steps(), _read(run.folder)
    if measured is None:
        return RunPairs(None, steps, ())
    there = {step: measured.checkpoints[step] for step in steps if step in measured.checkpoints}
    current = {
        step: scores for step, scores in there.items() if scores.sha256 == weights_sha256(run, step)
    }
    if measured.heads_step not in current:
        measured = replace(measured, heads_step=None, without_heads={})
    return RunPairs(
        replace(measured, checkpoints=current) if current else None,
        [step for step in steps if step not in there],
        [step for step in there if step not in current],
    )


def _read(folder: Path) -> MeasuredPairs | None:
    return cached(
        "pairs read",
        (str(folder), stamp_if_there(pairs_path(folder))),
        lambda: read_measured_pairs(folder),
        facts=lambda _: {"run": folder.name},
    )
