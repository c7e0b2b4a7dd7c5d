"""A language model of token ids: interpolated trigrams with the smoothing of Witten and Bell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

_LONGEST_HISTORY = 2
"""Most tokens on which the probability of the next one depends."""


class LanguageModel:
    """A language model gives each token a probability after those before it.

    Each history is mixed with the one that is shorter by a token (Witten and Bell 1991, method C,
    as Chen and Goodman 1999 write it). With c(h w) how often the token w followed
    the history h, c(h) how often any token did, N(h) how many different ones did, and h' the
    history without its first token::

        p(w | h) = (c(h w) + N(h) p(w | h')) / (c(h) + N(h))

    What follows the empty history is mixed with 1 / V, for a vocabulary of V tokens. After a
    history that was never seen the probability is p(w | h').
    """

    def __init__(self, vocab_size: int, *, prefix: int) -> None:
        """Make a model that has seen nothing.

        Args:
            vocab_size: number of tokens in the vocabulary.
            prefix: how many tokens every text begins with, which are history only.
        """
        self.tokens = 0
        """Number of tokens that were learnt from."""
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
        return [
            math.log(
                self.probability(ids[place], tuple(ids[max(place - _LONGEST_HISTORY, 0) : place]))
            )
            for place in range(self._prefix, len(ids))
        ]
