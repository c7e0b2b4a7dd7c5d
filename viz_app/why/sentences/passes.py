"""Activation patching: tensors of a pass over a sentence A become those of a sentence B.

Both passes are given one target. What of B suffices to make A's preference of one word over another
B's is asked; another thing may suffice, too. (Causal mediation of Vig et al. 2020; Zhang and Nanda
2024 compare its forms.) ``odds.py`` computes what patches do.

Models are in evaluation mode. ``S`` source length, ``T`` target steps, ``n`` positions,
``D`` = d_model, ``H`` heads, ``K`` = d_k.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream
from headwise.model.hooks import Edit, capture, edit
from headwise.model.interface import Seq2SeqModel, Stack, WordSpan
from headwise.model.interventions import passes_at_a_time
from headwise.model.readings import Difference, sublayers

STACKS: tuple[Stack, Stack] = ("encoder", "decoder")


@dataclass(frozen=True)
class Patch:
    """A hook point where A is given the tensor of B, at positions that correspond."""

    point: str
    """Name of a hook point of (B, n, D) or, of heads, (B, H, n, K)."""
    here: tuple[int, ...]
    """Positions in A."""
    there: tuple[int, ...]
    """For each of them, the position in B."""
    head: int | None = None
    """The only head that is replaced, from 0."""

    @property
    def is_of_encoder(self) -> bool:
        """Return whether the hook point is in the encoder."""
        return self.point.startswith("encoder.")

    def of(self, seen: Mapping[str, Tensor], positions: Sequence[int]) -> Tensor:
        """Return what a pass had at the hook point at some positions, (n, D) or (n, K)."""
        tensor = seen[self.point]
        return tensor[list(positions)] if self.head is None else tensor[self.head, list(positions)]


@dataclass(frozen=True)
class Splice:
    """A stretch of A's encoder output for which A is given one of B's, of whatever length.

    Where A's stretch is empty, B's is put in; where B's is empty, A's is taken out.
    """

    here: WordSpan
    there: WordSpan


@dataclass(frozen=True)
class RecordedPass:
    """One pass over a source and a target, with the tensors that patches take."""

    source: Tensor
    """Ids (1, S)."""
    consumed: Tensor
    """Ids (1, T)."""
    seen: Mapping[str, Tensor]
    """Tensors at hook points, without the axis of the batch."""
    memory: Tensor
    """The encoder's output, (1, S, D)."""
    mask: Tensor | None
    """(1, 1, 1, S), None where nothing is padded."""
    stream: Tensor
    """The decoder's output, (1, T, D)."""

    @classmethod
    @torch.inference_mode()
    def run(cls, model: Seq2SeqModel, source: Tensor, consumed: Tensor) -> RecordedPass:
        """Run a model on source ids (1, S) and consumed ids (1, T).

        Raises:
            ValueError: if a sequence is empty or too long for the model.
        """
        with capture(model, patch_points(model)) as seen:
            memory, mask = model.encode(source)
            stream = model.decode(consumed, memory, mask)
        tensors = {name: found[0][0] for name, found in seen.items()}
        return cls(source, consumed, tensors, memory, mask, stream)

    def odds(self, difference: Difference) -> float:
        """Return the logarithm of the ratio of two words' probabilities at the last step."""
        return float(read_odds(self.stream, difference))


def stream_points(model: Seq2SeqModel, stack: Stack) -> list[str]:
    """Name the hook points of a stack's stream: what its first layer reads, what each leaves."""
    layers = model.description.layers("encoder_self" if stack == "encoder" else "decoder_self")
    return [
        f"{stack}.embedding.output",
        *(f"{stack}.layers.{layer}.output" for layer in range(layers)),
    ]


def patch_points(model: Seq2SeqModel) -> list[str]:
    """Name all hook points that patches of streams, heads and sublayers replace."""
    names = []
    for stack in STACKS:
        names += stream_points(model, stack)
        for sublayer in sublayers(model, stack):
            names.append(f"{sublayer.path}.output")
            if sublayer.kind is not None:  # outputs of its heads, before W_O
                names.append(f"{sublayer.path}.heads")
    return names


def read_odds(stream: Tensor, difference: Difference) -> Tensor:
    """Read the odds at the last step of streams, (…, T, D) → (…), float64."""
    return stream[..., -1, :].double() @ difference.reading + difference.bias


