"""Questions on vectors and scores, with their numbers, and on what a head writes.

``D`` = d_model, ``K`` = d_k. Those on positions raise ValueError if the model adds none.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from headwise.model.ties import first_largest, near_largest
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.labels import numbered, token_labels
from headwise.viz_app.lessons.question import Asked, Question, RowWord, limited, listed, numbers
from headwise.viz_app.records.trace import Floats

_whole = "{:,.0f}".format
_three = "{:.3f}".format


def input_width(asked: Asked) -> Question:
    """Ask how many numbers stand for a token where it enters the model."""
    model, tokens = asked.model, len(asked.trace.source)
    width = asked.trace.source_embedding.total.shape[1]
    note = (
        f"Each of the {tokens} tokens is a row of D = {width:,} numbers, from the embedding to the "
        f"top of the stack. A head makes {model.encoder_d_k} of them for its query; the vocabulary "
        f"has {model.source_vocab_size:,} such rows to choose from."
    )
    others = (float(tokens), float(model.encoder_d_k), float(model.source_vocab_size))
    return numbers(float(width), others, written=_whole, note=note)


def nearest_position(asked: Asked, *, row: RowWord = "middle") -> Question:
    """Ask which position's encoding is most like another's."""
    positions = _positions(asked)
    labels = numbered(token_labels(asked.trace.source))
    at = min(asked.row_of(row), len(positions) - 1)
    cosines = cosine_similarity(positions, positions)[at]
    others = np.delete(np.arange(len(positions)), at)
    best = float(cosines[others].max()) if len(others) else 1.0
    right = frozenset((int(i),) for i in others if cosines[i] > best - 0.005)
    choices = listed(
        {i: labels[i] for i in others.tolist()},
        lambda i: (
            f"The encodings of places {at + 1} and {i + 1} have a cosine of "
            f"{cosines[i]:.2f}; the largest with any other place is {best:.2f}."
        ),
    )
    distances = [-abs(int(i) - at) for i in others]
    far = [d if abs(d) == 1 else -d - len(positions) - 1 for d in distances]
    return Question(tuple(limited(choices, list(right)[:2], far)), right, {"token": labels[at]})


def longer_part(asked: Asked) -> Question:
    """Ask what is longer on average, token embeddings or positional encodings."""
    parts = {"the token embeddings": asked.trace.source_embedding.tokens}
    parts["the positional encodings"] = _positions(asked)
    lengths = {name: float(np.linalg.norm(part, axis=-1).mean()) for name, part in parts.items()}
    said = " and ".join(f"{name} {length:.1f}" for name, length in lengths.items())
    note = (
        f"On average over this sentence, in length: {said}. In the sum, what is longer has more to "
        "say."
    )
    longest = np.flatnonzero(near_largest(list(lengths.values())))
    choices = tuple(listed(list(parts), lambda _: note))
    return Question(choices, frozenset((int(i),) for i in longest))


def turned_most(asked: Asked) -> Question:
    """Ask which token's vector is turned most by adding its position."""
    _positions(asked)
    tokens, total = asked.trace.source_embedding.tokens, asked.trace.source_embedding.total
    cosines = np.diag(cosine_similarity(tokens, total))
    labels, least = numbered(token_labels(asked.trace.source)), float(cosines.min())
    right = frozenset((int(i),) for i in np.flatnonzero(cosines < least + 0.005))
    choices = listed(
        labels,
        lambda i: (
            f"Before and after its position was added, “{labels[i]}” has a cosine of "
            f"{cosines[i]:.3f}; the smallest in this sentence is {least:.3f}. The shorter an "
            "embedding, the more the same addition turns it."
        ),
    )
    return Question(tuple(limited(choices, right, cosines.tolist())), right)


def _positions(asked: Asked) -> Floats:
    positions = asked.trace.source_embedding.positions
    if positions is None:
        raise ValueError(
            "this model adds no positional encodings to its embeddings; open a run that does"
        )
    return positions


def query_width(asked: Asked) -> Question:
    """Ask how many numbers a query of the chosen head has."""
    width = asked.trace.queries[asked.head.kind].shape[-1]
    model = asked.model
    kind = asked.head.kind
    d_model, heads = model.of(kind).d_model, model.heads(kind)
    note = (
        f"W_Q is {d_model:,} × {width}: it makes d_k = {width} numbers of {d_model:,}. Each of the "
        f"{heads} heads has a W_Q of its own, so each asks in its own way."
    )
    others = (float(d_model), float(heads), float(len(asked.grid.columns)))
    return numbers(float(width), others, written=_whole, note=note)


def key_count(asked: Asked) -> Question:
    """Ask with how many keys the chosen query is multiplied."""
    keys, queries = len(asked.grid.columns), len(asked.grid.rows)
    side = "source" if asked.head.kind != "decoder_self" else "target"
    note = (
        f"There is a key for each of the {keys} tokens of the {side}, and q · k is a number: "
        f"{keys} products for this query. The mask comes afterwards."
    )
    others = (float(queries), float(asked.model.d_model), 1.0)
    return numbers(float(keys), others, written=_whole, note=note)


def _products(asked: Asked, row: int) -> np.ndarray:
    kind, layer, head = asked.head
    query = asked.trace.queries[kind][layer, head, row].astype(np.float64)
    keys = asked.trace.keys[kind][layer, head].astype(np.float64)
    return np.asarray(keys[asked.keys_of(row)] @ query)


