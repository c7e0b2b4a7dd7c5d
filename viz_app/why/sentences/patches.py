"""Patches a traced sentence A with what another one, B, had on the same target.

Patches are defined in ``passes.py`` and run by ``odds.py``. What was turned in the trace of A is
turned in every pass here. All raise ``ValueError`` if the target has no such step, or the two words
are the same or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from headwise.model.budget import require_memory
from headwise.model.estimates import patching_bytes
from headwise.model.interface import (
    Description,
    Kind,
    Seq2SeqModel,
    Stack,
    Tokenizers,
    attention_path,
    parse_head,
)
from headwise.model.interventions import A_SECOND, decoding_work, encoding_work
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, difference_of
from headwise.model.spelling import single_token
from headwise.model.ties import rounding
from headwise.model.turning import turn
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.records.trace import Tokens, Trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.correspondence import Stretch, corresponding, parting
from headwise.viz_app.why.sentences.passes import (
    Patch,
    RecordedPass,
    Splice,
    attributed_odds,
    patched_odds,
    patched_translation,
    stream_points,
)
from headwise.viz_app.why.sentences.patching import Patching, is_of_encoder, patch_names

MOST_SECONDS = 600.0
"""Seconds of a processor for which exact passes may take, if nobody says otherwise."""


@of_trace("patching", needs=patching_bytes)
def run_patching(
    model: Seq2SeqModel,
    trace: Trace,
    other: Tokens,
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
        model: the model of the trace.
        trace: A, which is patched, and the target that both are given.
        other: the source of B, which is taken from.
        step: the row of the decoder that predicts the words, from 0.
        words: ids of the two words.
        known: what an earlier call had found that was ended by an exception of ``note_done``; this
            call adds to it.
        most_seconds: for how long a processor may be busy, as it is estimated before the passes; a
            ``ValueError`` if that is too long.
        note_done: is told how many patches of how many are done.
    """
    stretches = corresponding(trace.source, other)
    require_time(model.description, len(trace.source), stretches, step + 1, most_seconds)
    with turn(model, trace.turned):
        pair = _Pair.of(model, trace, other, step)
        odds = patched_odds(
            model,
            pair.a,
            pair.b,
            difference_of(model, *words),
            [*pair.patches.values()],
            known=known,
            note_done=lambda done: note_done(done, len(pair.patches)),
        )
    return pair.record(model, words, odds, exact=True)


def require_time(
    model: Description,
    source: int,
    stretches: Sequence[Stretch],
    steps: int,
    most_seconds: float = MOST_SECONDS,
) -> None:
    """Raise ``ValueError`` if passes over so many tokens of A, and target steps, take too long."""
    parts = patch_names(model.shapes, len(stretches), steps).values()
    names = [name for part in parts for name in part.ravel().tolist()]
    work = len(names) * decoding_work(model, source, steps)
    work += sum(map(is_of_encoder, names)) * encoding_work(model, source)
    if work > most_seconds * A_SECOND:
        raise ValueError(
            f"patching would run {len(names):,} passes over {source:,} + {steps:,} "
            f"tokens, some {work / A_SECOND:,.0f} seconds of a processor, and at most "
            f"{most_seconds:,.0f} are allowed; give a shorter sentence, or ask about an earlier "
            "token (attribution patching approximates all of it by one backward pass)"
        )


@of_trace("attribution patching", needs=patching_bytes)
def run_attribution(
    model: Seq2SeqModel, trace: Trace, other: Tokens, step: int, words: tuple[int, int]
) -> Patching:
    """Approximate ``run_patching`` to first order, by one backward pass: attribution patching."""
    with turn(model, trace.turned):
        pair = _Pair.of(model, trace, other, step)
        difference = difference_of(model, *words)
        odds = attributed_odds(model, pair.a, pair.b, difference, [*pair.patches.values()])
    return pair.record(model, words, odds, exact=False)


@of_trace("translated under a patch", needs=patching_bytes)
def run_patched_translation(
    model: Seq2SeqModel, trace: Trace, other: Tokens, step: int, name: str, prefix: tuple[int, ...]
) -> tuple[int, ...]:
    """Translate A greedily under one patch, by its name; return the ids from ``<s>`` on.

    A patch of the encoder is there from the beginning. One of the decoder is at the positions of
    the shared target up to the step: these are kept, and the translation goes on after them.
    A name of ``patch_names`` for which B has nothing to take is a ``ValueError``; ``prefix`` is how
    every target begins.
    """
    with turn(model, trace.turned):
        pair = _Pair.of(model, trace, other, step)
        if (patch := pair.patches.get(name)) is None:
            raise ValueError(f"expected the name of a patch with a counterpart in B, got {name!r}")
        begin = prefix if is_of_encoder(name) else trace.consumed.ids[: step + 1]
        return tuple(patched_translation(model, pair.a, pair.b, patch, begin))


