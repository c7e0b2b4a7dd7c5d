"""Questions on predictions, training curves, and accuracy on contrastive pairs.

Those on a curve raise ValueError if the log of the run does not have it, those on pairs if the run
was not measured on them. ``V`` vocabulary, ``T`` steps of decoding.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from headwise.model.ties import NEAR, first_largest, near_largest, rounding
from headwise.viz_app.analysis.labels import next_token_label, numbered, token_label, token_labels
from headwise.viz_app.analysis.pairs import accuracy_curves, accuracy_losses, failing_pairs
from headwise.viz_app.lessons.question import (
    Asked,
    Choice,
    Question,
    RowWord,
    limited,
    listed,
    numbers,
    place_of,
)
from headwise.viz_app.records.pairs import CHANCE, Accuracy, MeasuredPairs, PairScores

Curves = Literal["valid_loss", "train_sample_loss", "bleu", "chrf"]
_CURVES: dict[Curves, str] = {
    "valid_loss": "loss on validation pairs",
    "train_sample_loss": "loss on training pairs",
    "bleu": "BLEU",
    "chrf": "chrF",
}


_three = "{:.3f}".format


def lens_layer(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask from which layer on the lens reads the token that the model predicts at a step."""
    predictions, at = asked.trace.predictions, _step_of(asked, row)
    likeliest = predictions.lens_ids[:, at, 0]  # (L + 1,)
    final = likeliest[-1]
    other = np.flatnonzero(likeliest != final)
    first = int(other[-1]) + 1 if len(other) else 0
    names = ["the embedding", *(f"layer {i}" for i in range(1, len(likeliest)))]
    label = token_label(asked.trace.lens_tokens[-1][at][0])
    read = "; ".join(
        f"{name}: {token_label(asked.trace.lens_tokens[i][at][0])}" for i, name in enumerate(names)
    )
    note = f"Read at this position: {read}. “{label}” comes first after {names[first]}, and stays."
    choices = tuple(listed(names, lambda _: note))
    step = numbered(token_labels(asked.trace.predicted))[at]
    return Question(choices, frozenset({(first,)}), {"row": step})


def _step_of(asked: Asked, row: str | int) -> int:
    """Return the step of decoding that a word means, whatever kind of attention is chosen."""
    steps = len(asked.trace.predicted)
    if row == "heaviest":
        return min(asked.row_of(row), steps - 1)
    return place_of(asked.row if row == "chosen" else row, steps)


def least_sure(asked: Asked) -> Question:
    """Ask at which step the prediction has the largest entropy; answered by a target token."""
    entropy = asked.trace.predictions.entropy
    labels, most = token_labels(asked.trace.predicted), float(entropy.max())
    right = frozenset((int(i),) for i in np.flatnonzero(entropy > most - 0.005))
    choices = listed(
        labels,
        lambda i: (
            f"Where it predicts “{labels[i]}”, the entropy is {entropy[i]:.2f} nats; the "
            f"largest in this sentence is {most:.2f}. e to that power, {math.exp(most):.1f}, is as "
            "many tokens as it hesitates between."
        ),
    )
    return Question(tuple(choices), right)


def runner_up(asked: Asked, *, row: RowWord = "chosen", spaced: bool = True) -> Question:
    """Ask which token is the second likeliest at a step."""
    trace, at = asked.trace, _step_of(asked, row)
    labels = [next_token_label(token, spaced=spaced) for token in trace.top_tokens[at]]
    probabilities = np.exp(trace.predictions.top_log_probability[at]).tolist()
    said = "“{}” has {:.3f}, which makes it number {}.".format
    choices = listed(labels, lambda i: said(labels[i], probabilities[i], i + 1))[1:4]
    choices.sort(key=lambda choice: choice.label)
    names = {"row": numbered(token_labels(trace.predicted))[at]}
    known = trace.predictions.top_log_probability[at]
    right = np.flatnonzero(known >= known[1] - rounding(known))
    return Question(tuple(choices), frozenset((int(i),) for i in right if i), names)


def nucleus_size(asked: Asked, *, row: RowWord = "chosen", share: float = 0.9) -> Question:
    """Ask how many tokens top-p keeps at a step: the fewest that have a share together."""
    trace, at = asked.trace, _step_of(asked, row)
    probabilities = np.exp(trace.predictions.top_log_probability[at].astype(np.float64))
    sums, known = np.cumsum(probabilities), len(probabilities)
    count = int(np.searchsorted(sums, share * (1 - NEAR))) + 1  # known + 1: more than are recorded
    heaviest = " + ".join(f"{p:.2f}" for p in probabilities[:3])
    note = f"From the likeliest down, {heaviest} + … : "
    note += (
        f"{count} tokens have {sums[count - 1]:.3f}."
        if count <= known
        else f"the {known} likeliest have {sums[-1]:.3f} only."
    )

    def written(number: float) -> str:
        return f"{number:.0f}" if number <= known else f"more than {known}"

    others = (1.0, 2.0, 5.0, float(known + 1))
    names = {"row": numbered(token_labels(trace.predicted))[at], "share": f"{share:g}"}
    return numbers(float(count), others, written=written, note=note, names=names)