def splice(a: RecordedPass, b: RecordedPass, stretch: Splice) -> tuple[Tensor, Tensor | None]:
    """Return A's encoder output and mask with a stretch of B's in place of one of A's.

    The whole of both gives those of B, to the bit.
    """
    before, after = slice(None, stretch.here.start), slice(stretch.here.stop, None)
    inside = slice(stretch.there.start, stretch.there.stop)
    memory = torch.cat([a.memory[:, before], b.memory[:, inside], a.memory[:, after]], dim=1)
    if a.mask is None and b.mask is None:
        return memory, None
    masks = [
        torch.ones_like(each.source, dtype=torch.bool)[:, None, None]
        if each.mask is None
        else each.mask
        for each in (a, b)
    ]
    mask = torch.cat([masks[0][..., before], masks[1][..., inside], masks[0][..., after]], dim=-1)
    return memory, mask


@contextmanager
def patched(model: Seq2SeqModel, b: RecordedPass, patch: Patch) -> Iterator[None]:
    """Patch while the calling thread runs the model on A once, or decodes once with a cache.

    In cached decoding a position of the target is replaced when it is consumed, and no other.
    """
    values = patch.of(b.seen, patch.there)
    start = 0

    def replace(x: Tensor) -> Tensor:
        nonlocal start
        first, length = start, x.shape[-2]
        if not patch.is_of_encoder:  # a step of cached decoding has the new positions only
            start += length
        inside = [
            (position - first, place)
            for place, position in enumerate(patch.here)
            if first <= position < first + length
        ]
        if not inside:
            return x
        positions, places = map(list, zip(*inside, strict=True))
        x = x.clone()
        rows = x if patch.head is None else x[:, patch.head]
        rows[:, positions] = values[places]
        return x

    with edit(model, {patch.point: replace}):
        yield


class _Encoded:
    """A model whose encoder has run."""

    def __init__(self, model: Seq2SeqModel, encoded: tuple[Tensor, Tensor | None]) -> None:
        self._model, self._encoded = model, encoded

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        return self._encoded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@torch.inference_mode()
def patched_translation(
    model: Seq2SeqModel,
    a: RecordedPass,
    b: RecordedPass,
    patch: Patch | Splice,
    prefix: Sequence[int],
) -> list[int]:
    """Translate A greedily, with a cache, under a patch; return the ids from ``<s>`` on.

    ``a`` and ``b`` are as for ``patched_odds``. A patch of the decoder is at the positions of the
    target that it names, so that the prefix should have these.
    """
    sources = a.source.tolist()
    if isinstance(patch, Splice):
        encoded = cast(Seq2SeqModel, _Encoded(model, splice(a, b, patch)))
        return greedy(encoded, sources, prefix)[0]
    with patched(model, b, patch):
        return greedy(model, sources, prefix)[0]


