"""Questions on why a head looks where it does, and on what it writes there."""

from __future__ import annotations

import numpy as np

from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import numbered
from headwise.viz_app.analysis.question import Asked, Choice, Question, RowWord

_ALIKE = 0.005
"""Shares that differ by less are written alike."""


def score_term(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which terms explain most of what tells keys apart in a row of scores.
    A term explains the covariance with the scores, over the keys, divided by their variance.
    ValueError if no key differs from the others."""
    place = asked.row_of(row)
    parts = asked.score_parts(asked.head, place)
    tables = parts.tables()
    relative = np.zeros(tables.shape[-1]) if parts.relative is None else parts.relative
    scores = tables.sum(axis=(0, 1)) + relative
    apart = scores - scores.mean()
    variance = float(apart @ scores)
    if variance < 1e-12:
        raise ValueError("this row has the same score for every key; choose another")
    shares = tables @ apart / variance  # (parts of the query, parts of a key)
    names = [*parts.query_parts], [*parts.key_parts]
    kinds = np.full(shares.shape, 3)
    for kind, pairs in enumerate(
        (
            [("token", "token")],
            [("position", "position")],
            [("token", "position"), ("position", "token")],
        )
    ):
        for query, key in pairs:
            if query in names[0] and key in names[1]:
                kinds[names[0].index(query), names[1].index(key)] = kind
    sums = np.array([shares[kinds == kind].sum() for kind in range(4)])
    sums[1] += float(relative @ apart) / variance
    labels = (
        "its token with the keys' tokens",
        "its position with the keys' positions",
        "a token with a position",
        "what layers wrote before, and biases",
    )
    choices = tuple(
        Choice((kind,), label, f"Of what tells the keys apart in this row, this is {share:.2f}.")
        for kind, (label, share) in enumerate(zip(labels, sums.tolist(), strict=True))
    )
    right = frozenset((int(kind),) for kind in np.flatnonzero(sums > sums.max() - _ALIKE))
    return Question(choices, right, {"row": numbered(asked.grid.rows)[place]})


def written_token(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which target token a head raises most for the token that a row looks at most.
    ValueError if it is a head of the encoder, which writes no target tokens."""
    place = asked.row_of(row)
    key = int(first_largest(asked.trace.attention[asked.head.kind][asked.head[1:]][place]))
    found = asked.written(asked.head)
    labels = [*found.raises[key][:2].tolist(), *found.lowers[key][:2].tolist()]
    values = [*found.raised_by[key][:2].tolist(), *found.lowered_by[key][:2].tolist()]
    order = np.argsort(labels, kind="stable")
    choices = tuple(
        Choice(
            (position,),
            labels[which],
            f"Its logit is {values[which]:+.1f} standard deviations from the mean of all tokens; "
            f"that of “{labels[0]}” is {values[0]:+.1f}.",
        )
        for position, which in enumerate(order.tolist())
    )
    right = frozenset({(order.tolist().index(0),)})
    names = {"token": asked.grid.columns[key], "row": numbered(asked.grid.rows)[place]}
    return Question(choices, right, names)