def score(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask for the score of a row's heaviest key, given the product of query and key."""
    at = asked.row_of(row)
    keys, products = asked.keys_of(at), _products(asked, at)
    heaviest = int(first_largest(asked.weights[at][keys]))
    product, width = float(products[heaviest]), asked.trace.queries[asked.head.kind].shape[-1]
    scaled = product / math.sqrt(width)
    note = (
        f"√d_k = √{width} = {math.sqrt(width):.2f}, and {product:.2f} / {math.sqrt(width):.2f} = "
        f"{scaled:.2f}."
    )
    others = (product, product / width, product * math.sqrt(width))
    names = {
        "row": asked.grid.rows[at],
        "key": asked.grid.columns[int(keys[heaviest])],
        "product": f"{product:.2f}",
        "d_k": str(width),
    }
    return numbers(scaled, others, written="{:.2f}".format, note=note, names=names)


def largest_product(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask with which key a query has the largest product."""
    at = asked.row_of(row)
    keys, products = asked.keys_of(at), _products(asked, at)
    columns, best = numbered(asked.grid.columns), float(products.max())
    right = frozenset((int(key),) for key in keys[near_largest(products)])
    product_of = dict(zip(keys.tolist(), products.tolist(), strict=True))
    choices = listed(
        {key: columns[key] for key in product_of},
        lambda key: (
            f"q · k is {product_of[key]:.2f} for “{columns[key]}”, and {best:.2f} at most. "
            "Softmax keeps the order: the largest product becomes the largest weight, "
            f"{asked.weights[at].max():.2f}."
        ),
    )
    names = {"row": asked.grid.rows[at]}
    return Question(tuple(limited(choices, right, products.tolist())), right, names)


def scaled_row(asked: Asked, *, row: RowWord = "chosen", factor: float = 1.0) -> np.ndarray:
    """Return the weights that a row would have if its scores were multiplied, (keys,)."""
    at = asked.row_of(row)
    width = asked.trace.queries[asked.head.kind].shape[-1]
    scores = _products(asked, at) / math.sqrt(width) * factor
    exponentials = np.exp(scores - scores.max())
    return np.asarray(exponentials / exponentials.sum())


def unscaled(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask for a row's largest weight if scores were not divided by √d_k."""
    at = asked.row_of(row)
    width = asked.trace.queries[asked.head.kind].shape[-1]
    root = math.sqrt(width)
    now, without = (float(scaled_row(asked, row=at, factor=f).max()) for f in (1.0, root))
    slopes = [p * (1 - p) for p in (without, now)]
    note = (
        f"With the scores times √{width} = {root:.2f}, the largest weight is {without:.3f} in "
        f"place of {now:.3f}. The derivative of a weight p by its own score is p (1 − p): "
        f"{slopes[0]:.3f} in place of {slopes[1]:.3f}."
    )
    count = len(asked.keys_of(at))
    names = {"row": asked.grid.rows[at], "root": f"{root:.2f}"}
    others = (now, 1 / count, now / root)
    return numbers(without, others, written=_three, note=note, names=names)


def zero_factor(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask for a row's largest weight if all scores were multiplied by 0."""
    at = asked.row_of(row)
    count = len(asked.keys_of(at))
    now = float(scaled_row(asked, row=at).max())
    note = (
        f"All {count} scores are 0 then, so all weights are equal: 1 / {count} = {1 / count:.3f}. "
        "Nothing is left of what query and keys had to say."
    )
    names = {"row": asked.grid.rows[at]}
    return numbers(1 / count, (0.0, now, 1.0), written=_three, note=note, names=names)


_ALIKE = 0.005  # shares that differ by less are written alike


def score_term(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which terms explain most of what tells keys apart in a row of scores: the covariance with
    the scores over their variance. ValueError if no key differs from the others.
    """
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
    kind_of = {("token", "token"): 0, ("position", "position"): 1}
    kind_of |= {("token", "position"): 2, ("position", "token"): 2}
    pairs = product(parts.query_parts, parts.key_parts)
    kinds = np.array([kind_of.get(pair, 3) for pair in pairs])
    sums = np.bincount(kinds, shares.ravel(), minlength=4)
    sums[1] += float(relative @ apart) / variance
    labels = (
        "its token with the keys' tokens",
        "its position with the keys' positions",
        "a token with a position",
        "what layers wrote before, and biases",
    )
    said = "Of what tells the keys apart in this row, this is {:.2f}.".format
    choices = listed(labels, lambda kind: said(sums[kind]))
    right = frozenset((int(kind),) for kind in np.flatnonzero(sums > sums.max() - _ALIKE))
    return Question(tuple(choices), right, {"row": numbered(asked.grid.rows)[place]})


def written_token(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which target token a head raises most for the token that a row looks at most.

    ValueError if it is a head of the encoder, which writes no target tokens.
    """
    place = asked.row_of(row)
    key = int(first_largest(asked.trace.attention[asked.head.kind][asked.head[1:]][place]))
    found = asked.written(asked.head)
    labels = [*found.raises[key][:2].tolist(), *found.lowers[key][:2].tolist()]
    values = [*found.raised_by[key][:2].tolist(), *found.lowered_by[key][:2].tolist()]
    order = np.argsort(labels, kind="stable").tolist()
    choices = listed(
        [labels[which] for which in order],
        lambda at: (
            f"Its logit is {values[order[at]]:+.1f} standard deviations from the mean of all "
            f"tokens; that of “{labels[0]}” is {values[0]:+.1f}."
        ),
    )
    right = frozenset({(order.index(0),)})
    names = {"token": asked.grid.columns[key], "row": numbered(asked.grid.rows)[place]}
    return Question(tuple(choices), right, names)
