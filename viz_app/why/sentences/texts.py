"""Traces two texts, and patches the first with each part of the second."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.model.interface import Seq2SeqModel, Tokenizers
from headwise.model.spelling import single_token
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.correspondence import parting
from headwise.viz_app.why.sentences.patches import MOST_SECONDS, run_attribution, run_patching
from headwise.viz_app.why.sentences.patching import Patching


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
