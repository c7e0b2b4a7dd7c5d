"""Data augmentation changes training pairs, so that a model learns what its corpus rarely has.

There are four changes, drawn in every epoch from the seed and the number of the epoch only:

* names and numbers are replaced by others, and pairs without names address somebody by name (see
  ``replacement.py``), so that the model learns to copy;
* merges of the byte-pair encoding are left out, so that the model sees words in many splits;
* 2 to 8 random pairs are joined to one, so that the model learns long inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from headwise.model.config import BOS, EOS, TrainingConfig
from headwise.model.interface import Rows
from headwise.model.tokenizer import Tokenizer, TokenizerPair, byte_tokens
from headwise.model.training.data import Encoded, Examples, Pair
from headwise.model.training.replacement import Place, addressed, common_words, places, replaced

MOST_JOINED = 8
"""Most pairs that are joined to one."""


def join_pairs(
    sources: Rows, targets: Rows, *, probability: float, max_tokens: int, generator: random.Random
) -> tuple[list[list[int]], list[list[int]]]:
    """Shuffle pairs and join some of them.

    A pair is joined with the 1 to ``MOST_JOINED`` - 1 pairs after it with the given probability,
    unless a side would have more than ``max_tokens`` tokens, special ones included. Its sentences
    are in the same order on both sides. Sources have ``</s>`` last, targets also ``<s>`` first;
    what is returned has the same form.
    """
    order = list(range(len(sources)))
    generator.shuffle(order)
    new_sources: list[list[int]] = []
    new_targets: list[list[int]] = []
    to_join = 0  # number of pairs still to be joined to the last one
    for index in order:
        source, target = sources[index], targets[index]
        if (
            to_join
            and len(new_sources[-1]) + len(source) - 1 <= max_tokens
            and len(new_targets[-1]) + len(target) - 2 <= max_tokens
        ):
            new_sources[-1] = [*new_sources[-1][:-1], *source]
            new_targets[-1] = [*new_targets[-1][:-1], *target[1:]]
            to_join -= 1
        else:
            new_sources.append(list(source))
            new_targets.append(list(target))
            is_joined = generator.random() < probability
            to_join = generator.randint(2, MOST_JOINED) - 1 if is_joined else 0
    return new_sources, new_targets


class BpeDropout:
    """Encodes texts with the tokens of a tokenizer, leaving out merges at random.

    Byte-pair encoding merges the two neighbours that were learned first until nothing is left to
    merge. With dropout, each possible merge is left out with a probability, drawn anew at every
    step, so that a word comes as one token most of the time and in smaller ones otherwise
    (Provilkov, Emelianenko & Voita 2020, section 3). The ``tokenizers`` library can do it, but
    draws from a generator that has no seed; a training must be the same twice.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        """``probability`` is that of leaving out a merge; 0 encodes as the tokenizer does."""
        self._tokenizer, self._probability = tokenizer, probability
        tokens = tokenizer.tokens(range(tokenizer.vocab_size))
        self._ids = {token: id for id, token in enumerate(tokens)}
        self._ranks = {merge: rank for rank, merge in enumerate(tokenizer.merges)}

    def encode(self, text: str, generator: random.Random) -> list[int]:
        """Encode a text as ids, without special tokens."""
        return [
            self._ids[token]
            for word in self._tokenizer.split(text)
            for token in self._merged(word, generator)
        ]

    def _merged(self, word: str, generator: random.Random) -> list[str]:
        tokens: list[str] = []
        for character in word:
            tokens += [character] if character in self._ids else byte_tokens(character)
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


class Augmentation:
    """Makes the training examples of each epoch, changed as the configuration says."""

    def __init__(
        self,
        examples: Examples,
        tokenizers: TokenizerPair,
        *,
        languages: tuple[str, str],
        config: TrainingConfig,
        max_tokens: int,
    ) -> None:
        self._max_tokens = max_tokens  # of a source or target
        self._examples, self._tokenizers = examples, tokenizers
        self._languages, self._config = languages, config
        self._places: dict[int, list[Place]] = {}
        self._is_common: Callable[[str], bool] = common_words(())
        if config.replace or config.address:
            self._is_common = common_words(text for pair in examples.pairs for text in pair)
            for index, pair in enumerate(examples.pairs):
                if found := places(*pair, languages=languages, is_common=self._is_common):
                    self._places[index] = found
        self._dropout = [
            BpeDropout(tokenizer, config.bpe_dropout)
            for tokenizer in (tokenizers.source, tokenizers.target)
            if config.bpe_dropout
        ]

    def __call__(self, epoch: int) -> Encoded:
        """Return the source ids and target ids of an epoch."""
        config, examples = self._config, self._examples
        if epoch < config.plain_epochs:
            return examples.sources, examples.targets
        generator = random.Random(f"{config.seed}-{epoch}-augmentation")
        sources, targets = list(examples.sources), list(examples.targets)
        for index in range(len(examples.pairs)):  # none where texts are not needed
            changed = self._changed(index, generator)
            if changed is None and not self._dropout:
                continue
            source, target = self._encoded(changed or examples.pairs[index], generator)
            if max(len(source), len(target)) <= self._max_tokens:
                sources[index], targets[index] = source, target
        if not config.join:
            return sources, targets
        return join_pairs(
            sources,
            targets,
            probability=config.join,
            max_tokens=self._max_tokens,
            generator=generator,
        )

    def _changed(self, index: int, generator: random.Random) -> Pair | None:
        """Return a pair with other names and numbers, or that addresses somebody; or None."""
        pair = self._examples.pairs[index]
        if found := self._places.get(index):
            if generator.random() < self._config.replace:
                return replaced(*pair, found, languages=self._languages, generator=generator)
        elif self._config.address and generator.random() < self._config.address:
            return addressed(*pair, is_common=self._is_common, generator=generator)
        return None

    def _encoded(self, pair: Pair, generator: random.Random) -> tuple[list[int], list[int]]:
        tokenizers = self._tokenizers
        if not self._dropout:
            return tokenizers.encode_source(pair.source), tokenizers.encode_target(pair.target)
        source, target = (
            dropout.encode(text, generator)
            for dropout, text in zip(self._dropout, pair, strict=True)
        )
        return [*source, EOS], [BOS, *target, EOS]
