"""Questions on attention maps. ``Q`` queries, ``M`` keys, ``L`` layers, ``H`` heads."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from headwise.model.interface import Head
from headwise.model.ties import NEAR, first_largest
from headwise.viz_app.analysis.attention import map_facts, rows_with_several_keys
from headwise.viz_app.analysis.labels import KIND_NAMES, numbered, token_labels
from headwise.viz_app.lessons.question import (
    Asked,
    Choice,
    PlaceWord,
    Question,
    RowWord,
    listed,
    numbers,
    place_of,
)
from headwise.viz_app.records.trace import Floats

Property = Literal["largest_weight", "evenness", "itself", "previous", "end", "unlike_mean"]
_PROPERTIES: dict[Property, str] = {
    "largest_weight": "largest weight",
    "evenness": "evenness (1: the same weight on every key)",
    "itself": "mean weight on the query's own token",
    "previous": "mean weight on the token before the query",
    "end": "mean weight on the last key",
    "unlike_mean": "distance from the mean of its layer (1: no key in common)",
}
_ALIKE = 0.02  # heads whose properties differ by less look the same in their maps
_NEARLY = 0.03  # a share of a row that is missed by less is as good as had


_two = "{:.2f}".format


def _ties(values: np.ndarray, best: float) -> np.ndarray:
    """Return where the best value is, and values that look the same when they are written."""
    return np.flatnonzero(np.abs(values - best) < 0.005)


def largest_key(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask at which key a row looks most; answered by a cell."""
    at = asked.row_of(row)
    weights, columns = asked.weights[at], numbered(asked.grid.columns)
    keys = asked.keys_of(at)
    best = float(weights[keys].max())
    right = frozenset((at, int(keys[i])) for i in _ties(weights[keys], best))
    own = asked.trace.attention[asked.head.kind][asked.head.layer, asked.head.head, at]
    choices = []
    for key in keys.tolist():
        said = f"“{columns[key]}” has {_two(weights[key])} of this row"
        if asked.cells == "value norm" and asked.show == "head":
            said += f", and {_two(own[key])} of its weights alone"
        said += (
            ": no key has more of the row."
            if (at, key) in right
            else f"; the most is {_two(best)}. The bar beside the map says which colour is most."
        )
        choices.append(Choice((at, key), columns[key], said))
    name = asked.grid.rows[at]
    masked = ", or masked" if asked.grid.allowed is not None else ""
    elsewhere = f"That cell is in another row{masked}: answer with one of the row “{name}”."
    names = {"row": name, "largest": _two(best)}
    return Question(tuple(choices), right, names, elsewhere)


