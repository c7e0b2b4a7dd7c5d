"""Measures of a checkpoint as a whole, by which the stages of a training are told apart.

Voita, Sennrich and Titov (2021b): a training first learns to write the target language, then to
translate word by word, then to reorder. So translations of the example sentences are measured: how
likely a language model finds them, how far they keep the source's order, how good they are.

``H`` all heads with cross-attention, layer by layer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass

import numpy as np
import torch

from headwise.model.interface import Seq2SeqModel, Tokenizers
from headwise.model.training.data import Pair
from headwise.model.validation import is_too_long
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.measuring.alignments import WordLinks
from headwise.viz_app.measuring.head_alignments import Agreement, align_pairs
from headwise.viz_app.measuring.sums import Bootstrap, draws
from headwise.viz_app.measuring.words import LinksLookup

_MOST_TOKENS = 1_000_000  # that the language model learns from, so that counts fit into memory
_LONGEST_HISTORY = 2  # tokens on which the probability of the next one may depend


def reordering_score(sources: Sequence[int]) -> float:
    """Return the fuzzy reordering score of Talbot et al. (2011), 1 - (C - 1) / (M - 1).

    ``sources`` are the source words of the M target words. In their order (of the same one, in the
    target's) the target words make C chunks of words that follow one another in the target too. The
    score is 1 where the target follows the source word by word, 0 where no two neighbours stay
    together; NaN for fewer than two words.
    """
    if len(sources) < 2:
        return math.nan
    order = np.argsort(sources, kind="stable")
    return float((np.diff(order) == 1).mean())


def find_aligning_head(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    sentences: Iterable[EncodedPair],
    links_of: LinksLookup | None,
) -> int:
    """Find the head whose links between the words of some pairs are best: its place among the H.

    It has the lowest alignment error rate or, without references, our own choice, links to the most
    source words: a head that follows the translation visits one after another.
    """
    shape = model.description.shapes["cross"]
    agreement, reached = Agreement(np.zeros(math.prod(shape))), np.zeros(math.prod(shape))
    references = ((s.pair, links_of(s) if links_of is not None else None) for s in sentences)
    pairs = ((pair, set(links.pairs) if links is not None else set()) for pair, links in references)
    for aligned in align_pairs(model, tokenizers, pairs, rows="predicted", agreement=agreement):
        if aligned is not None:
            reached += [len(set(of_head)) for of_head in aligned.chosen.tolist()]
    return int((agreement.correct if agreement.sure else reached).argmax())


class LanguageModel:
    """A language model gives each token a probability after the two before it.

    Each history is mixed with the one that is shorter by a token (Witten and Bell 1991, method C,
    as Chen and Goodman 1999 write it). With c(h w) how often the token w followed
    the history h, c(h) how often any token did, N(h) how many different ones did, and h' the
    history without its first token::

        p(w | h) = (c(h w) + N(h) p(w | h')) / (c(h) + N(h))

    What follows the empty history is mixed with 1 / V, for a vocabulary of V tokens. After a
    history that was never seen the probability is p(w | h').
    """

    def __init__(self, vocab_size: int, *, prefix: int) -> None:
        """Make a model that has seen nothing; the ``prefix`` of every text is history only."""
        self.tokens = 0  # that were learnt from
        self._vocab_size = vocab_size
        self._prefix = prefix
        self._together: Counter[tuple[int, ...]] = Counter()  # c(h w)
        self._followed: Counter[tuple[int, ...]] = Counter()  # c(h)
        self._different: Counter[tuple[int, ...]] = Counter()  # N(h)

    def learn(self, ids: Sequence[int]) -> None:
        """Count what follows what in a text, from its prefix to its end."""
        for place in range(self._prefix, len(ids)):
            self.tokens += 1
            for length in range(min(place, _LONGEST_HISTORY) + 1):
                history = tuple(ids[place - length : place])
                both = (*history, ids[place])
                self._different[history] += both not in self._together
                self._together[both] += 1
                self._followed[history] += 1

    def probability(self, token: int, history: tuple[int, ...]) -> float:
        """Return the probability of a token after at most two others, the latest last."""
        shorter = self.probability(token, history[1:]) if history else 1 / self._vocab_size
        followed, different = self._followed[history], self._different[history]
        if not followed:
            return shorter
        together = self._together[(*history, token)]
        return (together + different * shorter) / (followed + different)

    def log_probabilities(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability, in nats, of each token of a text after its prefix."""
        places = range(self._prefix, len(ids))
        histories = [tuple(ids[max(at - _LONGEST_HISTORY, 0) : at]) for at in places]
        found = zip(ids[self._prefix :], histories, strict=True)
        return [math.log(self.probability(token, history)) for token, history in found]


@dataclass
class StageMeasurer:
    """Measures checkpoints of a run by their translations of the example sentences.

    The ``newest`` model is forced to write all translations; its ``head``, by its place among the
    H, aligns their words. The language model learns from ``text`` but for the references.
    """

    tokenizers: Tokenizers
    newest: Seq2SeqModel
    head: int
    examples: Sequence[Pair]
    text: InitVar[Iterable[str]]

    def __post_init__(self, text: Iterable[str]) -> None:
        target, prefix = self.tokenizers.target, len(self.tokenizers.prefix)
        self._references = [pair.target for pair in self.examples]
        self._language_model = LanguageModel(target.vocab_size, prefix=prefix)
        of_examples = set(self._references)
        for sentence in text:
            if sentence and not is_too_long(sentence) and sentence not in of_examples:
                self._language_model.learn(self.tokenizers.encode_target(sentence))
            if self._language_model.tokens >= _MOST_TOKENS:
                break
        of_texts = self._of_texts(self._references)
        self._of_references = {f"{name}_reference": found for name, found in of_texts.items()}

    def measure(self, translations: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Measure a checkpoint by its translations, one for each example sentence: value and
        standard error by names in ``STAGES``.

        ``language_model`` is the mean log-probability of a token in nats, ``</s>`` included;
        ``reordering`` the mean of ``reordering_score``; both of references too; ``chrf`` is of all
        translations together, 0 to 100. NaN where there is nothing to measure.
        """
        chrf = _chrf(translations, self._references)
        return self._of_texts(translations) | self._of_references | {"chrf": chrf}

    def _of_texts(self, texts: Sequence[str]) -> dict[str, tuple[float, float]]:
        likelihood = math.nan, math.nan
        if self._language_model.tokens:
            encoded = map(self.tokenizers.encode_target, texts)
            found = [self._language_model.log_probabilities(ids) for ids in encoded]
            likelihood = _mean_and_error(found)
        pairs = [Pair(pair.source, text) for pair, text in zip(self.examples, texts, strict=True)]
        unaligned = ((pair, WordLinks()) for pair in pairs)
        aligned = align_pairs(self.newest, self.tokenizers, unaligned, rows="predicted")
        scores = [reordering_score(pair.chosen[self.head]) for pair in aligned if pair is not None]
        reordering = _mean_and_error([[] if math.isnan(score) else [score] for score in scores])
        return {"language_model": likelihood, "reordering": reordering}


def _chrf(translations: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
    """Return chrF and its standard error, by resamples of the sentences' counts.

    (sacrebleu's own resamples end in a TypeError where one of them has a score of 0.)
    """
    if not translations:
        return math.nan, math.nan
    from sacrebleu import CHRF  # takes time, and only this needs it

    chrf = CHRF()
    counts = np.array(chrf._extract_corpus_statistics(translations, [references]))
    scores = [
        float(chrf._compute_f_score(of_resample.tolist()))
        for of_resample in draws(range(len(counts))).T @ counts
    ]
    error = float(np.std(scores, ddof=1)) if len(counts) > 1 else math.nan
    return float(chrf.corpus_score(translations, [references]).score), error


def _mean_and_error(values: Sequence[Sequence[float]]) -> tuple[float, float]:
    count = sum(map(len, values))
    if not count:
        return math.nan, math.nan
    resampled = Bootstrap(1, torch.device("cpu"))
    sums, counts = torch.tensor([[sum(of), len(of)] for of in values], dtype=torch.float64).T
    resampled.add(range(len(values)), sums[:, None], counts)
    return sum(map(sum, values)) / count, float(resampled.standard_errors()[0])
