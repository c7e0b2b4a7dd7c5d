"""How good the dictionaries of heads are: precision by a lexicon, and copying.

A head of cross-attention is scored by the entries of a lexicon that it raises most. A head of the
decoder *copies* if it raises the very token that it reads, as do the name movers of Wang et al.
2022 ("Interpretability in the Wild", section 3), and *suppresses* if it lowers it (McDougall et al.
2023, "Copy Suppression").

``L`` layers, ``H`` heads, ``n`` tokens, ``V`` target vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.config import Counts
from headwise.model.interface import Head, Kind, Seq2SeqModel, Tokenizers
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.pairs import accuracy
from headwise.viz_app.core.batches import LeftOutCounts
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.core.record import Record
from headwise.viz_app.core.written import Numbers, TokenValues, values_in, written_logits
from headwise.viz_app.measuring.head_alignments import align_pairs
from headwise.viz_app.measuring.stages import find_aligning_head
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers
from headwise.viz_app.records.pairs import Accuracy
from headwise.viz_app.records.trace import Floats

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


COPIES, SUPPRESSES = 0.75, 0.25
"""Copying scores from which on a head is said to copy, and below which to suppress, where they are
two standard errors from chance."""
_LEAST_LINKS = 2
"""Links from which on a pair of tokens is in the lexicon."""


@dataclass(frozen=True)
class Lexicon(Record):
    """For source tokens that are words, the target token with which a translation begins."""

    head: Head
    """The head of cross-attention that made the links."""
    source: Annotated[Numbers, "n"]
    """Rising."""
    target: Annotated[Numbers, "n"]
    """The token that most links lead to."""
    links: Annotated[Numbers, "n"]
    """How many."""


@dataclass(frozen=True)
class WritingScores(Record):
    """A score of what each head of a kind writes, beside what it has by chance."""

    kind: Kind
    """Cross-attention is scored by precision, the decoder's self-attention by copying."""
    values: Annotated[Floats, "L H"]
    chance: Annotated[Floats, "L H"]
    """The same score where tokens and what is written for them are mixed up."""
    errors: Annotated[Floats, "L H"]
    """Standard error of ``values`` less ``chance``, over tokens."""
    tokens: int
    """Over how many tokens."""

    def best_other(self, head: Head) -> Head | None:
        """Return the other head with the largest score; None if there is no other one."""
        values = self.values.copy()
        values[head.layer, head.head] = -np.inf
        if not np.isfinite(values).any():
            return None
        place = first_largest(np.nan_to_num(values, nan=-np.inf).ravel())
        return Head(self.kind, *divmod(int(place), values.shape[1]))

    def right(self, head: Head) -> int:
        """Return for how many tokens what a head raises most is the translation."""
        return round(float(self.values[head.layer, head.head]) * self.tokens)

    def precision(self, head: Head) -> Accuracy:
        """Return that share, with its interval."""
        right = self.right(head)
        return accuracy(np.repeat([1, 0], [right, self.tokens - right]).astype(np.float32))

    def said(self, head: Head) -> str:
        """How good what a head writes is, beside chance, in words."""
        at = head.layer, head.head
        value, chance, error = (float(of[at]) for of in (self.values, self.chance, self.errors))
        if self.kind == "cross":
            interval = self.precision(head)
            return (
                f"the token that it raises most is the lexicon's for {self.right(head):,} of "
                f"{self.tokens:,} source tokens, {value:.2f} (95% interval {interval.low:.2f} to "
                f"{interval.high:.2f}); with the translations of the other entries in place of "
                f"one's own it would be {chance:.2f}."
            )
        apart = abs(value - chance) >= 2 * error
        what = "neither copies nor suppresses what it reads"
        if apart and value >= COPIES and value > chance:
            what = "copies what it reads"
        elif apart and value <= SUPPRESSES and value < chance:
            what = "suppresses what it reads"
        return (
            f"it {what}: of the vocabulary, {value:.2f} is raised less than the very token that it "
            f"reads, on average over {self.tokens:,} target tokens; less than the same token where "
            f"it reads another one, {chance:.2f} (the difference is "
            f"{with_error(value - chance, error, '+.2f')})."
        )


@of_sentences("head that aligns", says="Aligning the example sentences")
def aligning_head(model: Seq2SeqModel, sentences: Sentences) -> int:
    """Return the place of the head of cross-attention whose links reach the most source words."""
    return find_aligning_head(model, sentences.tokenizers, sentences.pairs, None)


