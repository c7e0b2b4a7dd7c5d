"""How large the largest numbers of a stream are: massive activations.

In large language models a few numbers of the stream, at the same places in all sentences, are
thousands of times as large as most; heads rest on the tokens that have them (Sun, Chen, Kolter and
Liu 2024, "Massive Activations in Large Language Models", section 2: magnitudes of a layer's output
are compared with the median magnitude of all its numbers).

``B`` batch, ``L`` layers, ``n`` positions, ``D`` = d_model.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.model.interface import Kind, Seq2SeqModel, Stack
from headwise.viz_app.measuring.batches import PaddedIds, captured
from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class LargestNumbers:
    """The largest number of each token, in the input of a stack and the output of each layer."""

    ratios: NDArray[np.float64]  # max |x| over the median of the layer, (L + 1, n); NaN if 0
    dimensions: NDArray[np.int64]  # where that number is, from 0, (L + 1, n)


def largest_numbers(stream: Floats) -> LargestNumbers:
    """Find the largest numbers of a stream, (L + 1, n, D)."""
    sizes = np.abs(stream).astype(np.float64)
    medians = np.median(sizes, axis=(1, 2))[:, None]
    ratios = sizes.max(axis=-1) / np.where(medians > 0, medians, np.nan)
    return LargestNumbers(ratios, sizes.argmax(axis=-1))


def largest_by_chance(count: int) -> float:
    """Return the ratio that the largest of ``count`` normally distributed |x| has to the median
    |x|: its median, at which all are below z with probability (2 Φ(z) − 1)^count = 1/2.
    """
    quantile = NormalDist().inv_cdf
    return quantile((1 + 0.5 ** (1 / count)) / 2) / quantile(0.75)


_KIND_OF: Mapping[Stack, Kind] = {"encoder": "encoder_self", "decoder": "decoder_self"}


@torch.inference_mode()
def largest_ratios(model: Seq2SeqModel, ids: PaddedIds) -> dict[str, list[float]]:
    """Return the largest |x| over the median |x| of each of B sentences, targets forced, in the
    layer, or embedding, where it is most: by names of ``STREAM_SIZES``.
    """
    points = {
        stack: [
            f"{stack}.embedding.output",
            *(f"{stack}.layers.{i}.output" for i in range(model.description.layers(kind))),
        ]
        for stack, kind in _KIND_OF.items()
    }
    seen = captured(model, ids, chain(*points.values()))
    there = {"encoder": ids.is_source, "decoder": ids.is_predicted}
    found = {}
    for stack, of_stack in points.items():
        streams = torch.stack([seen[point][0] for point in of_stack], dim=1).float().cpu().numpy()
        rows = zip(streams, there[stack].cpu().numpy(), strict=True)  # (L + 1, n, D), (n,)
        found[f"largest_{stack}"] = [_largest(stream[:, kept]) for stream, kept in rows]
    return found


def _largest(stream: np.ndarray) -> float:
    with warnings.catch_warnings():  # of a stream of zeros only
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.nanmax(largest_numbers(stream).ratios))