def row_sum(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask for the sum of a row's weights."""
    at = asked.row_of(row)
    weights = asked.weights[at][asked.keys_of(at)]
    some = np.sort(weights)[::-1][:3]
    added = " + ".join(map(_two, some)) + " + …" * (len(weights) > 3)
    whole, why = _whole(weights), "softmax divides every row by its own sum, so a weight is a share"
    note = f"{added} over {len(weights)} keys make {weights.sum():.2f}: " + (
        "the softmax is over target and source together, and the rest is on the others."
        if whole != 1
        else f"{why} of the row."
        if asked.show == "head" and asked.cells == "weight"
        else "the maps that it is made of have such rows, and what is made of them keeps that."
    )
    others = (float(weights.max()), float(len(weights)))
    return numbers(whole, others, written=_two, note=note, names={"row": asked.grid.rows[at]})


def _whole(weights: Floats) -> float:
    """Return what the weights of a row sum to: 1, or less in half an attention."""
    total = float(weights.sum())
    return 1.0 if abs(total - 1) < 0.005 else total


def even_weight(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which weight each key would have if the row were even."""
    at = asked.row_of(row)
    count = len(asked.keys_of(at))
    whole = _whole(asked.weights[at][asked.keys_of(at)])
    total = f"{whole:.3g}"
    note = (
        f"The row has {count} key{'s' * (count > 1)} it may look at, and its weights sum to "
        f"{total}: {total} / {count} = {whole / count:.2f} for each."
    )
    others = tuple(whole * of for of in (1.0, 0.5 if count != 2 else 0.25, 1 / (count + 3)))
    names = {"row": asked.grid.rows[at], "count": str(count)}
    return numbers(whole / count, others, written=_two, note=note, names=names)


def keys_for_share(asked: Asked, *, row: RowWord = "chosen", share: float = 0.9) -> Question:
    """Ask how many keys, the heaviest first, have a share of a row together."""
    at = asked.row_of(row)
    weights = np.sort(asked.weights[at][asked.keys_of(at)])[::-1]
    count = int(np.searchsorted(np.cumsum(weights), share * (1 - NEAR))) + 1
    note = (
        f"From the heaviest down: {' + '.join(map(_two, weights[:count][:5]))}"
        f"{' + …' * (count > 5)} ≈ {weights[:count].sum():.2f}, with {count} of {len(weights)} keys"
    )
    less = float(weights[: count - 1].sum())
    others = [float(n) for n in (1, count + 2, len(weights)) if 0 < n <= len(weights)]
    near = count > 1 and share - less < _NEARLY
    others += [float(count - 1)] * near
    note += f"; with one less it is {_two(less)}{', nearly as much' * near}." if count > 1 else "."
    names = {"row": asked.grid.rows[at], "share": f"{share:g}"}
    found = numbers(float(count), others, written="{:.0f}".format, note=note, names=names)
    good = {str(count), str(count - near)}
    right = frozenset(choice.place for choice in found.choices if choice.label in good)
    return dataclasses.replace(found, right=right)


def _values(asked: Asked, of: Property) -> np.ndarray:
    """Return a property of each head of the kind, (L, H)."""
    maps, kind = asked.trace.attention[asked.head.kind], asked.head.kind
    rows = rows_with_several_keys(maps.shape, asked.grid.allowed)
    if of in ("largest_weight", "evenness"):
        keys, own = asked.trace.keys_of(kind), kind != "cross"
        found = np.zeros(maps.shape[:2])
        for at in np.ndindex(*found.shape):
            facts = map_facts(maps[at], keys, allowed=asked.grid.allowed, own_keys=own)
            if facts is not None:
                found[at] = facts.largest if of == "largest_weight" else facts.evenness
        return found
    places = np.flatnonzero(rows)
    if of == "unlike_mean":
        apart = np.abs(maps - maps.mean(axis=1, keepdims=True)).sum(axis=-1) / 2
        return np.asarray(apart[:, :, places].mean(axis=-1))
    if of == "end":
        return np.asarray(maps[:, :, places, -1].mean(axis=-1))
    # As the measures of heads do: a row without such a key counts as 0.
    back, count = 0 if of == "itself" else 1, max(len(places), 1)
    places = places[(places >= back) & (places - back < maps.shape[-1])]
    return np.asarray(maps[:, :, places, places - back].sum(axis=-1) / count)


def head_extreme(asked: Asked, *, of: Property, most: bool = True) -> Question:
    """Ask which head of the chosen kind has most, or least, of a property; answered by a head."""
    values, kind = _values(asked, of), asked.head.kind
    best = float(values.max() if most else values.min())
    right, choices, word = set(), [], "largest" if most else "smallest"
    first = np.unravel_index(first_largest(values.ravel() * (1 if most else -1)), values.shape)
    for layer, head in np.ndindex(*values.shape):
        name, value = f"{layer + 1}.{head + 1}", float(values[layer, head])
        said = f"Layer {layer + 1}, head {head + 1}: its {_PROPERTIES[of]} is {_two(value)}"
        if abs(value - best) < _ALIKE:
            right.add((layer, head))
            said += f": of the {values.size} heads here the {word}, or as good as that."
        else:
            said += f"; the {word} here, of layer {first[0] + 1}, head {first[1] + 1}, is "
            said += f"{_two(best)}."
        choices.append(Choice((layer, head), name, said))
    return Question(tuple(choices), frozenset(right), {"kind": KIND_NAMES[kind].lower()})


def row_for_key(asked: Asked, *, column: PlaceWord | int = "middle") -> Question:
    """Ask which row looks most at a key; answered by a row."""
    weights, rows = asked.weights, asked.grid.rows
    key = asked.column if asked.column is not None else place_of(column, weights.shape[1])
    best = float(weights[:, key].max())
    right = frozenset((int(row),) for row in _ties(weights[:, key], best))
    name = asked.grid.columns[key]
    choices = listed(
        rows,
        lambda row: (
            f"The row “{rows[row]}” has {_two(weights[row, key])} on “{name}”"
            + (
                ", the largest weight of the column."
                if (row,) in right
                else f"; the largest weight of that column is {_two(best)}."
            )
        ),
    )
    return Question(tuple(choices), right, {"column": name})


def masked_keys(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask how many keys the causal mask hides from a row of the decoder's self-attention."""
    own = dataclasses.replace(asked, head=Head("decoder_self", 0, 0))
    at, total = own.row_of(row), len(own.grid.columns)
    seen = len(own.keys_of(at))
    note = (
        f"Row {at + 1} has consumed {seen} of the {total} tokens and may look at these; the weight "
        f"of those that come later, {total - seen} of {total}, is exactly 0."
    )
    others = (float(seen), float(total), float(total - seen + 1))
    names = {"row": own.grid.rows[at]}
    return numbers(float(total - seen), others, written="{:.0f}".format, note=note, names=names)


def hidden_token(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which token a row could read off if nothing were masked: the one that it has to predict,
    which the next row consumes. Answered by a target token; never of the last row.
    """
    trace = asked.trace
    at = min(asked.row_of(row), max(len(trace.predicted) - 2, 0))
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    choices = listed(
        predicted,
        lambda place: (
            f"Row {at + 1} from the top has to predict “{predicted[at]}”, which the next row "
            "consumes. One key to the right of its own it would stand there, ready to be copied."
            if place == at
            else f"“{predicted[place]}” is predicted by row {place + 1} from the top, after "
            f"“{consumed[place]}”. Asked is what comes after “{consumed[at]}”."
        ),
    )
    names = {"row": asked.grid.rows[at], "consumed": consumed[at]}
    return Question(tuple(choices), frozenset({(at,)}), names)


def predicted_token(asked: Asked, *, row: RowWord = "chosen") -> Question:
    """Ask which token a decoder row predicts; answered by a target token."""
    trace, at = asked.trace, asked.row_of(row)
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    choices = []
    for place, label in enumerate(predicted):
        what = f"“{label}” is predicted by row {place + 1}, after it has consumed “"
        said = f"{what}{consumed[place]}”."
        if place == at - 1:
            said += f" Row {at + 1} consumes “{label}” itself, and predicts the token after it."
        choices.append(Choice((place,), label, said))
    names = {"row_number": str(at + 1), "consumed": consumed[at]}
    return Question(tuple(choices), frozenset({(at,)}), names)


def largest_weight(asked: Asked) -> Question:
    """Ask for the largest weight of the map, rows with a single key apart."""
    rows = np.flatnonzero(rows_with_several_keys(asked.weights.shape, asked.grid.allowed))
    weights = asked.weights[rows] if len(rows) else asked.weights
    largest, even = float(weights.max()), 1 / asked.weights.shape[1]
    note = (
        f"The largest weight of this map is {_two(largest)}; quite even rows would have "
        f"{_two(even)} on each of {asked.weights.shape[1]} keys."
    )
    others = (1.0 if largest < 0.8 else even, 0.5 if abs(largest - 0.5) > 0.15 else 0.9)
    return numbers(largest, others, written=_two, note=note)


def costliest_head(asked: Asked) -> Question:
    """Ask which head of the chosen kind costs the target most when it is switched off."""
    costs = np.asarray(asked.costs()[asked.head.kind], np.float64)
    best = float(costs.max())
    right = frozenset(map(tuple, np.argwhere(np.abs(costs - best) < 0.005).tolist()))
    choices = []
    for layer, head in np.ndindex(*costs.shape):
        place, cost = (layer, head), float(costs[layer, head])
        said = f"Without layer {layer + 1}, head {head + 1} the translation loses {cost:.2f} nats"
        said += (
            "; no other of its kind costs more." if place in right else f"; the most is {best:.2f}."
        )
        choices.append(Choice(place, f"{layer + 1}.{head + 1}", said))
    return Question(tuple(choices), right, {"kind": KIND_NAMES[asked.head.kind].lower()})
