"""Values of tokens without a sentence: their means over the places of a corpus.

``n`` tokens; contexts are averaged.
"""

from __future__ import annotations

import numpy as np

from headwise.model.config import Counts
from headwise.model.interface import Kind, Seq2SeqModel, Tokenizers
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.core.written import Numbers, TokenValues, values_in

MOST_FREQUENT = 200
"""Tokens of which heads are asked what they write."""


@of_sentences("values of tokens", says="Reading the example sentences")
def mean_values(model: Seq2SeqModel, sentences: Sentences, kind: Kind) -> TokenValues:
    """Return the mean value of each token over its places in some sentences, ids rising."""
    found = values_in(model, sentences.pairs, kind)
    ids, place, counts = np.unique(found.ids, return_inverse=True, return_counts=True)
    sums = np.zeros((len(ids), *np.moveaxis(found.values, 2, 0).shape[1:]))
    np.add.at(sums, place, np.moveaxis(found.values, 2, 0))
    means = np.moveaxis(sums / counts[:, None, None, None], 0, 2)
    return TokenValues(kind, ids, counts, means.astype(found.values.dtype))


def frequent(means: TokenValues, tokenizers: Tokenizers, counts: Counts | None) -> TokenValues:
    """Return the values of the tokens that are most frequent in the training data, those first.

    Without its counts they are those that are most frequent among the values. Tokens that stand for
    no text are left out.
    """
    times = means.counts
    if counts is not None:
        of_side = counts.target if means.kind == "decoder_self" else counts.source
        times = np.array(of_side)[means.ids]
    order = np.lexsort([means.ids, -times])
    return means.of(_texts(means.ids[order], means.kind, tokenizers)[:MOST_FREQUENT])


def with_means(here: TokenValues, means: TokenValues, tokenizers: Tokenizers) -> TokenValues:
    """Return each token once, its mean value where it has one, else the value here, of 0 places.

    Tokens that stand for no text are left out.
    """
    alone = here.of(_texts(here.ids, here.kind, tokenizers))
    known = np.isin(alone.ids, means.ids)
    of_known = means.of(alone.ids[known].tolist())
    counts, values = np.zeros_like(alone.ids), alone.values.copy()
    counts[known], values[:, :, known] = of_known.counts, of_known.values
    return TokenValues(here.kind, alone.ids, counts, values)


def _texts(ids: Numbers, kind: Kind, tokenizers: Tokenizers) -> list[int]:
    """Return the tokens that stand for text, each once."""
    read = tokenizers.target if kind == "decoder_self" else tokenizers.source
    return [id for id in dict.fromkeys(ids.tolist()) if id not in read.control_ids]