@torch.inference_mode()
def patched_odds(
    model: Seq2SeqModel,
    a: RecordedPass,
    b: RecordedPass,
    difference: Difference,
    patches: Sequence[Patch | Splice],
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """Compute A's odds of two words at the last step under each of some patches by itself.

    A patch that puts in what is there already is not run: it has A's odds, to the bit.

    Args:
        a, b: the pass that is patched, and the one whose tensors are put in; of one target, else
            it is a ``ValueError``.
        known: odds that are known already, by their place among the patches. What is found is added
            batch by batch, so that a call which was ended by an exception can be gone on with.
        note_done: is told how many patches are done, after every batch.

    Returns:
        (patches,), float64.
    """
    if not torch.equal(a.consumed, b.consumed):
        raise ValueError("expected two passes over one target, got two targets")
    known = {} if known is None else known
    running = []
    for place, patch in enumerate(patches):
        if place in known:
            continue
        if _changes(a, b, patch):
            running.append((place, patch))
        else:
            known[place] = a.odds(difference)
    for batch in _batches(model, a, running):
        odds = read_odds(_streams_under(model, a, b, [patch for _, patch in batch]), difference)
        known.update(zip((place for place, _ in batch), odds.tolist(), strict=True))
        note_done(len(known))
    return torch.tensor([known[place] for place in range(len(patches))], dtype=torch.float64)


def _batches(
    model: Seq2SeqModel, a: RecordedPass, placed: Sequence[tuple[int, Patch | Splice]]
) -> Iterator[Sequence[tuple[int, Patch | Splice]]]:
    """Split patches into those that are run together: splices alone, and each stack by itself."""
    source, target = a.source.shape[1], a.consumed.shape[1]
    of_stack: dict[bool, list[tuple[int, Patch | Splice]]] = {True: [], False: []}
    for each in placed:
        if isinstance(each[1], Splice):
            yield [each]
        else:
            of_stack[each[1].is_of_encoder].append(each)
    for is_of_encoder, some in of_stack.items():
        size = passes_at_a_time(model.description, source, target, encoding=is_of_encoder)
        for start in range(0, len(some), size):
            yield some[start : start + size]


def _streams_under(
    model: Seq2SeqModel, a: RecordedPass, b: RecordedPass, patches: Sequence[Patch | Splice]
) -> Tensor:
    """Run A under each patch of a batch; return the decoder's outputs, (patches, T, D)."""
    first, count = patches[0], len(patches)
    if isinstance(first, Splice):
        return model.decode(a.consumed, *splice(a, b, first))
    by_point: dict[str, list[tuple[int, Patch]]] = defaultdict(list)
    for row, patch in enumerate(cast(Sequence[Patch], patches)):
        by_point[patch.point].append((row, patch))
    with edit(model, {point: _replace_rows(b, placed) for point, placed in by_point.items()}):
        if first.is_of_encoder:
            memory, mask = model.encode(a.source.expand(count, -1))
        else:
            memory, mask = a.memory.expand(count, -1, -1), a.mask
            mask = mask if mask is None else mask.expand(count, -1, -1, -1)
        return model.decode(a.consumed.expand(count, -1), memory, mask)


def _replace_rows(b: RecordedPass, placed: Sequence[tuple[int, Patch]]) -> Edit:
    """Make an edit of (B, n, D), or (B, H, n, K), that replaces each row's positions by B's."""
    rows = [row for row, patch in placed for _ in patch.here]
    here = [position for _, patch in placed for position in patch.here]
    heads = [patch.head for _, patch in placed for _ in patch.here]
    values = torch.cat([patch.of(b.seen, patch.there) for _, patch in placed])

    def replace(x: Tensor) -> Tensor:
        x = x.clone()
        if x.dim() == 3:
            x[rows, here] = values
        else:
            x[rows, heads, here] = values
        return x

    return replace


def _changes(a: RecordedPass, b: RecordedPass, patch: Patch | Splice) -> bool:
    """Return whether a patch replaces anything by something else."""
    if isinstance(patch, Splice):
        here, there = (
            each.memory[:, span.start : span.stop]
            for each, span in ((a, patch.here), (b, patch.there))
        )
        return not torch.equal(here, there)
    return not torch.equal(patch.of(a.seen, patch.here), patch.of(b.seen, patch.there))


def attributed_odds(
    model: Seq2SeqModel,
    a: RecordedPass,
    b: RecordedPass,
    difference: Difference,
    patches: Sequence[Patch | Splice],
) -> Tensor:
    """Approximate ``patched_odds`` to first order, by one backward pass over A.

    A's odds change by their gradient times what the patch changes, (B − A).

    Returns:
        (patches,), float64; NaN for a splice, which changes the length of the source.
    """
    changes = [patch for patch in patches if isinstance(patch, Patch)]
    points = list(dict.fromkeys(patch.point for patch in changes))
    with torch.inference_mode(False), torch.enable_grad():
        begin = {
            f"{stack}.embedding.output": lambda x: x.detach().clone().requires_grad_()
            for stack in STACKS
        }
        with edit(model, begin), capture(model, points) as seen:
            stream = forced_stream(model, a.source.clone(), a.consumed.clone())
        reading = Difference(difference.reading.clone(), difference.bias)
        tensors = [seen[point][0] for point in points]
        gradients = torch.autograd.grad(read_odds(stream, reading).sum(), tensors)
    slopes = {point: found[0] for point, found in zip(points, gradients, strict=True)}
    odds = a.odds(difference)
    found = torch.full((len(patches),), math.nan, dtype=torch.float64)
    for place, patch in enumerate(patches):
        if isinstance(patch, Patch):
            change = patch.of(b.seen, patch.there).double() - patch.of(a.seen, patch.here).double()
            slope = patch.of(slopes, patch.here).double()
            found[place] = odds + float((slope * change).sum())
    return found
