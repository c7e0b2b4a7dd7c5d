"""Attention sinks: where heads put most of their weight whatever the query, and what that is worth.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.attention import punctuation, rows_with_several_keys
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.account import Doubles
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.sinks import Sink, SinkEffects
from headwise.viz_app.records.trace import Floats, Tokens, Trace

NOTHING = 0.005
"""In nats a token of the target: a sink costs nothing if zero in place of its values costs less."""
SAME = 1.1
"""Stable rank below which a head brings the same to all rows: at least 10 / 11 of the squared
length of what it brings lies along one direction."""
Role = Literal["does nothing there", "brings the same everywhere", "brings something from there"]
"""What a head does with its sink. The first that is true is said."""
SINK_NOTE = (
    "A head's sink is the token on which its weight, on average over its rows, is nearer to all of "
    "it than to what a head has there that spreads its weight evenly (in brackets), or else all "
    "special tokens and punctuation marks if their weight together is. “Values zero” is what the "
    "translation's log-probability loses, in nats, if what lies there brings nothing; “removed” "
    "if these keys are not there and the rest of a row takes their weight; “others zero” if all "
    f"other keys bring nothing. A head does nothing there if “values zero” is below {NOTHING} nats "
    "a token of the translation; it brings the same everywhere if the stable rank of what it "
    f"brings is below {SAME} (an even head's in brackets: it is near 1, too). Costs in one "
    "sentence have no error, and say nothing of other sentences; that a head does nothing there "
    "does not mean that it is not needed."
)
"""What the table of sinks shows, and what it cannot tell."""


def without_content(tokens: Tokens) -> NDArray[np.bool_]:
    """Return which tokens are special, such as ``</s>`` and language codes, or punctuation."""
    return np.isin(tokens.ids, list(tokens.special_ids)) | punctuation(tokens)


def rest_without_content(trace: Trace, head: Head) -> tuple[float, float] | None:
    """Return the share of a head's weight on such tokens, and that of an even head.

    Means are over the rows that have several keys. None if that is not most of the weight, as
    ``find_sinks`` has it: where this says something, that finds a sink of the head.
    """
    shares, even = _shares(trace.attention[head.kind], head.kind)
    keys = np.flatnonzero(without_content(trace.keys_of(head.kind)))
    return _most_weight(shares[head.layer, head.head], even, keys)


def mean_weight_without_content(measures: Measures) -> tuple[float, float]:
    """Return what all heads have on such tokens over a corpus, their mean, and even heads'.

    The second is NaN if it is not known.
    """
    heads, even = [], []
    for kind in KINDS:
        names = ("begin", "end", "punctuation")
        of_kind = [measures.values[name][kind] for name in names]
        heads += np.nansum(of_kind, axis=0).ravel().tolist()
        if measures.even:
            even_of = [measures.even.get(name, {}).get(kind, math.nan) for name in names]
            by_chance = float(np.nansum(even_of))
            even += [by_chance] * of_kind[0].size
    return float(np.mean(heads)), float(np.mean(even)) if even else math.nan


def _shares(maps: Floats, kind: Kind) -> tuple[Doubles, Doubles]:
    """Return the mean weight on each key, (L, H, M), and that of an even head, (M,)."""
    causal = np.tri(maps.shape[-1], dtype=bool) if kind == "decoder_self" else None
    rows = rows_with_several_keys(maps.shape, causal)
    if not rows.any():
        return np.zeros((*maps.shape[:2], maps.shape[-1])), np.zeros(maps.shape[-1])
    may = np.ones(maps.shape[-2:]) if causal is None else causal.astype(np.float64)
    even = (may / may.sum(axis=1, keepdims=True))[rows].mean(axis=0)
    return maps[..., rows, :].mean(axis=-2, dtype=np.float64), even


def _most_weight(
    shares: Doubles, even: Doubles, keys: NDArray[np.int64]
) -> tuple[float, float] | None:
    """Return what a head and an even head have on some keys, of the mean weights on each, (M,).

    None unless the head's share is nearer to all of the weight than to the even head's.
    """
    share, chance = float(shares[keys].sum()), float(even[keys].sum())
    return (share, chance) if len(keys) < len(shares) and share > (1 + chance) / 2 else None


def find_sinks(trace: Trace) -> list[Sink]:
    """Find the sink of each head of a trace that has one, kind by kind, layer by layer."""
    found = []
    for kind, maps in trace.attention.items():
        shares, even = _shares(maps, kind)
        group = np.flatnonzero(without_content(trace.keys_of(kind)))
        for layer, number in np.ndindex(*maps.shape[:2]):
            of_head, norms = shares[layer, number], trace.value_norms[kind][layer, number]
            strongest = np.array([int(first_largest(of_head))])
            for keys in (strongest, group):
                if most := _most_weight(of_head, even, keys):
                    there, elsewhere = float(norms[keys].mean()), np.delete(norms, keys).mean()
                    head = Head(kind, layer, number)
                    places = tuple(keys.tolist())
                    found.append(Sink(head, places, *most, there, float(elsewhere)))
                    break
    return found


def role_of(effects: SinkEffects, steps: int) -> Role:
    """Say what a head does with its sink, in a translation of a number of predicted tokens."""
    if abs(effects.values_zero) / steps < NOTHING:
        return "does nothing there"
    if effects.rank < SAME:
        return "brings the same everywhere"
    return "brings something from there"


def name_sink(sink: Sink, keys: Tokens) -> str:
    """Name the tokens of a sink, each once."""
    labels = token_labels(keys)
    return "  ".join(dict.fromkeys(labels[key] for key in sink.keys))
