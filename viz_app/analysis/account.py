"""The account of a word, grouped and ordered for reading: by layer, and by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.model.interface import Head, Kind, parse_head
from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.records.account import Account, Doubles, StreamParts
from headwise.viz_app.records.trace import Floats

KINDS_OF_DECODER: tuple[Kind, ...] = ("decoder_self", "cross")
REST = "rest"
"""The name of what is too small for a bar of its own."""


@dataclass(frozen=True)
class Bar:
    """One signed part of a sum."""

    name: str
    """As links and files have it: ``cross.2.4``, ``feed_forward.2``, ``token``."""
    label: str
    value: float


def part_label(name: str) -> str:
    """Return how people read the name of a part, layers and heads from 1."""
    group, _, place = name.partition(".")
    if group in KIND_NAMES:
        return f"{KIND_NAMES[parse_head(name).kind]} {place}"
    title = group.replace("_", "-").capitalize()
    return f"{title} {place}".strip()


def bars_by_size(parts: Mapping[str, float], smallest: float) -> list[Bar]:
    """Return the parts by their magnitude, the largest first; small ones together come last.

    Args:
        parts: name → value.
        smallest: least magnitude of a bar of its own; the rest is one bar, named, never dropped.
    """
    names = list(parts)
    sizes = np.abs(np.array([parts[name] for name in names]))
    ordered = [names[place] for place in descending(sizes)]
    large = [name for name in ordered if abs(parts[name]) >= smallest]
    bars = [Bar(name, part_label(name), parts[name]) for name in large]
    if small := [name for name in ordered if abs(parts[name]) < smallest]:
        others = f"{len(small)} smaller part{'s' * (len(small) > 1)}"
        bars.append(Bar(REST, others, sum(parts[name] for name in small)))
    return bars


def largest_bars(parts: Mapping[str, float], most: int) -> list[Bar]:
    """Return the ``most`` largest parts, and those of the same size, as ``bars_by_size`` does."""
    sizes = sorted(map(abs, parts.values()), reverse=True)
    return bars_by_size(parts, sizes[min(most, len(sizes)) - 1])


def largest_neurons(values: Doubles, most: int) -> list[int]:
    """Return the neurons of a feed-forward, (d_ff,), that brought most, the largest first.

    Those that brought nothing are left out.
    """
    return [int(place) for place in descending(np.abs(values))[:most] if values[place]]


def limit_of(account: Account) -> float:
    """Return the magnitude at both ends of every scale of an account: that of its largest part."""
    return max(abs(value) for _, value in account.named()) or 1.0


def bars_by_layer(account: Account) -> list[Bar]:
    """Return what each sublayer of the decoder brought, in the order of the computation."""
    parts = account.parts
    bars = [Bar("token", "Token", parts.token)]
    if parts.position is not None:
        bars.append(Bar("position", "Position", parts.position))
    for layer in range(len(parts.neurons)):
        bars += [
            Bar(kind, f"{KIND_NAMES[kind]} {layer + 1}", float(parts.heads[kind][layer].sum()))
            for kind in KINDS_OF_DECODER
        ]
        bars.append(
            Bar(
                f"feed_forward.{layer + 1}",
                f"Feed-forward {layer + 1}",
                float(parts.feed_forwards[layer]),
            )
        )
    return [*bars, Bar("biases", "Biases", parts.biases)]


def lines_by_part(accounts: Sequence[Account], most: int) -> dict[str, list[float]]:
    """Return what parts of the decoder brought in each of some accounts of the same two words.

    Returns:
        The difference, then the ``most`` sublayers and inputs that were largest in any account,
        in the order of the computation, and the sum of all others; a value for each account.
    """
    columns = [bars_by_layer(each) for each in accounts]
    values = np.array([[bar.value for bar in bars] for bars in columns])  # (accounts, parts)
    largest = sorted(descending(np.abs(values).max(axis=0))[:most])
    lines = {"Difference": [each.parts.total for each in accounts]}
    lines |= {columns[0][place].label: values[:, place].tolist() for place in largest}
    if others := values.shape[1] - len(largest):
        name = f"{others} smaller part{'s' * (others > 1)}"
        lines[name] = (values.sum(axis=1) - values[:, largest].sum(axis=1)).tolist()
    return lines


def stream_parts(parts: StreamParts) -> dict[str, float]:
    """Return the parts of any stream by name, its heads summed over keys."""
    found = {"token": parts.token}
    if parts.position is not None:
        found["position"] = parts.position
    for kind, heads in parts.heads.items():
        for layer, head in np.ndindex(heads.shape[:2]):
            found[f"{kind}.{layer + 1}.{head + 1}"] = float(heads[layer, head].sum())
    for layer, value in enumerate(parts.feed_forwards):
        found[f"feed_forward.{layer + 1}"] = float(value)
    return found | {"biases": parts.biases}


def encoder_totals(account: Account) -> dict[str, float]:
    """Return what each part of the encoder brought through all cells of cross-attention."""
    return {name: float(cells.sum()) for name, cells in account.from_encoder.named()}


def direct_by_head(account: Account) -> dict[Kind, Floats]:
    """Return the direct effect of every head, (L, H) for each kind.

    Heads of the encoder write nothing into the decoder: theirs is their part of what the heads of
    cross-attention brought, all together.
    """
    heads = {kind: cells.sum(axis=-1) for kind, cells in account.parts.heads.items()}
    heads["encoder_self"] = account.from_encoder.heads.sum(axis=(0, 1, 2))
    return {kind: values.astype(np.float32) for kind, values in heads.items()}


def disagrees(direct: float, whole: float, smallest: float) -> bool:
    """Return whether a direct and a whole effect differ in sign, or by more than half.

    Effects that are both below ``smallest`` do not count.
    """
    if max(abs(direct), abs(whole)) < smallest:
        return False
    return direct * whole < 0 or abs(direct - whole) > 0.5 * max(abs(direct), abs(whole))


def head_of(name: str) -> Head | None:
    """Return the head that a part is; None if it is none."""
    return parse_head(name) if name.partition(".")[0] in KIND_NAMES else None
