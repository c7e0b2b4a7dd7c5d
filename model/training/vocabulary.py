"""Say how large a learned vocabulary is, and warn where it knows rare words by heart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headwise.model.tokenizer import Tokenizer, TokenizerPair, split_words
from headwise.model.training.data import Pair

FEW = 20
"""A word that occurs fewer times than this is rare."""


def describe_vocabulary(
    tokenizers: TokenizerPair, pairs: Sequence[Pair], *, rarest: int
) -> list[str]:
    """Return sentences on the vocabularies that were learned from training pairs.

    A byte-pair encoding that has most rare words as single tokens is warned of: the model would
    see each of these tokens too seldom to learn it, and could not put a word together from parts.

    Args:
        tokenizers: what was learned.
        pairs: the training pairs.
        rarest: how often what becomes a token had to occur.
    """
    sides = [("vocabulary", tokenizers.source, [text for pair in pairs for text in pair])]
    if not tokenizers.shared:
        sides = [
            ("source vocabulary", tokenizers.source, [pair.source for pair in pairs]),
            ("target vocabulary", tokenizers.target, [pair.target for pair in pairs]),
        ]
    sentences = []
    for name, tokenizer, texts in sides:
        sentences.append(f"{name}: {tokenizer.vocab_size:,} tokens")
        if tokenizer.kind != "bpe":
            continue
        if rarest > 1:
            sentences[-1] += f", merged from what occurs at least {rarest:,} times"
        share = rare_words_as_tokens(tokenizer, texts)
        if share > 0.5:
            sentences.append(
                f"warning: {share:.0%} of the words that occur fewer than {FEW} times are single "
                f"tokens of the {name}, which the model sees too seldom to learn; give a smaller "
                "--model.source-vocab-size and --model.target-vocab-size, or none"
            )
    return sentences


def rare_words_as_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Return the share of the distinct rare words that are single tokens; 0 if none is rare.

    Words of one character are left out: they are single tokens in every vocabulary.
    """
    counts = Counter(word for text in texts for word in split_words(text) if len(word) > 1)
    rare = [word for word, count in counts.items() if count < FEW]
    single = sum(len(tokenizer.encode(word)) == 1 for word in rare)
    return single / len(rare) if rare else 0.0
