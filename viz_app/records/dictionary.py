"""What heads write for tokens: values, the tokens that they raise and lower, and scores by head.

``L`` layers, ``H`` heads, ``n`` tokens, ``k`` named tokens, ``K`` = d_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.records.trace import Floats

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TokenValues:
    """The values that the heads of a kind of attention make of tokens."""

    ids: Numbers
    """(n,); of the source for cross-attention, of the target for the decoder's self-attention."""
    counts: Numbers
    """Over how many places each value is the mean, (n,)."""
    values: Floats
    """(L, H, n, K), with the biases of values, before W_O."""


@dataclass(frozen=True)
class HeadDictionary:
    """The target tokens that a head raises most, and lowers most, for each of some tokens.

    Values are logits in standard deviations over the vocabulary, from their mean.
    """

    ids: Numbers
    """(n,)."""
    counts: Numbers
    """As in ``TokenValues``, (n,)."""
    raised: Numbers
    """Ids of target tokens, most raised first, (n, k)."""
    raised_by: Floats
    """(n, k)."""
    lowered: Numbers
    """Most lowered first, (n, k)."""
    lowered_by: Floats
    """(n, k)."""


@dataclass(frozen=True)
class WritingScores:
    """A score of what each head of a kind writes, beside what it has by chance: (L, H) each."""

    values: Floats
    chance: Floats
    """The same score where tokens and what is written for them are mixed up."""
    errors: Floats
    """Standard error of ``values`` less ``chance``, over tokens."""
    tokens: int
    """Over how many tokens."""


@dataclass(frozen=True)
class Lexicon:
    """For source tokens that are words, the target token with which a translation begins."""

    source: Numbers
    """(n,), rising."""
    target: Numbers
    """The token that most links lead to, (n,)."""
    links: Numbers
    """How many, (n,)."""
