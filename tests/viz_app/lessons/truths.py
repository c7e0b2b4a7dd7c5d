"""What is right in each step of a lesson, and the number of each answer, from arrays of a trace.

Nothing of ``viz_app/analysis`` is used here. A truth has the right places, and texts that the
sentences printed after each answer must have, by its place; of an answer that is a number, it has
how that is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwise.viz_app.analysis.question import Asked, Place

Given = Mapping[str, Any]
NEAR = 0.005
"""Values that differ by less are written alike, and are right together."""


@dataclass(frozen=True)
class Truth:
    """The right places, or how the right number is written, and what answers' reasons must have."""

    right: frozenset[Place] = frozenset()
    number: str = ""
    printed: Mapping[Place, str] = field(default_factory=dict)
    always: tuple[str, ...] = ()


def allowed_of(asked: Asked, row: int) -> np.ndarray:
    """The keys that a row may look at."""
    columns = asked.trace.attention[asked.head.kind].shape[-1]
    return np.arange(row + 1 if asked.head.kind == "decoder_self" else columns)


def shown(asked: Asked) -> np.ndarray:
    """The large map: of a head, of the layer's mean, or through all layers (rollout)."""
    kind, layer, head = asked.head
    maps = asked.trace.attention[kind].astype(np.float64)
    if asked.show == "mean":
        return np.asarray(maps[layer].mean(axis=0))
    if asked.show == "rollout":
        found = np.eye(maps.shape[-1])
        for each in maps[: layer + 1]:
            found = (each.mean(axis=0) + np.eye(maps.shape[-1])) / 2 @ found
        return found
    if asked.cells == "value norm":
        longer = maps[layer, head] * asked.trace.value_norms[kind][layer, head]
        return np.asarray(longer / longer.sum(axis=1, keepdims=True))
    return np.asarray(maps[layer, head])


