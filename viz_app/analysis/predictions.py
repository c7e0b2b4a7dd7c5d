"""Predictions after each layer of the decoder, and how sampling changes a distribution.

``C`` = L + 1 columns: the embedding, then the output of each layer. ``T`` steps, ``k`` likeliest
tokens, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import NEAR, descending
from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.records.trace import Floats, Predictions, Trace


@dataclass(frozen=True)
class Lens:
    """The lens is a table of the likeliest token at each step (row) and layer (column). It is what
    the decoder's stream predicts if it is unembedded there (logit lens, nostalgebraist 2020).
    """

    labels: tuple[tuple[str, ...], ...]  # labels of the likeliest tokens, (T, C)
    probabilities: Floats  # probabilities of those tokens, (T, C)
    actual: NDArray[np.bool_]  # whether the likeliest token is the actual next token, (T, C)
    notes: tuple[tuple[str, ...], ...]  # the likeliest with probabilities, in lines, (T, C)


def read_lens(trace: Trace) -> Lens:
    """Read the lens from a trace, (C, T, k); notes list up to five tokens."""
    predictions = trace.predictions
    probabilities: Floats = np.exp(predictions.lens_log_probability)  # (C, T, k)
    columns, steps, _ = probabilities.shape
    tokens = [[[token_label(p) for p in row] for row in layer] for layer in trace.lens_tokens]

    def note(step: int, column: int) -> str:
        likeliest = zip(tokens[column][step][:5], probabilities[column, step], strict=False)
        return "\n".join(f"{label}  {probability:.3f}" for label, probability in likeliest)

    return Lens(
        labels=tuple(tuple(layer[step][0] for layer in tokens) for step in range(steps)),
        probabilities=probabilities[:, :, 0].T,
        actual=(predictions.lens_ids[:, :, 0] == np.array(trace.predicted.ids)).T,
        notes=tuple(
            tuple(note(step, column) for column in range(columns)) for step in range(steps)
        ),
    )


def agreement(texts: Sequence[str], own: Sequence[str]) -> float | None:
    """Return the chrF (Popović 2015), 0 to 100, of texts against the model's own translations.

    None where the model writes nothing, as at step 0: then there is nothing to be near to.
    """
    if not any(own):
        return None
    import sacrebleu  # it takes a second, and few pages need it

    return float(sacrebleu.corpus_chrf(list(texts), [list(own)]).score)


def sampled(
    log_probability: Floats, *, temperature: float, top_k: int, top_p: float
) -> NDArray[np.float64]:
    """Compute the distribution that is drawn from, (V,) → (V,); tokens that are left out have 0.

    Logits are divided by the ``temperature``; then only the ``top_k`` likeliest tokens are kept,
    all if it is 0, and of these the fewest with a total probability of ``top_p`` (Holtzman et al.
    2020), as ``transformers`` does. Without top-k it is ``nucleus`` of
    ``model/decoding/translation.py``.
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


def close_positions(predictions: Predictions, *, within: float) -> list[int]:
    """Return the steps at which the two likeliest tokens have almost the same probability.

    Their probabilities differ by less than ``within``.
    """
    two = np.exp(predictions.top_log_probability[:, :2].astype(np.float64))  # (T, 2)
    if two.shape[1] < 2:
        return []
    places: list[int] = np.flatnonzero(two[:, 0] - two[:, 1] < within).tolist()
    return places


def entropy(probability: NDArray[np.float64]) -> float:
    """Return the entropy of a distribution, in nats."""
    some = probability[probability > 0]
    return float(-(some * np.log(some)).sum()) + 0.0