@of_sentences("lexicon", says="Aligning the example sentences")
def lexicon_of(model: Seq2SeqModel, sentences: Sentences, head: int) -> Lexicon:
    """Make a lexicon of the links that a head of cross-attention makes between words.

    A source word of one token goes with the first token of the target word to which most of its
    links lead, two at least; where two target tokens have as many, it is left out. ``head`` is its
    place among all of cross-attention.
    """
    tokenizers, pairs = sentences.tokenizers, sentences.pairs
    counts: dict[int, Counter[int]] = {}
    references = ((each.pair, set[tuple[int, int]]()) for each in pairs)
    aligned = align_pairs(
        model, tokenizers, references, rows="predicted", left_out=LeftOutCounts(), head=head
    )
    for sentence, found in zip(pairs, aligned, strict=True):
        if found is None:
            continue
        sources = source_word_numbers(tokenizers, sentence.source)
        targets = word_numbers(tokenizers.target, sentence.target)
        for word, of in enumerate(found.chosen[head].tolist()):
            if sources.count(of) == 1:
                link = counts.setdefault(sentence.source[sources.index(of)], Counter())
                link[sentence.target[targets.index(word)]] += 1
    entries = []
    for source, found_for in sorted(counts.items()):
        (target, links), *others = found_for.most_common(2)
        if links >= _LEAST_LINKS and (not others or others[0][1] < links):
            entries.append((source, target, links))
    of_head = Head("cross", *divmod(head, model.description.heads("cross")))
    return Lexicon(of_head, *np.array(entries, np.int64).reshape(-1, 3).T)


def lexicon_precision(
    model: Seq2SeqModel, found: TokenValues, lexicon: Lexicon, *, only: Head | None = None
) -> WritingScores:
    """Return in which share of a lexicon the token that a head raises most is the translation.

    Chance is the share with the translations of the other entries in place of one's own. With
    ``only`` one head is scored, and all others are NaN.
    """
    entries = dict(zip(lexicon.source.tolist(), lexicon.target.tolist(), strict=True))
    here = found.of([id for id in found.ids.tolist() if id in entries])
    expected = np.array([entries[id] for id in here.ids.tolist()], np.int64)

    def score(logits: Tensor) -> NDArray[np.float64]:
        first = logits.nan_to_num(-torch.inf).argmax(dim=-1).cpu().numpy()
        return np.asarray(first[:, None] == expected, np.float64)  # (entries, translations)

    return _scores(model, here, score, only)


def copying(model: Seq2SeqModel, found: TokenValues, *, only: Head | None = None) -> WritingScores:
    """Return how far heads of the decoder's self-attention raise the very token that they read.

    It is the share of the vocabulary whose logits the head raises less than that of the token: 1 is
    a head that copies, 0 one that suppresses what was said. Chance is the same share for the token
    where the head reads another one of these, since a head may raise frequent tokens whatever it
    reads. ``only`` is as for ``lexicon_precision``.
    """
    ids = torch.tensor(found.ids)

    def score(logits: Tensor) -> NDArray[np.float64]:
        known = logits[:, logits.isfinite().all(dim=0)].cpu()
        of_tokens = logits.cpu()[:, ids].nan_to_num(-torch.inf).contiguous()
        below = torch.searchsorted(known.sort(dim=-1).values, of_tokens)
        return np.asarray(below / (known.shape[-1] - 1), np.float64).clip(max=1)  # (read, token)

    return _scores(model, found, score, only)


def _scores(
    model: Seq2SeqModel,
    found: TokenValues,
    score: Callable[[Tensor], NDArray[np.float64]],
    only: Head | None,
) -> WritingScores:
    """Score every head of a kind, or only one.

    ``score`` gives a table of tokens that are read by tokens that are asked for: its diagonal is
    the score, what is beside it chance.
    """
    layers, heads, tokens, _ = found.values.shape
    values, chance, errors = np.full((3, layers, heads), np.nan, np.float32)
    places = np.ndindex(layers, heads) if only is None else [only[1:]]
    for at in places if tokens > 1 else ():
        table = score(written_logits(model, Head(found.kind, *at), torch.tensor(found.values[at])))
        own = table.diagonal()
        others = (table.sum(axis=0) - own) / (tokens - 1)
        values[at], chance[at] = own.mean(), others.mean()
        errors[at] = (own - others).std(ddof=1) / tokens**0.5
    return WritingScores(found.kind, values, chance, errors, tokens)
