"""Questions on the accuracy of a run on contrastive pairs, at its newest checkpoint.

All raise ValueError if the run was not measured on pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwise.model.ties import first_largest
from headwise.viz_app.analysis.pairs import accuracy_curves, accuracy_losses, failing_pairs
from headwise.viz_app.analysis.question import Asked, Choice, Question, limited, numbers
from headwise.viz_app.records.pairs import CHANCE, Accuracy, MeasuredPairs, PairScores


def _measured(asked: Asked) -> tuple[MeasuredPairs, PairScores]:
    """Return what was measured, and the scores of the newest checkpoint."""
    measured = asked.pairs()
    if measured is None:
        raise ValueError("this run was not measured on pairs; open a run that was")
    return measured, list(measured.checkpoints.values())[-1]


def _written(found: Accuracy) -> str:
    return (
        f"{found.share:.0%} of {found.count:,} (95% interval {found.low:.0%} to {found.high:.0%})"
    )


def weakest_phenomenon(asked: Asked) -> Question:
    """Ask on which phenomenon the newest checkpoint is right least often."""
    measured, scores = _measured(asked)
    curves = [
        curve for curve in accuracy_curves(measured, {scores.step: scores}) if curve.phenomenon
    ]
    shares = [curve.values[0].share for curve in curves]
    lowest = min(shares)
    choices = [
        Choice(
            (place,),
            curve.phenomenon,
            f"“{curve.phenomenon}” is right in {_written(curve.values[0])} at step "
            f"{scores.step:,}; the lowest is {lowest:.0%}.",
        )
        for place, curve in enumerate(curves)
    ]
    right = [(place,) for place, share in enumerate(shares) if share <= lowest]
    kept = limited(choices, right, [-share for share in shares])
    return Question(tuple(kept), frozenset(right))


def likelier_target(asked: Asked) -> Question:
    """Ask which of two translations the newest checkpoint finds likelier.
    The pair is the one that fails by most; if none fails, the one that is right by least."""
    measured, scores = _measured(asked)
    failing = failing_pairs(measured, scores)
    place = failing[0] if failing else int(first_largest(-scores.margins))
    pair, counted = measured.pairs[place], float(scores.outcomes[place])
    note = (
        f"log P of “{pair.right}” is {scores.right[place]:.2f} nats, that of “{pair.wrong}” "
        f"{scores.wrong[place]:.2f}. The first is the right one: here the model is "
        f"{'right' if counted == 1 else 'not right'}."
    )
    choices = sorted(
        [((1,), pair.wrong, counted <= CHANCE), ((0,), pair.right, counted >= CHANCE)],
        key=lambda each: each[1],
    )
    return Question(
        tuple(Choice(number, text, note) for number, text, _ in choices),
        frozenset(number for number, _, likelier in choices if likelier),
        {"source": pair.source, "phenomenon": pair.phenomenon},
    )


def above_chance(asked: Asked) -> Question:
    """Ask at which checkpoint the accuracy on all pairs is first surely above one half."""
    measured, _ = _measured(asked)
    curve = accuracy_curves(measured, measured.checkpoints)[0]
    above = [place for place, each in enumerate(curve.values) if each.low > CHANCE]
    first = above[0] if above else len(curve.steps)
    places = sorted({0, len(curve.steps) // 3, first, len(curve.steps) - 1})
    choices = [
        Choice(
            (place,),
            f"step {curve.steps[place]:,}",
            f"At step {curve.steps[place]:,} it is right in {_written(curve.values[place])}. "
            + _first_above(curve.steps, above),
        )
        for place in places
        if place < len(curve.steps)
    ]
    none = (len(curve.steps),)
    choices.append(Choice(none, "at none of them", _first_above(curve.steps, above)))
    return Question(tuple(choices), frozenset({(first,)}))


def _first_above(steps: Sequence[int], above: Sequence[int]) -> str:
    return (
        f"The first whose interval lies above 50% is that of step {steps[above[0]]:,}."
        if above
        else "No interval lies above 50%."
    )


def heads_that_count(asked: Asked) -> Question:
    """Ask without how many heads, one at a time, the accuracy surely falls."""
    measured, _ = _measured(asked)
    losses = accuracy_losses(measured)
    if not losses:
        raise ValueError("the heads of this run were not measured on pairs; open another run")
    sure = sum(each.low > 0 for each in losses)
    first = losses[0]
    note = (
        f"The largest fall is {first.said}. The interval lies above 0 for {sure:,} of "
        f"{len(losses):,} heads."
    )
    count = len(losses)
    others = np.unique([0, 1, count // 2, count]).tolist()
    return numbers(float(sure), others, written="{:.0f}".format, note=note)
