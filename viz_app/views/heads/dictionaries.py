"""What Heads gets from a run about what heads write: values of tokens, a lexicon, and scores."""

from __future__ import annotations

import numpy as np

from headwise.model.interface import Head, Kind
from headwise.viz_app.measuring.dictionaries import (
    MOST_FREQUENT,
    chosen_values,
    copying,
    lexicon_of,
    lexicon_precision,
    mean_values,
    most_frequent,
    values_in,
)
from headwise.viz_app.measuring.stages import find_aligning_head
from headwise.viz_app.records.dictionary import Lexicon, TokenValues, WritingScores
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.caches import Run, weights_of
from headwise.viz_app.views.heads.sentences import examples_of
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.measures import measures_of


def mean_values_of(run: Run, step: int, measures: Measures, kind: Kind) -> TokenValues:
    """Return the mean value of each token over the example sentences."""
    weights = weights_of(run, step)
    return cached(
        "values of tokens",
        (str(run.folder), weights.sha256, measures.examples_corpus.sha256, kind),
        lambda: mean_values(values_in(weights.model, examples_of(run, measures), kind)),
        facts=lambda found: {"run": run.name, "step": step, "tokens": len(found.ids)},
        says="Reading the example sentences",
    )


def frequent_values(run: Run, step: int, measures: Measures, kind: Kind) -> TokenValues:
    """Return the mean values of the most frequent tokens."""
    found = mean_values_of(run, step, measures, kind)
    return chosen_values(found, most_frequent(found, run.tokenizers, run.counts, kind))


def _aligner(run: Run, measures: Measures) -> int:
    """Return the place of the head of the last checkpoint that aligns words best."""
    last = run.steps()[-1]
    of_last = measures_of(run, [last]).by_step.get(last)
    errors = None if of_last is None else of_last.values["aer_predicted"]["cross"]
    if errors is not None and np.isfinite(errors).any():
        return int(np.nanargmin(errors))
    pairs = examples_of(run, measures)
    return find_aligning_head(weights_of(run, last).model, run.tokenizers, pairs, None)


def lexicon_for(run: Run, measures: Measures) -> tuple[Lexicon, Head]:
    """Return the lexicon of the example sentences, and the head whose links it is made from."""
    last = weights_of(run, run.steps()[-1])

    def compute() -> tuple[Lexicon, Head]:
        place = _aligner(run, measures)
        pairs = examples_of(run, measures)
        layer, number = divmod(place, run.description.heads("cross"))
        found = lexicon_of(last.model, run.tokenizers, pairs, place)
        return found, Head("cross", layer, number)

    return cached(
        "lexicon",
        (str(run.folder), last.sha256, measures.examples_corpus.sha256),
        compute,
        facts=lambda found: {"run": run.name, "entries": len(found[0].source)},
        says="Aligning the example sentences",
    )


def scores_of(
    run: Run, step: int, measures: Measures, kind: Kind, only: Head | None = None
) -> WritingScores:
    """Score all heads of a kind, or only one, at a checkpoint, by the example sentences."""
    weights = weights_of(run, step)
    lexicon = lexicon_for(run, measures)[0] if kind == "cross" else None

    def compute() -> WritingScores:
        if lexicon is None:
            values = frequent_values(run, step, measures, kind)
            return copying(weights.model, values, only=only)
        values = mean_values_of(run, step, measures, kind)
        return lexicon_precision(weights.model, values, lexicon, only=only)

    return cached(
        "what heads write",
        (str(run.folder), weights.sha256, measures.examples_corpus.sha256, kind, only),
        compute,
        facts=lambda _: {"run": run.name, "step": step},
        says="Scoring what heads write",
        needs=logits_bytes(run),
    )


def logits_bytes(run: Run) -> int:
    """Return about how much memory the logits of a head for the most frequent tokens take."""
    return 4 * 8 * MOST_FREQUENT * run.description.target_vocab_size
