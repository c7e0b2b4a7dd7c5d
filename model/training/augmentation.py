"""Data augmentation changes training pairs, so that a model learns what its corpus rarely has.

There are two changes, drawn in every epoch from the seed and the number of the epoch only:

* names and numbers are replaced by others (see ``replacement.py``), so that the model learns to
  copy;
* 2 to 8 random pairs are joined to one, so that the model learns long inputs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from model.config import TrainingConfig
from model.tokenizer import TokenizerPair
from model.training.batches import Encoded
from model.training.data import Examples
from model.training.replacement import Place, common_words, places, replaced

MOST_JOINED = 8
"""Most pairs that are joined to one."""


def join_pairs(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    probability: float,
    max_tokens: int,
    generator: random.Random,
) -> tuple[list[list[int]], list[list[int]]]:
    """Shuffle pairs and join some of them.

    Args:
        sources: ids of each source, ``</s>`` last.
        targets: ids of each target, ``<s>`` first and ``</s>`` last.
        probability: probability that a pair is joined with the 1 to ``MOST_JOINED`` - 1 pairs after
            it.
        max_tokens: most tokens of a joined source or target, special tokens included; a pair that
            would exceed it is not joined.
        generator: random generator of the order and the joins.

    Returns:
        Sources and targets in the same form. Sentences of a joined pair are in the same order on
        both sides.
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


class Augmentation:
    """Makes the training examples of each epoch: replaced and joined as the configuration says."""

    def __init__(
        self,
        examples: Examples,
        tokenizers: TokenizerPair,
        *,
        languages: tuple[str, str],
        config: TrainingConfig,
        max_tokens: int,
    ) -> None:
        """``max_tokens`` is the longest source or target that an example may have."""
        self._max_tokens = max_tokens
        self._examples, self._tokenizers = examples, tokenizers
        self._languages, self._config = languages, config
        self._places: dict[int, list[Place]] = {}
        if config.replace:
            is_common = common_words(text for pair in examples.pairs for text in pair)
            for index, pair in enumerate(examples.pairs):
                if found := places(*pair, languages=languages, is_common=is_common):
                    self._places[index] = found

    def __call__(self, epoch: int) -> Encoded:
        """Return the source ids and target ids of an epoch."""
        config, examples = self._config, self._examples
        if epoch < config.plain_epochs or not (config.replace or config.join):
            return examples.sources, examples.targets
        generator = random.Random(f"{config.seed}-{epoch}-augmentation")
        sources, targets = list(examples.sources), list(examples.targets)
        for index, found in self._places.items():
            if generator.random() < config.replace:
                pair = replaced(
                    *examples.pairs[index],
                    found,
                    languages=self._languages,
                    generator=generator,
                )
                source = self._tokenizers.encode_source(pair[0])
                target = self._tokenizers.encode_target(pair[1])
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
