"""The parts of a sum as bars to read: by size, by layer, and through training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwise.model.interface import Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import count_of, part_label, token_labels
from headwise.viz_app.figures.parts import heads_map
from headwise.viz_app.figures.theme import Theme
from headwise.viz_app.records.trace import Doubles, Trace
from headwise.viz_app.why.word.account import Account

KINDS_OF_DECODER: tuple[Kind, ...] = ("decoder_self", "cross")
REST = "rest"
"""The name of what is too small for a bar of its own."""
MOST_OF_ENCODER, MOST_NEURONS = 16, 12
"""Most parts of the encoder, and most neurons of a feed-forward, that have a bar of their own."""
DIRECT = (
    "A bar is a direct effect: what the part itself wrote for the one word and against the other. "
    "What later layers make of it is in their bars."
)
_READ: dict[Kind, str] = {
    "encoder_self": "source token that an encoder head read",
    "decoder_self": "token so far",
    "cross": "source token, as the encoder left it",
}
"""Kind of attention → what its heads read."""


class Bar(NamedTuple):
    """One signed part of a sum; names are those of links and files, such as ``cross.2.4``."""

    name: str
    label: str
    value: float


def bars_by_size(
    parts: Mapping[str, float], smallest: float, *, encoder: bool = False
) -> list[Bar]:
    """Return the parts by their magnitude, the largest first; those below ``smallest`` come last,
    as one bar. ``encoder`` says whether the label of each says that it is of the encoder.
    """
    names = list(parts)
    ordered = [names[place] for place in descending(np.abs([*parts.values()]))]
    bars = []
    for name in ordered:
        label = part_label(name)
        if encoder and not label.startswith("Encoder"):
            label = f"Encoder {label.lower()}"
        bars.append(Bar(name, label, parts[name]))
    large = sum(abs(bar.value) >= smallest for bar in bars)
    if small := bars[large:]:
        said = count_of(len(small), "smaller part")
        bars[large:] = [Bar(REST, said, sum(bar.value for bar in small))]
    return bars


def largest_bars(parts: Mapping[str, float], most: int, *, encoder: bool = False) -> list[Bar]:
    """Return the ``most`` largest parts, and those of the same size, as ``bars_by_size`` does."""
    sizes = sorted(map(abs, parts.values()), reverse=True)
    return bars_by_size(parts, sizes[min(most, len(sizes)) - 1], encoder=encoder)


def neuron_bars(values: Doubles, chosen: int | None = None) -> list[Bar]:
    """Return the neurons of a feed-forward, (d_ff,), that brought most and the chosen one, from 0;
    all others, those that brought nothing among them, are one bar.
    """
    shown = [int(place) for place in descending(np.abs(values))[:MOST_NEURONS] if values[place]]
    if chosen is not None and chosen not in shown:
        shown.append(chosen)
    rest = float(values.sum() - values[shown].sum())
    bars = [Bar(str(each + 1), f"neuron {each + 1:,}", float(values[each])) for each in shown]
    return [*bars, Bar(REST, count_of(len(values) - len(shown), "other"), rest)]


def bar_arguments(bars: Sequence[Bar], least: float = 0.0) -> dict[str, Any]:
    """Return the arguments of ``bar_chart``; its scale ends at ``least``, or beyond if need be."""
    values = [bar.value for bar in bars]
    limit = max([least, *map(abs, values)]) or 1.0
    return {"labels": [bar.label for bar in bars], "values": values, "limit": limit}


def by_layer(account: Account) -> dict[str, float]:
    """Return what each sublayer of the decoder brought, by its label, in order."""
    found: dict[str, float] = {}
    for name, value in account.named():
        sublayer = part_label(".".join(name.split(".")[:2]))
        found[sublayer] = found.get(sublayer, 0.0) + value
    return found


def lines_by_part(accounts: Sequence[Account], most: int) -> dict[str, list[float]]:
    """Return what parts of the decoder brought in each of some accounts of the same two words: the
    difference, the ``most`` sublayers and inputs that were largest in any account, in the order of
    the computation, and the sum of all others.
    """
    columns = [by_layer(each) for each in accounts]
    values = np.array([[*column.values()] for column in columns])  # (accounts, parts)
    largest = sorted(descending(np.abs(values).max(axis=0))[:most])
    lines = {"Difference": [each.parts.total for each in accounts]}
    lines |= {[*columns[0]][place]: values[:, place].tolist() for place in largest}
    if others := values.shape[1] - len(largest):
        rest = values.sum(axis=1) - values[:, largest].sum(axis=1)
        lines[count_of(others, "smaller part")] = rest.tolist()
    return lines


def disagrees(direct: float, whole: float, smallest: float) -> bool:
    """Return whether a direct and a whole effect differ in sign, or by more than half of the larger
    one; not where both are below ``smallest``.
    """
    larger = max(abs(direct), abs(whole))
    return larger >= smallest and (direct * whole < 0 or abs(direct - whole) > 0.5 * larger)


def map_by_token(
    trace: Trace, kind: Kind, cells: Doubles, limit: float, theme: Theme, **marked: Any
) -> Any:
    """Draw what each head of a kind brought from each token that it read, (layers, heads, keys)."""
    return heads_map(
        cells,
        columns=token_labels(trace.keys_of(kind))[: cells.shape[-1]],
        column_title=_READ[kind],
        limit=limit,
        theme=theme,
        **marked,
    )