def first_probability(asked: Asked) -> Question:
    """Ask for the probability that the model gives to the target's first token."""
    found = float(np.exp(asked.trace.predictions.log_probability[0]))
    even = 1 / asked.model.target_vocab_size

    def written(value: float) -> str:
        return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"

    note = (
        f"The first token has {written(found)}; if each of the {asked.model.target_vocab_size:,} "
        f"tokens were equally likely, it would be {written(even)}."
    )
    others = (0.5 if found < 0.4 else even * 10, 0.1, 0.95)
    return numbers(found, others, written=written, note=note)


def first_loss(asked: Asked) -> Question:
    """Ask for the validation loss at the first milestone, before anything was learned."""
    steps, values = _curve(asked, "valid_loss")
    size, found = asked.model.target_vocab_size, float(values[0])
    note = (
        f"A guess among {size:,} tokens costs ln {size:,} = {math.log(size):.2f} nats; the log "
        f"says {found:.2f} at step {steps[0]:,}."
    )
    return numbers(found, (found / 2, 1.0, 0.0), written="{:.2f} nats".format, note=note)


def best_milestone(asked: Asked, *, of: Curves) -> Question:
    """Ask at which milestone a curve is best: a loss lowest, a score highest."""
    steps, values = _curve(asked, of)
    sign = -1 if of.endswith("loss") else 1
    right = np.flatnonzero(near_largest(sign * values))
    best = int(right[0])
    places = sorted({0, len(steps) // 3, best, len(steps) - 1})
    choices = listed(
        {place: f"step {steps[place]:,}" for place in places},
        lambda place: (
            f"At step {steps[place]:,} the {_CURVES[of]} is {values[place]:.2f}; the "
            f"best, {values[best]:.2f}, is that of step {steps[best]:,}."
        ),
    )
    return Question(tuple(choices), frozenset((int(i),) for i in right), {"curve": _CURVES[of]})


def last_value(asked: Asked, *, of: Curves) -> Question:
    """Ask for the last value of a curve, beside that of its start and of validation pairs."""
    values, valid = _curve(asked, of)[1], _curve(asked, "valid_loss")[1]
    note = (
        f"The {_CURVES[of]} ends at {values[-1]:.3f}, from {values[0]:.3f} at first; that on "
        f"validation pairs ends at {valid[-1]:.3f}."
    )
    others = (float(values[0]), float(valid[-1]))
    names = {"curve": _CURVES[of]}
    return numbers(float(values[-1]), others, written=_three, note=note, names=names)


def _curve(asked: Asked, name: Curves) -> tuple[np.ndarray, np.ndarray]:
    curve = asked.curves.get(name)
    if curve is None or not len(curve):
        raise ValueError(f"the log of this run has no {_CURVES[name]}; open a run that has it")
    return curve.steps, curve.values


def tokens_changed(asked: Asked) -> Question:
    """Ask how many tokens of the target are no longer the likeliest with the heads turned."""
    if asked.turned is None:
        raise ValueError("no head is turned here; open the page Translate")
    turned, count = asked.turned(), len(asked.trace.predicted)
    before, after = (int((each.predictions.rank > 1).sum()) for each in (asked.trace, turned))
    lost = [float(each.predictions.log_probability.sum()) for each in (asked.trace, turned)]
    names = ", ".join(map(str, turned.turned.strengths)) or "no head"
    note = (
        f"With {names} turned, {after} of {count} tokens of the same target are not the likeliest "
        f"at their position, without that {before}. The log-probability of all goes from "
        f"{lost[0]:.2f} to {lost[1]:.2f} nats."
    )
    others = (0, 1, count // 2, count)
    return numbers(after, others, written="{:.0f}".format, note=note, names={"count": str(count)})


def _measured(asked: Asked) -> tuple[MeasuredPairs, PairScores]:
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
    names = [curve.phenomenon for curve in curves]
    choices = listed(
        names,
        lambda place: (
            f"“{names[place]}” is right in {_written(curves[place].values[0])} at step "
            f"{scores.step:,}; the lowest is {lowest:.0%}."
        ),
    )
    right = [(place,) for place, share in enumerate(shares) if share <= lowest]
    kept = limited(choices, right, [-share for share in shares])
    return Question(tuple(kept), frozenset(right))


def likelier_target(asked: Asked) -> Question:
    """Ask which target of the pair that fails by most, or is right by least, is found likelier."""
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
    said = "No interval lies above 50%."
    if above:
        said = f"The first whose interval lies above 50% is that of step {curve.steps[first]:,}."
    choices = listed(
        {place: f"step {curve.steps[place]:,}" for place in places if place < len(curve.steps)},
        lambda place: (
            f"At step {curve.steps[place]:,} it is right in {_written(curve.values[place])}. {said}"
        ),
    )
    choices.append(Choice((len(curve.steps),), "at none of them", said))
    return Question(tuple(choices), frozenset({(first,)}))


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
