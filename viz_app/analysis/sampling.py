"""How temperature, top-k and top-p change the distribution from which a token is drawn.

``V`` is the size of the vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import NEAR, descending
from headwise.viz_app.records.trace import Floats


def sampled(
    log_probability: Floats, *, temperature: float, top_k: int, top_p: float
) -> NDArray[np.float64]:
    """Compute the distribution that is drawn from, (V,); tokens that are left out have 0.

    Logits are divided by the temperature; then only the ``top_k`` likeliest tokens are kept, and of
    these the smallest set with a total probability of at least ``top_p`` (Holtzman et al. 2020), in
    the order of the library ``transformers``. Without top-k it is ``nucleus`` of
    ``model/decoding/sampling.py``.

    Args:
        log_probability: of every token of the vocabulary, (V,).
        temperature: above 0; 1 changes nothing.
        top_k: how many tokens are kept; 0 keeps all.
        top_p: above 0; 1 keeps all.
    """
    scores = log_probability.astype(np.float64)
    scores = (scores - scores.max()) / temperature
    probability, order = np.exp(scores), descending(scores)
    kept = order[: top_k or None]
    shares = probability[kept] / probability[kept].sum()
    enough = top_p * (1 - NEAR) if top_p < 1 else 1.0
    kept = kept[np.cumsum(shares) - shares < enough]
    found = np.zeros(len(scores))
    found[kept] = probability[kept] / probability[kept].sum()
    return found


def entropy(probability: NDArray[np.float64]) -> float:
    """Return the entropy of a distribution, in nats."""
    some = probability[probability > 0]
    return float(-(some * np.log(some)).sum()) + 0.0
