"""A fixed sample of the training pairs, whose loss is measured as the validation loss is.

The loss that a training logs of its batches has label smoothing, dropout and the weights of many
steps in it, so that it cannot be compared with the validation loss. That of the sample can.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwise.model.files import CheckpointError, read_log, write_log
from headwise.model.training.batches import Encoded
from headwise.model.training.data import Examples

MOST_PAIRS = 1_000
"""Most pairs of a sample."""


def draw_train_sample(examples: Examples, *, seed: int) -> Encoded:
    """Draw ``MOST_PAIRS`` training pairs, or all if they are fewer.

    Which ones depends only on the seed of the training and on how many pairs there are.
    """
    count = len(examples.sources)
    drawn = random.Random(f"{seed}-sample").sample(range(count), min(count, MOST_PAIRS))
    return [examples.sources[i] for i in drawn], [examples.targets[i] for i in drawn]


def require_milestones(log: Path, steps: Sequence[int]) -> None:
    """Raise an error if a log lacks the row of a milestone.

    Raises:
        CheckpointError: if there is a step for which no row has ``valid_loss``.
    """
    logged = {row["step"] for row in read_log(log) if "valid_loss" in row}
    if missing := [f"{step:,}" for step in steps if step not in logged]:
        raise CheckpointError(
            f"{log}: expected a row with valid_loss for each step, got none for "
            f"{', '.join(missing)}; restore the file or choose another --step"
        )


def add_to_log(log: Path, losses: Mapping[int, float]) -> None:
    """Write the losses of the sample, by step, into the rows of their milestones."""
    rows = [
        row | {"train_sample_loss": round(losses[row["step"]], 4)}
        if "valid_loss" in row and row["step"] in losses
        else row
        for row in read_log(log)
    ]
    write_log(log, rows)
