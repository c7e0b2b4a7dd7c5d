"""Computes the odds of two words under patches: exactly, a pass for each, or to first order.

``passes.py`` says what patches are. Attribution patching is the first order of all of them, by one
backward pass (Nanda 2023; Syed et al. 2023).

``n`` positions, ``T`` target steps, ``D`` = d_model, ``H`` heads, ``K`` = d_k.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import cast

import torch
from torch import Tensor

from headwise.model.forced import forced_stream
from headwise.model.hooks import Edit, capture, edit
from headwise.model.interface import Seq2SeqModel
from headwise.model.interventions import passes_at_a_time
from headwise.model.readings import Difference
from headwise.viz_app.why.sentences.passes import (
    STACKS,
    Patch,
    RecordedPass,
    Splice,
    read_odds,
    splice,
)


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
        model: the model.
        a: the pass that is patched.
        b: the pass whose tensors are put in; of the same target.
        difference: which two words.
        patches: in any order.
        known: odds that are known already, by their place among the patches. What is found is added
            batch by batch, so that a call which was ended by an exception can be gone on with.
        note_done: is told how many patches are done, after every batch.

    Returns:
        (patches,), float64. Two passes over different targets are a ``ValueError``.
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


_Placed = tuple[int, Patch | Splice]
"""A patch and its place among those that are asked for."""


def _batches(
    model: Seq2SeqModel, a: RecordedPass, placed: Sequence[_Placed]
) -> Iterator[Sequence[_Placed]]:
    """Split patches into those that are run together: splices alone, and each stack by itself."""
    source, target = a.source.shape[1], a.consumed.shape[1]
    of_stack: dict[bool, list[_Placed]] = {True: [], False: []}
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
    with edit(model, _edits(b, cast(Sequence[Patch], patches))):
        if first.is_of_encoder:
            memory, mask = model.encode(a.source.expand(count, -1))
        else:
            memory, mask = a.memory.expand(count, -1, -1), a.mask
            mask = mask if mask is None else mask.expand(count, -1, -1, -1)
        return model.decode(a.consumed.expand(count, -1), memory, mask)


def _edits(b: RecordedPass, patches: Sequence[Patch]) -> dict[str, Edit]:
    """Make the edits of a batch, each of whose rows has a patch."""
    by_point: dict[str, list[tuple[int, Patch]]] = defaultdict(list)
    for row, patch in enumerate(patches):
        by_point[patch.point].append((row, patch))
    return {point: _replace_rows(b, placed) for point, placed in by_point.items()}


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