def row_of(asked: Asked, given: Given) -> int:
    """The row that a word means."""
    weights, word = shown(asked), given.get("row", "chosen")
    if word == "heaviest":
        largest = weights.max(axis=1)
        return int(np.where(largest < 0.9999, largest, 0).argmax())
    last = len(weights) - 1
    places = {"chosen": asked.row, "first": 0, "second": 1, "middle": len(weights) // 2}
    return min(places.get(word, last), last)


def step_of(asked: Asked, given: Given) -> int:
    """The step of decoding that a word means, whatever map is shown."""
    last, word = len(asked.trace.predicted) - 1, given.get("row", "chosen")
    places = {"chosen": asked.row, "first": 0, "second": 1, "middle": (last + 1) // 2}
    return min(places.get(word, last), last)


def number(value: float, form: str) -> Truth:
    """A number that is written in a form."""
    return Truth(number=format(value, form))


def largest(values: Mapping[Place, float], form: str = ".2f", near: float = NEAR) -> Truth:
    """The largest of some values is right, and each is printed."""
    most = max(values.values())
    right = {place for place, value in values.items() if value > most - near}
    return Truth(frozenset(right), printed={p: format(v, form) for p, v in values.items()})


# Maps


def largest_key(asked: Asked, given: Given) -> Truth:
    row, weights = row_of(asked, given), shown(asked)
    return largest({(row, int(key)): weights[row, key] for key in allowed_of(asked, row)})


def row_sum(asked: Asked, given: Given) -> Truth:
    return number(float(shown(asked)[row_of(asked, given)].sum()), ".2f")


def even_weight(asked: Asked, given: Given) -> Truth:
    return number(1 / len(allowed_of(asked, row_of(asked, given))), ".2f")


def keys_for_share(asked: Asked, given: Given) -> Truth:
    left, count = float(given["share"]), 0
    for weight in sorted(shown(asked)[row_of(asked, given)])[::-1]:
        if left > 1e-6:
            left, count = left - weight, count + 1
    return number(count, "d")


def row_for_key(asked: Asked, given: Given) -> Truth:
    weights = shown(asked)
    word = {"first": 0, "second": 1, "middle": weights.shape[1] // 2}
    last = weights.shape[1] - 1
    key = (
        asked.column if asked.column is not None else min(word.get(given.get("column"), last), last)
    )
    return largest({(row,): weights[row, key] for row in range(len(weights))})


def head_extreme(asked: Asked, given: Given) -> Truth:
    kind = asked.head.kind
    maps = asked.trace.attention[kind].astype(np.float64)
    rows = [row for row in range(maps.shape[2]) if len(allowed_of(asked, row)) > 1]
    values: dict[Place, float] = {}
    for layer, head in np.ndindex(*maps.shape[:2]):
        found = []
        for row in rows:
            weights, keys = maps[layer, head, row], allowed_of(asked, row)
            if given["of"] == "evenness":
                positive = weights[weights > 0]
                found.append(-(positive * np.log(positive)).sum() / math.log(len(keys)))
            elif given["of"] == "previous":
                found.append(weights[row - 1] if 0 <= row - 1 < len(weights) else 0.0)
            elif given["of"] == "end":
                found.append(weights[-1])
            else:
                found.append(np.abs(weights - maps[layer, :, row].mean(axis=0)).sum() / 2)
        values[layer, head] = float(np.mean(found))
    sign = 1 if given.get("most", True) else -1
    best = max(sign * value for value in values.values())
    right = {place for place, value in values.items() if sign * value > best - 0.02}
    return Truth(frozenset(right), printed={p: f"{v:.2f}" for p, v in values.items()})


def masked_keys(asked: Asked, given: Given) -> Truth:
    total = len(asked.trace.consumed)
    places = {"first": 0, "second": 1}
    return number(total - 1 - min(places[given["row"]], total - 1), "d")


def hidden_token(asked: Asked, given: Given) -> Truth:
    return Truth(frozenset({(min(row_of(asked, given), max(len(asked.trace.predicted) - 2, 0)),)}))


def predicted_token(asked: Asked, given: Given) -> Truth:
    return Truth(frozenset({(row_of(asked, given),)}))


def largest_weight(asked: Asked, given: Given) -> Truth:
    weights = shown(asked)
    return number(float(weights.max()), ".2f")


def costliest_head(asked: Asked, given: Given) -> Truth:
    costs = asked.costs()[asked.head.kind]
    return largest({place: float(costs[place]) for place in np.ndindex(*costs.shape)})


# Vectors


def input_width(asked: Asked, given: Given) -> Truth:
    return number(asked.model.d_model, ",d")


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def nearest_position(asked: Asked, given: Given) -> Truth:
    encodings = asked.trace.source_embedding.positions
    assert encodings is not None
    rows = len(shown(asked)) if asked.head.kind == "encoder_self" else None
    at = min(row_of(asked, given), len(encodings) - 1)
    assert rows is None or at < rows
    return largest(
        {
            (i,): _cosine(encodings[at].astype(float), encodings[i].astype(float))
            for i in range(len(encodings))
            if i != at
        }
    )


def longer_part(asked: Asked, given: Given) -> Truth:
    embedding = asked.trace.source_embedding
    assert embedding.positions is not None
    parts = (embedding.tokens, embedding.positions)
    lengths = [float(np.sqrt((part.astype(float) ** 2).sum(axis=1)).mean()) for part in parts]
    return Truth(frozenset({(int(np.argmax(lengths)),)}), always=tuple(f"{x:.1f}" for x in lengths))


def turned_most(asked: Asked, given: Given) -> Truth:
    embedding = asked.trace.source_embedding
    both = zip(embedding.tokens.astype(float), embedding.total.astype(float), strict=True)
    cosines = {(i,): _cosine(before, after) for i, (before, after) in enumerate(both)}
    least = min(cosines.values())
    right = {place for place, value in cosines.items() if value < least + NEAR}
    return Truth(frozenset(right), printed={p: f"{v:.3f}" for p, v in cosines.items()})


def query_width(asked: Asked, given: Given) -> Truth:
    return number(asked.model.d_model // asked.model.heads(asked.head.kind), ",d")


def key_count(asked: Asked, given: Given) -> Truth:
    return number(asked.trace.attention[asked.head.kind].shape[-1], ",d")


def _products(asked: Asked, row: int) -> np.ndarray:
    kind, layer, head = asked.head
    query = asked.trace.queries[kind][layer, head, row].astype(float)
    return np.asarray(
        asked.trace.keys[kind][layer, head].astype(float)[allowed_of(asked, row)] @ query
    )


def largest_product(asked: Asked, given: Given) -> Truth:
    products = _products(asked, row_of(asked, given))
    return largest({(key,): value for key, value in enumerate(products)}, near=1e-4)


def score(asked: Asked, given: Given) -> Truth:
    products = _products(asked, row_of(asked, given))
    width = asked.trace.queries[asked.head.kind].shape[-1]
    return number(products.max() / math.sqrt(width), ".2f")


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())


def unscaled(asked: Asked, given: Given) -> Truth:
    return number(float(_softmax(_products(asked, row_of(asked, given))).max()), ".3f")


def zero_factor(asked: Asked, given: Given) -> Truth:
    return number(1 / len(allowed_of(asked, row_of(asked, given))), ".3f")


# Predictions and curves


def lens_layer(asked: Asked, given: Given) -> Truth:
    first = asked.trace.predictions.lens_ids[:, step_of(asked, given), 0].tolist()
    at = len(first) - 1
    while at > 0 and first[at - 1] == first[-1]:
        at -= 1
    return Truth(frozenset({(at,)}))


def least_sure(asked: Asked, given: Given) -> Truth:
    entropy = asked.trace.predictions.entropy.astype(float)
    return largest({(step,): value for step, value in enumerate(entropy)}, near=0.005)


def runner_up(asked: Asked, given: Given) -> Truth:
    return Truth(frozenset({(1,)}))


def nucleus_size(asked: Asked, given: Given) -> Truth:
    known = np.exp(asked.trace.predictions.top_log_probability[step_of(asked, given)].astype(float))
    left, count = float(given["share"]), 0
    for probability in known:
        if left > 1e-6:
            left, count = left - probability, count + 1
    return Truth(number=f"more than {len(known)}" if left > 1e-6 else str(count))


def first_probability(asked: Asked, given: Given) -> Truth:
    found = math.exp(asked.trace.predictions.log_probability[0])
    return number(found, ".3f" if found >= 0.001 else ".1e")


def first_loss(asked: Asked, given: Given) -> Truth:
    size = asked.model.target_vocab_size
    loss = float(asked.curves["valid_loss"].values[0])
    return Truth(number=f"{loss:.2f} nats", always=(f"ln {size:,} = {math.log(size):.2f}",))


def best_milestone(asked: Asked, given: Given) -> Truth:
    values = asked.curves[given["of"]].values
    best = values.min() if given["of"].endswith("loss") else values.max()
    return Truth(
        frozenset((int(i),) for i in np.flatnonzero(np.abs(values - best) < 1e-6 * abs(best))),
        printed={(i,): f"is {value:.2f};" for i, value in enumerate(values)},
        always=(f"the best, {best:.2f}",),
    )


def last_value(asked: Asked, given: Given) -> Truth:
    return number(float(asked.curves[given["of"]].values[-1]), ".3f")


def tokens_changed(asked: Asked, given: Given) -> Truth:
    assert asked.turned is not None
    return number(int((asked.turned().predictions.rank > 1).sum()), "d")


# Pairs


def _pairs(asked: Asked) -> tuple[Any, Any]:
    measured = asked.pairs()
    assert measured is not None
    return measured, list(measured.checkpoints.values())[-1]


def weakest_phenomenon(asked: Asked, given: Given) -> Truth:
    measured, scores = _pairs(asked)
    likelier = scores.right > scores.wrong
    names = list(dict.fromkeys(pair.phenomenon for pair in measured.pairs))
    shares = [
        float(
            np.mean(
                [
                    each
                    for each, pair in zip(likelier, measured.pairs, strict=True)
                    if pair.phenomenon == name
                ]
            )
        )
        for name in names
    ]
    right = frozenset((i,) for i, share in enumerate(shares) if share == min(shares))
    return Truth(right, printed={(i,): f"{share:.0%} of" for i, share in enumerate(shares)})


def likelier_target(asked: Asked, given: Given) -> Truth:
    _, scores = _pairs(asked)
    worst = int((scores.right - scores.wrong).argmin())
    wrong = scores.right[worst] < scores.wrong[worst]
    return Truth(frozenset({(int(wrong),)}), always=(f"{scores.right[worst]:.2f}",))


def above_chance(asked: Asked, given: Given) -> Truth:
    measured, _ = _pairs(asked)
    found = []
    for scores in measured.checkpoints.values():
        n, p, z = len(scores.right), float((scores.right > scores.wrong).mean()), 1.959964
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        found.append(middle - half > 0.5)
    return Truth(frozenset({(found.index(True) if True in found else len(found),)}))


def heads_that_count(asked: Asked, given: Given) -> Truth:
    """By the interval of Newcombe (1998), method 10, of every head's paired difference."""
    measured, scores = _pairs(asked)
    whole = (scores.right > scores.wrong).astype(float)
    falls = [
        _fall_is_sure(whole, outcomes)
        for without in measured.without_heads.values()
        for outcomes in without.reshape(-1, len(whole)).astype(float)
    ]
    sure = sum(falls)
    return Truth(number=str(sure), always=(f"above 0 for {sure} of {len(falls)} heads",))


def _fall_is_sure(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether the 95% interval of mean(first) − mean(second) lies above 0."""
    count, z = len(first), 1.959963984540054

    def below(p: float) -> float:
        middle = (p + z * z / (2 * count)) / (1 + z * z / count)
        half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count**2)) / (1 + z * z / count)
        return p - (middle - half)

    p, q = float(first.mean()), float(second.mean())
    both = float((first * second).sum())
    one, other = float((first * (1 - second)).sum()), float(((1 - first) * second).sum())
    neither = count - both - one - other
    product = (both + one) * (other + neither) * (both + other) * (one + neither)
    agree = both * neither - one * other
    agree = max(agree - count / 2, 0) if agree > 0 else agree
    phi = agree / math.sqrt(product) if product else 0.0
    left, right = below(p), below(1 - q)  # of q above, as of 1 − q below
    reach = math.sqrt(max(left**2 - 2 * phi * left * right + right**2, 0))
    return p - q - reach > 0


# Accounts and patches: the arrays themselves are tested where they are made


def word_ratio(asked: Asked, given: Given) -> Truth:
    difference = asked.account().account.difference
    times = (
        f"{math.exp(difference):.3g}"
        if abs(difference) < 13.8
        else f"10^{difference / math.log(10):.1f}"
    )
    return Truth(number=f"{times} times")


def account_sum(asked: Asked, given: Given) -> Truth:
    return number(asked.account().account.difference, "+.2f")


def _parts(asked: Asked, begins: tuple[str, ...] = ("",)) -> dict[Place, float]:
    named = [(n, v) for n, v in asked.account().account.named() if n.startswith(begins)]
    return {(i,): value for i, (_, value) in enumerate(named)}


def largest_part(asked: Asked, given: Given) -> Truth:
    heads = ("cross.", "decoder_self.")
    return largest(_parts(asked, heads if given.get("of") == "head" else ("",)), "+.2f", 0.005)


def source_for_word(asked: Asked, given: Given) -> Truth:
    columns = asked.account().account.parts.heads["cross"].sum(axis=(0, 1))
    return largest({(i,): float(value) for i, value in enumerate(columns)}, "+.2f", 0.005)


def _column(asked: Asked) -> int:
    columns = asked.account().account.parts.heads["cross"].sum(axis=(0, 1))
    return asked.column if asked.column is not None else int(columns.argmax())


def head_for_token(asked: Asked, given: Given) -> Truth:
    cells = asked.account().account.parts.heads["cross"][..., _column(asked)].ravel()
    return largest({(i,): float(value) for i, value in enumerate(cells)}, "+.2f", 0.005)


def largest_group(asked: Asked, given: Given) -> Truth:
    parts = asked.account().account.parts
    groups = [
        parts.token + (0 if parts.position is None else parts.position),
        float(np.sum(parts.heads["decoder_self"])),
        float(np.sum(parts.heads["cross"])),
        float(np.sum(parts.neurons)),
    ]
    return largest({(i,): value for i, value in enumerate(groups)}, "+.2f", 0.005)


def key_of_head(asked: Asked, given: Given) -> Truth:
    heads = asked.account().account.parts.heads
    rows = [row for kind in ("decoder_self", "cross") for each in heads[kind] for row in each]
    strongest = max(rows, key=np.sum)
    return largest({(i,): float(value) for i, value in enumerate(strongest)}, "+.2f", 0.005)


def encoder_part(asked: Asked, given: Given) -> Truth:
    """Of the cells of one source token, by what the encoder had written there."""
    parts, key = asked.account().account.from_encoder, _column(asked)
    arrays = [parts.token] if parts.position is None else [parts.token, parts.position]
    found = [] if given.get("of") == "head" else [float(each[..., key].sum()) for each in arrays]
    for layer in range(parts.heads.shape[-2]):
        of_layer = parts.heads[:, :, key, layer].sum(axis=(0, 1)).tolist()
        found += of_layer
        if given.get("of") != "head":
            found.append(float(parts.feed_forwards[:, :, key, layer].sum()))
    if given.get("of") != "head":
        found.append(float(parts.biases[..., key].sum()))
    return largest({(i,): value for i, value in enumerate(found)}, "+.2f", 0.005)


def _restored(asked: Asked, odds: np.ndarray) -> dict[Place, float]:
    patching = asked.patched_pair().patching
    shares = (odds - patching.odds_a) / (patching.odds_b - patching.odds_a)
    known = [float(share) for share in shares.ravel() if np.isfinite(share)]
    return {(i,): share for i, share in enumerate(known)}


def restoring_token(asked: Asked, given: Given) -> Truth:
    row = -1 if given.get("layer") == "last" else 0
    stream = asked.patched_pair().patching.stream_encoder[row]
    return largest(_restored(asked, stream), "+z.2f", 0.005)


def restoring_sublayer(asked: Asked, given: Given) -> Truth:
    return largest(
        _restored(asked, asked.patched_pair().patching.sublayers["decoder"]), "+z.2f", 0.005
    )


def restoring_head(asked: Asked, given: Given) -> Truth:
    return largest(_restored(asked, asked.patched_pair().patching.heads["cross"]), "+z.2f", 0.005)


# Heads


def score_term(asked: Asked, given: Given) -> Truth:
    parts = asked.score_parts(asked.head, row_of(asked, given))
    tables = dict(zip(parts.query_parts, parts.tables(), strict=True))
    found = {of: dict(zip(parts.key_parts, row, strict=True)) for of, row in tables.items()}
    none = np.zeros(len(parts.scores))
    own = {of: found[of].get(of, none) for of in ("token", "position") if of in found}
    both = [found.get("token", {}).get("position"), found.get("position", {}).get("token")]
    terms = [
        own["token"],
        own.get("position", none) + (none if parts.relative is None else parts.relative),
        sum((each for each in both if each is not None), none),
    ]
    terms.append(parts.scores - sum(terms))
    shares = [np.cov(term, parts.scores)[0, 1] / parts.scores.var(ddof=1) for term in terms]
    return largest({(kind,): share for kind, share in enumerate(shares)})


def written_token(asked: Asked, given: Given) -> Truth:
    kind, layer, head = asked.head
    key = int(asked.trace.attention[kind][layer, head, row_of(asked, given)].argmax())
    found = asked.written(asked.head)
    assert (np.diff(found.raised_by[key]) <= 0).all()
    names = [*found.raises[key][:2], *found.lowers[key][:2]]
    right = sorted(names).index(names[0])
    return Truth(frozenset({(right,)}), always=(f"{found.raised_by[key][0]:+.1f}",))


TRUTHS: dict[str, Callable[[Asked, Given], Truth]] = {
    each.__name__: each
    for each in (
        *(largest_key, row_sum, even_weight, keys_for_share, head_extreme, row_for_key),
        *(masked_keys, hidden_token, predicted_token, largest_weight, costliest_head),
        *(input_width, nearest_position, longer_part, turned_most, query_width, key_count),
        *(largest_product, score, unscaled, zero_factor, lens_layer, least_sure, runner_up),
        *(nucleus_size, first_probability, first_loss, best_milestone, last_value),
        *(tokens_changed, weakest_phenomenon, likelier_target, above_chance, word_ratio),
        *(account_sum, largest_part, source_for_word, head_for_token, heads_that_count),
        *(largest_group, key_of_head, encoder_part, score_term, written_token),
        *(restoring_token, restoring_sublayer, restoring_head),
    )
}
"""Question → its truth."""
