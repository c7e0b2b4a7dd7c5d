"""Patches a traced sentence with what another one had: the border from torch to NumPy.

What is computed here is defined in ``model/patching.py`` and ``model/patched_odds.py``; heads that
were off in the first trace are off in every pass here.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headwise.model import patching
from headwise.model.interface import Description, Seq2SeqModel, Stack
from headwise.model.patched_odds import attributed_odds, patched_odds
from headwise.model.patching import Patch, RecordedPass, Splice
from headwise.model.placement import in_float32
from headwise.model.readings import Difference, difference_of, sublayers
from headwise.model.ties import rounding
from headwise.model.turning import turn
from headwise.model.work import A_SECOND, decoding_work, encoding_work
from headwise.viz_app.records.patching import (
    Doubles,
    Patching,
    Stretch,
    is_of_encoder,
    patch_names,
)
from headwise.viz_app.records.trace import Trace

MOST_SECONDS = 600.0
"""Seconds of a processor for which exact passes may take, if nobody says otherwise."""


def run_patching(
    model: Seq2SeqModel,
    a: Trace,
    b: Trace,
    stretches: Sequence[Stretch],
    step: int,
    words: tuple[int, int],
    *,
    known: MutableMapping[int, float] | None = None,
    most_seconds: float = MOST_SECONDS,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> Patching:
    """Run A once for each thing that can be taken from B, and say what the odds of two words are.

    Taken are the stream at a layer and stretch of the source (or position of the target), a head,
    and a sublayer. Where a stretch of B has another number of tokens than A's, it can only be taken
    from the encoder's output, with its part of the mask: there the source may have another length.

    Args:
        model: the model of both traces.
        a: the trace that is patched.
        b: the trace that is taken from; of the same target, up to the step.
        stretches: which tokens of the two sources correspond, all of A's in order.
        step: the row of the decoder that predicts the words, from 0.
        words: ids of the two words.
        known: what an earlier call had found that was ended by an exception of ``note_done``; this
            call adds to it.
        most_seconds: for how long a processor may be busy, as it is estimated before the passes.
        note_done: is told how many patches of how many are done.

    Raises:
        ValueError: if the targets differ, have no such step, or the words are the same or unknown;
            or if the passes would take too long.
    """
    require_time(model.description, len(a.source), stretches, step + 1, most_seconds)
    with turn(model, a.turned):
        pair = _Pair.of(model, a, b, stretches, step, words)
        places, patches = pair.patches(model)
        odds = patched_odds(
            model,
            pair.a,
            pair.b,
            pair.difference,
            patches,
            known=known,
            note_done=lambda done: note_done(done, len(patches)),
        )
    return pair.record(model, places, odds.numpy(), exact=True)


def require_time(
    model: Description,
    source: int,
    stretches: Sequence[Stretch],
    steps: int,
    most_seconds: float = MOST_SECONDS,
) -> None:
    """Raise ``ValueError`` if the passes of ``run_patching`` would take too long.

    Args:
        model: its shapes.
        source: tokens of A.
        stretches: which tokens of the two sources correspond.
        steps: target steps up to the one that is asked about.
        most_seconds: for how long a processor may be busy.
    """
    of_encoder, of_decoder = 0, 0
    for name in patch_names(model.shapes, len(stretches), steps):
        if is_of_encoder(name):
            of_encoder += 1
        else:
            of_decoder += 1
    work = (of_encoder + of_decoder) * decoding_work(model, source, steps)
    work += of_encoder * encoding_work(model, source)
    if work > most_seconds * A_SECOND:
        raise ValueError(
            f"patching would run {of_encoder + of_decoder:,} passes over {source:,} + {steps:,} "
            f"tokens, some {work / A_SECOND:,.0f} seconds of a processor, and at most "
            f"{most_seconds:,.0f} are allowed; give a shorter sentence, or ask about an earlier "
            "token (attribution patching approximates all of it by one backward pass)"
        )


def run_attribution(
    model: Seq2SeqModel,
    a: Trace,
    b: Trace,
    stretches: Sequence[Stretch],
    step: int,
    words: tuple[int, int],
) -> Patching:
    """Approximate ``run_patching`` to first order, by one backward pass: attribution patching."""
    with turn(model, a.turned):
        pair = _Pair.of(model, a, b, stretches, step, words)
        places, patches = pair.patches(model)
        odds = attributed_odds(model, pair.a, pair.b, pair.difference, patches)
    return pair.record(model, places, odds.numpy(), exact=False)


def run_patched_translation(
    model: Seq2SeqModel,
    a: Trace,
    b: Trace,
    stretches: Sequence[Stretch],
    step: int,
    name: str,
    prefix: Sequence[int],
) -> list[int]:
    """Translate A greedily under one patch, by its name; return the ids from ``<s>`` on.

    A patch of the encoder is there from the beginning. One of the decoder is at the positions of
    the shared target up to the step: these are kept, and the translation goes on after them.

    Args:
        model, a, b, stretches, step: as for ``run_patching``.
        name: one of ``patch_names``.
        prefix: how every target begins.

    Raises:
        ValueError: if there is no such patch, or nothing in B to take.
    """
    with turn(model, a.turned):
        passes = _passes(model, a, b, step)
        patch = _patches(model, stretches, step + 1).get(name)
        if patch is None:
            raise ValueError(f"expected the name of a patch with a counterpart in B, got {name!r}")
        in_decoder = isinstance(patch, Patch) and not patch.is_of_encoder
        begin = a.consumed.ids[: step + 1] if in_decoder else prefix
        return patching.patched_translation(model, *passes, patch, begin)


@dataclass(frozen=True)
class _Pair:
    """Two passes over one target, and what is asked of them."""

    a: RecordedPass
    b: RecordedPass
    difference: Difference
    stretches: tuple[Stretch, ...]
    step: int
    words: tuple[int, int]

    @classmethod
    def of(
        cls,
        model: Seq2SeqModel,
        a: Trace,
        b: Trace,
        stretches: Sequence[Stretch],
        step: int,
        words: tuple[int, int],
    ) -> _Pair:
        difference = difference_of(model, *words)
        return cls(*_passes(model, a, b, step), difference, tuple(stretches), step, words)

    def patches(self, model: Seq2SeqModel) -> tuple[list[int], list[Patch | Splice]]:
        """Return the patches that there are, each with its place among all names."""
        every = list(_patches(model, self.stretches, self.step + 1).values())
        places = [place for place, patch in enumerate(every) if patch is not None]
        return places, [patch for patch in every if patch is not None]

    @torch.inference_mode()
    def record(
        self, model: Seq2SeqModel, places: Sequence[int], odds: Doubles, *, exact: bool
    ) -> Patching:
        """Lay out what was found of the patches at some places."""
        shapes = model.description.shapes
        steps, columns = self.step + 1, len(self.stretches)
        encoder, decoder = shapes["encoder_self"][0], shapes["decoder_self"][0]
        sizes: dict[str, tuple[int, int]] = {
            "stream_encoder": (encoder + 1, columns),
            "stream_decoder": (decoder + 1, steps),
            **{str(kind): shape for kind, shape in shapes.items()},
            "encoder": (encoder, 2),
            "decoder": (decoder, 3),
        }
        flat = np.full(sum(rows * cells for rows, cells in sizes.values()), np.nan)
        flat[list(places)] = odds
        parts, start = {}, 0
        for name, shape in sizes.items():
            part = flat[start : start + shape[0] * shape[1]].reshape(shape)
            part.flags.writeable = False
            parts[name], start = part, start + part.size
        logits = [in_float32(model.unembed(each.stream[0, -1])) for each in (self.a, self.b)]
        return Patching(
            step=self.step,
            words=self.words,
            odds_a=self.a.odds(self.difference),
            odds_b=self.b.odds(self.difference),
            rounding=max(float(rounding(each.cpu().numpy()).max()) for each in logits),
            exact=exact,
            stretches=self.stretches,
            stream_encoder=parts["stream_encoder"],
            stream_decoder=parts["stream_decoder"],
            heads={kind: parts[kind] for kind in shapes},
            sublayers={stack: parts[stack] for stack in ("encoder", "decoder")},
        )


def _passes(
    model: Seq2SeqModel, a: Trace, b: Trace, step: int
) -> tuple[RecordedPass, RecordedPass]:
    """Run the model on both sources and the target up to a step."""
    if not 0 <= step < len(a.predicted):
        raise ValueError(
            f"expected a position from 0 to {len(a.predicted) - 1} of the target, got {step}"
        )
    consumed = a.consumed.ids[: step + 1]
    if b.consumed.ids[: step + 1] != consumed:
        raise ValueError("expected two traces of one target, up to the position; force it in both")
    rows = [torch.tensor([ids], device=model.device) for ids in (a.source.ids, b.source.ids)]
    target = torch.tensor([consumed], device=model.device)
    first, second = (RecordedPass.run(model, row, target) for row in rows)
    return first, second


def _patches(
    model: Seq2SeqModel, stretches: Sequence[Stretch], steps: int
) -> dict[str, Patch | Splice | None]:
    """Return every patch by its name; None where B has nothing that can be taken."""
    ends = patching.stream_points(model, "encoder")
    pairs = [pair for stretch in stretches for pair in stretch.pairs]
    every = tuple(range(steps))
    positions: dict[Stack, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "encoder": (tuple(here for here, _ in pairs), tuple(there for _, there in pairs)),
        "decoder": (every, every),
    }
    patches: list[Patch | Splice | None] = []
    for point in ends:
        for stretch in stretches:
            if stretch.fits:
                here, there = map(tuple, zip(*stretch.pairs, strict=True))
                patches.append(Patch(point, here, there))
            else:
                patches.append(Splice(stretch.a, stretch.b) if point == ends[-1] else None)
    for point in patching.stream_points(model, "decoder"):
        patches += [Patch(point, (position,), (position,)) for position in every]
    attentions: dict[str, list[Patch | Splice | None]] = {
        kind: [] for kind in model.description.shapes
    }
    written: dict[Stack, list[Patch | Splice | None]] = {"encoder": [], "decoder": []}
    for stack in written:
        places = positions[stack]
        for sublayer in sublayers(model, stack):
            written[stack].append(
                Patch(patching.output_point(sublayer), *places) if places[0] else None
            )
            if sublayer.kind is not None:
                attentions[sublayer.kind] += [
                    Patch(patching.heads_point(sublayer), *places, head=head) if places[0] else None
                    for head in range(model.description.heads(sublayer.kind))
                ]
    for found in (*attentions.values(), *written.values()):
        patches += found
    names = patch_names(model.description.shapes, len(stretches), steps)
    return dict(zip(names, patches, strict=True))
