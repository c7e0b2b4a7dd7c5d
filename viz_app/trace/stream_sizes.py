"""How large the largest numbers of a stream are: massive activations.

In large language models a few numbers of the stream, at the same places in all sentences, are
thousands of times as large as most; heads rest on the tokens that have them (Sun, Chen, Kolter and
Liu 2024, "Massive Activations in Large Language Models", section 2: magnitudes of a layer's output
are compared with the median magnitude of all its numbers).

``L`` layers, ``n`` tokens, ``D`` = d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class LargestNumbers:
    """The largest number of each token, in the input of a stack and the output of each layer."""

    ratios: NDArray[np.float64]
    """max |x| of a token over the median |x| of its layer, (L + 1, n); NaN where that is 0."""
    dimensions: NDArray[np.int64]
    """Where that number is, from 0, (L + 1, n)."""


def largest_numbers(stream: Floats) -> LargestNumbers:
    """Find the largest numbers of a stream, (L + 1, n, D)."""
    sizes = np.abs(stream).astype(np.float64)
    medians = np.median(sizes, axis=(1, 2))[:, None]
    ratios = sizes.max(axis=-1) / np.where(medians > 0, medians, np.nan)
    return LargestNumbers(ratios, sizes.argmax(axis=-1))


def largest_by_chance(count: int) -> float:
    """Return the ratio that the largest of so many numbers has if they are normally distributed.
    It is the median of the largest of ``count`` independent magnitudes |x|, over the median |x|:
    all are below z with probability (2 Φ(z) − 1)^count, which is 1/2 for the median."""
    quantile = NormalDist().inv_cdf
    return quantile((1 + 0.5 ** (1 / count)) / 2) / quantile(0.75)
