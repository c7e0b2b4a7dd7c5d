"""Questions on the account of a word: why it was written, and not another one.

``L`` layers, ``H`` heads, ``S`` source tokens. A part speaks for the word where it is positive. All
raise ValueError where there is no account.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from headwise.model.interface import parse_head
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import KIND_NAMES, head_of, numbered, part_label, token_labels
from headwise.viz_app.lessons.question import Asked, Choice, Compared, Question, limited, numbers
from headwise.viz_app.records.trace import Tokens

_ALIKE = 0.005
"""Parts that differ by less, in logits, are written alike."""
_MOST_TIMES = 1e6
"""Ratios beyond it, or below its inverse, are written as powers of 10."""

_logits = "{:+.2f}".format


def word_ratio(asked: Asked) -> Question:
    """Ask how many times as likely as the other word the model finds the word."""
    compared = asked.account()
    if compared.account.instead is None:
        raise ValueError("the mean of all tokens has no probability; choose another word")
    if asked.model.logit_cap is not None:
        raise ValueError("this model caps its logits: their difference is no ratio; open another")
    difference = compared.account.difference
    exponents = (difference, -difference, 2 * difference, difference / 2)
    note = (
        f"The difference of the logits is {_logits(difference)}, and e to that power is "
        f"{_times(difference)}: softmax divides both by the same sum."
    )
    return numbers(
        difference,
        exponents[1:],
        written=lambda power: f"{_times(power)} times",
        note=note,
        names=_names(compared),
    )


def _times(power: float) -> str:
    """Write e to a power."""
    if abs(power) > math.log(_MOST_TIMES):
        return f"10^{power / math.log(10):.1f}"
    return f"{math.exp(power):.3g}"


def account_sum(asked: Asked) -> Question:
    """Ask for the sum of all parts of the account."""
    compared = asked.account()
    parts = dict(compared.account.named())
    total, largest = sum(parts.values()), max(parts.values())
    cross = float(compared.account.parts.heads["cross"].sum())
    note = (
        f"{len(parts)} parts sum to {_logits(total)}, the difference of the two logits. The "
        f"largest alone is {_logits(largest)}, and all heads of cross-attention have "
        f"{_logits(cross)}."
    )
    others = (0.0, largest, cross)
    return numbers(total, others, written=_logits, note=note, names=_names(compared))


def largest_group(asked: Asked) -> Question:
    """Ask which kind of sublayers spoke most for the word, all of its layers together."""
    compared = asked.account()
    parts, values = compared.account.parts, dict(compared.account.named())
    sums = {"the token and its position": values["token"] + values.get("position", 0.0)}
    for kind in ("decoder_self", "cross"):
        sums[KIND_NAMES[kind]] = float(parts.heads[kind].sum())
    sums["feed-forwards"] = float(parts.neurons.sum())
    return _largest(compared, sums.items())


def largest_part(asked: Asked, *, of: Literal["any", "head"] = "any") -> Question:
    """Ask which part, or which head of the decoder, spoke most for the word."""
    compared = asked.account()
    return _largest_named(compared, dict(compared.account.named()), of)


def key_of_head(asked: Asked) -> Question:
    """Ask which token the head that spoke most for the word read for it."""
    compared = asked.account()
    values = {name: value for name, value in compared.account.named() if head_of(name)}
    head = parse_head([*values][int(first_largest([*values.values()]))])
    cells = compared.account.parts.heads[head.kind][head.layer, head.head]
    tokens = asked.trace.source if head.kind == "cross" else asked.trace.consumed
    labels = numbered(token_labels(tokens))[: len(cells)]
    names = {"head": f"{KIND_NAMES[head.kind]} {head.layer + 1}.{head.head + 1}"}
    return _largest(compared, zip(labels, cells.tolist(), strict=True), names)


def source_for_word(asked: Asked) -> Question:
    """Ask from which source token cross-attention brought most; answered by a source token."""
    compared = asked.account()
    columns = compared.account.parts.heads["cross"].sum(axis=(0, 1))
    brought = zip(token_labels(asked.trace.source), columns.tolist(), strict=True)
    return _largest(compared, brought, every=True)


def head_for_token(asked: Asked) -> Question:
    """Ask which head of cross-attention brought most from the marked token, or the strongest."""
    compared = asked.account()
    cells = compared.account.parts.heads["cross"]
    key = _key(asked, compared)
    brought = [
        (f"{layer + 1}.{head + 1}", float(cells[layer, head, key]))
        for layer, head in np.ndindex(cells.shape[:2])
    ]
    return _largest(compared, brought, _named(asked.trace.source, key))


def encoder_part(asked: Asked, *, of: Literal["any", "head"] = "any") -> Question:
    """Ask what of the encoder cross-attention brought most of, from the same token."""
    compared = asked.account()
    key = _key(asked, compared)
    parts = {
        name: float(cells[..., key].sum()) for name, cells in compared.account.from_encoder.named()
    }
    return _largest_named(compared, parts, of, _named(asked.trace.source, key))


def _key(asked: Asked, compared: Compared) -> int:
    """Return the marked source token, or the one from which cross-attention brought most."""
    columns = compared.account.parts.heads["cross"].sum(axis=(0, 1))
    if asked.column is not None and asked.column < len(columns):
        return asked.column
    return int(first_largest(columns))


def _named(tokens: Tokens, key: int) -> dict[str, str]:
    return {"token": numbered(token_labels(tokens))[key]}


def _names(compared: Compared) -> dict[str, str]:
    return {"word": compared.word, "other": compared.other}


def _largest_named(
    compared: Compared,
    parts: Mapping[str, float],
    of: Literal["any", "head"],
    names: dict[str, str] | None = None,
) -> Question:
    """Ask which of some parts by their names, or which head among them, is the largest."""
    asked = [(part_label(name), parts[name]) for name in parts if of == "any" or head_of(name)]
    return _largest(compared, asked, names)


def _largest(
    compared: Compared,
    brought: Iterable[tuple[str, float]],
    names: dict[str, str] | None = None,
    *,
    every: bool = False,
) -> Question:
    """Ask which of some parts is the largest; of many, the largest by size are offered."""
    labels, values = zip(*brought, strict=True)
    best = max(values)
    first = labels[int(first_largest(values))]
    right = [(i,) for i, value in enumerate(values) if value > best - _ALIKE]
    choices = []
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        side = "for" if value >= 0 else "against"
        said = f"{label} brought {_logits(value)}, {side} “{compared.word}”"
        said += (
            ": nothing else asked about brought more."
            if (i,) in right
            else f"; the most, {_logits(best)}, came from {first}."
        )
        choices.append(Choice((i,), label, said))
    if not every:
        choices = limited(choices, right, np.abs(values).tolist())
    return Question(tuple(choices), frozenset(right), _names(compared) | (names or {}))
