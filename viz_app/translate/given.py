"""How likely a given translation is, beside references and translations of other sentences.

A word of the source that some head looks at much tells little: heads look at most words whatever
the target is. The log-probability of the target tells a translation from another sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwise.model.interface import Seq2SeqModel
from headwise.viz_app.core.batches import EncodedPair, target_scores
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.records.trace import Doubles, Trace
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.measures import measures_of
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import total_log_probability

_MOST = 64
"""Most sentences that are scored, so that a page need not wait."""


@dataclass(frozen=True)
class ReferenceScores:
    """Mean log-probabilities of a token, ``</s>`` included, in nats: (sentences,) each."""

    references: Doubles
    unrelated: Doubles
    """Of each source with the reference of another one, of about the same length."""
    longest: int
    """How many tokens the longest reference has, ``</s>`` included."""


@of_sentences("references scored", says="Scoring the example sentences")
def reference_scores(model: Seq2SeqModel, sentences: Sentences) -> ReferenceScores:
    """Score sentences, evenly taken, with their own references and with those of others."""
    pairs = sentences.pairs[:: math.ceil(len(sentences.pairs) / _MOST)]
    references, others = (
        _scores(model, replace(sentences, pairs=each)) for each in (pairs, unrelated(pairs))
    )
    return ReferenceScores(references, others, max(len(each.target) - 1 for each in pairs))


def unrelated(pairs: Sequence[EncodedPair]) -> tuple[EncodedPair, ...]:
    """Give each source the target of the next pair in order of length that has another target.

    The last ones take that of the first. A source is left out where all have one target.
    """
    ordered = sorted(pairs, key=lambda each: (len(each.target), each.number))
    found = []
    for at, pair in enumerate(ordered):
        after = (each.target for each in [*ordered[at + 1 :], *ordered[:at]])
        other = next((target for target in after if target != pair.target), None)
        if other is not None:
            found.append(replace(pair, target=other))
    return tuple(found)


def _scores(model: Seq2SeqModel, sentences: Sentences) -> Doubles:
    def of_batch(batch: Sequence[EncodedPair]) -> Doubles:
        tokens = [len(each.target) - 1 for each in batch]
        return target_scores(model, batch).double().numpy(force=True) / tokens

    return np.concatenate([np.zeros(0), *sentences.by_batch(of_batch)])


def beside_references(selection: Selection, trace: Trace) -> str:
    """Say of how many references and unrelated sentences a token is less likely; "" without any."""
    run, step = selection.run, selection.step
    measures = measures_of(run, [step]).by_step.get(step)
    if measures is None:
        return ""
    found = ask_sentences(reference_scores, run, step, Sentences.examples(run, measures))
    if not len(found.unrelated):
        return ""
    own = total_log_probability(trace) / len(trace.predicted)
    references, unrelated = (
        f"{(each < own).mean():.0%}" for each in (found.references, found.unrelated)
    )
    said = (
        f"{references} of {len(found.references):,} references have less a token, {unrelated} of "
        "unrelated sentences."
    )
    if (tokens := len(trace.predicted)) > found.longest:
        said += f" None is as long: they have at most {found.longest} tokens, this one {tokens:,}."
    return said
