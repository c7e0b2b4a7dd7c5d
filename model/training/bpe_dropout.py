"""BPE-dropout splits a text into tokens at random (Provilkov, Emelianenko & Voita 2020, section 3).

Byte-pair encoding merges the two neighbours that were learned first until nothing is left to merge.
With dropout, each possible merge is left out with a probability, drawn anew at every step, so that
a word comes as one token most of the time and in smaller ones otherwise. The ``tokenizers`` library
can do it, but draws from a generator that has no seed; a training must be the same twice.
"""

from __future__ import annotations

import random
from itertools import pairwise

from headwise.model.tokenizer import Tokenizer, byte_tokens


class BpeDropout:
    """Encodes texts with the tokens of a tokenizer, leaving out merges at random."""

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        """``probability`` is that of leaving out a merge; 0 encodes as the tokenizer does."""
        self._tokenizer, self._probability = tokenizer, probability
        tokens = tokenizer.tokens(range(tokenizer.vocab_size))
        self._ids = {token: id for id, token in enumerate(tokens)}
        self._ranks = {merge: rank for rank, merge in enumerate(tokenizer.merges)}

    def encode(self, text: str, generator: random.Random) -> list[int]:
        """Encode a text as ids, without special tokens.

        Raises:
            ValueError: on lone surrogates, which no encoding can represent.
        """
        return [
            self._ids[token]
            for word in self._tokenizer.split(text)
            for token in self._merged(self._smallest(word), generator)
        ]

    def _smallest(self, word: str) -> list[str]:
        """Return the characters of a word; one without a token as the bytes of its UTF-8 form."""
        tokens: list[str] = []
        for character in word:
            tokens += [character] if character in self._ids else byte_tokens(character)
        return tokens

    def _merged(self, tokens: list[str], generator: random.Random) -> list[str]:
        while True:
            possible = [
                (self._ranks[pair], place)
                for place, pair in enumerate(pairwise(tokens))
                if pair in self._ranks and generator.random() >= self._probability
            ]
            if not possible:
                return tokens
            _, place = min(possible)
            tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