@dataclass(frozen=True)
class _Pair:
    """Two passes over one target up to a step, and what of B can be put into A."""

    a: RecordedPass
    b: RecordedPass
    stretches: tuple[Stretch, ...]
    step: int
    patches: dict[str, Patch | Splice]
    """By name, in the order of ``patch_names``."""

    @classmethod
    def of(cls, model: Seq2SeqModel, trace: Trace, other: Tokens, step: int) -> _Pair:
        if not 0 <= step < len(trace.predicted):
            raise ValueError(
                f"expected a position from 0 to {len(trace.predicted) - 1} of the target, got "
                f"{step}"
            )
        if model.device.type == "cpu":
            source = max(len(trace.source), len(other))
            require_memory(patching_bytes(model.description, source, step + 1))
        target = torch.tensor([trace.consumed.ids[: step + 1]], device=model.device)
        rows = [torch.tensor([ids], device=model.device) for ids in (trace.source.ids, other.ids)]
        a, b = (RecordedPass.run(model, row, target) for row in rows)
        stretches = corresponding(trace.source, other)
        parts = patch_names(model.description.shapes, len(stretches), step + 1).values()
        patches = {
            name: patch
            for part in parts
            for name in part.ravel().tolist()
            if (patch := _patch(model, name, stretches, step + 1)) is not None
        }
        return cls(a, b, stretches, step, patches)

    @torch.inference_mode()
    def record(
        self, model: Seq2SeqModel, words: tuple[int, int], odds: torch.Tensor, *, exact: bool
    ) -> Patching:
        """Lay out the odds of the patches; NaN where there is none."""
        shapes = model.description.shapes
        by_name = dict(zip(self.patches, odds.tolist(), strict=True))
        parts = {}
        for part, names in patch_names(shapes, len(self.stretches), self.step + 1).items():
            found = [by_name.get(name, np.nan) for name in names.ravel().tolist()]
            parts[part] = np.array(found).reshape(names.shape)
            parts[part].flags.writeable = False
        difference = difference_of(model, *words)
        logits = [in_float32(model.unembed(each.stream[0, -1])) for each in (self.a, self.b)]
        return Patching(
            step=self.step,
            words=words,
            odds_a=self.a.odds(difference),
            odds_b=self.b.odds(difference),
            rounding=max(float(rounding(each.cpu().numpy()).max()) for each in logits),
            exact=exact,
            stretches=self.stretches,
            stream_encoder=parts["stream_encoder"],
            stream_decoder=parts["stream_decoder"],
            heads={kind: parts[f"heads_{kind}"] for kind in shapes},
            sublayers={stack: parts[f"sublayers_{stack}"] for stack in ("encoder", "decoder")},
        )


def _patch(
    model: Seq2SeqModel, name: str, stretches: Sequence[Stretch], steps: int
) -> Patch | Splice | None:
    """Return a patch by its name; None where B has nothing that can be taken."""
    what, *place = name.split(".")
    pairs, head = [(step, step) for step in range(steps)], None
    if is_of_encoder(name):
        pairs = [pair for stretch in stretches for pair in stretch.pairs]
    if what == "stream":
        points = stream_points(model, cast(Stack, place[0]))
        point, column = points[int(place[1])], int(place[2]) - 1
        pairs = pairs[column : column + 1]
        if place[0] == "encoder":
            stretch = stretches[column]
            if not stretch.fits and point == points[-1]:
                return Splice(stretch.a, stretch.b)
            pairs = stretch.pairs
    elif what == "sublayer":
        kind = None if place[2] == "feed_forward" else cast(Kind, place[2])
        point = Sublayer(cast(Stack, place[0]), int(place[1]) - 1, kind).path + ".output"
    else:
        kind, layer, head = parse_head(name)
        point = f"{attention_path(kind, layer)}.heads"
    here, there = ([pair[side] for pair in pairs] for side in (0, 1))
    return Patch(point, tuple(here), tuple(there), head=head) if pairs else None


def patch_texts(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    text: str,
    other: str,
    *,
    target: str | Sequence[int] | None = None,
    at: int | str | None = None,
    words: tuple[str, str] | None = None,
    attribution: bool = False,
    most_seconds: float = MOST_SECONDS,
) -> Patching:
    """Run a text A once with each thing of a text B in its place, both on one target.

    Args:
        model: the model, in evaluation mode.
        tokenizers: those of its run.
        text: A, which is patched.
        other: B, which is taken from.
        target: the translation that both are given; None for the model's own of A.
        at: which token of it is asked about, from 1, or its text if that is there once; None for
            the first in which the translations of A and B part.
        words: the two words whose log-odds are computed; None for those with which the two
            translations go on there.
        attribution: whether to approximate all patches to first order, by one backward pass.
        most_seconds: for how long the exact passes may keep a processor busy, as it is estimated
            before they are run.

    Raises:
        ValueError: if a text is empty or too long, the translations do not part where that is
            needed, ``at`` or ``words`` cannot be, or the passes would take too long.
    """
    a, own = run_trace(model, tokenizers, text, target), run_trace(model, tokenizers, other)
    parts_at = parting(a.predicted.ids, own.predicted.ids)
    if at is not None:
        step = a.step_of(at)
    elif parts_at is not None:
        step = parts_at
    else:
        raise ValueError("at: the two translations do not part; say which token")
    if words is not None:
        first, second = (single_token(tokenizers, word, name="words") for word in words)
    elif step == parts_at:
        first, second = a.predicted.ids[step], own.predicted.ids[step]
    else:
        raise ValueError("words: the two translations do not part at this token; name two words")
    if attribution:
        return run_attribution(model, a, own.source, step, (first, second))
    return run_patching(model, a, own.source, step, (first, second), most_seconds=most_seconds)
