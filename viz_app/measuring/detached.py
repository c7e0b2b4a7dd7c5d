"""Signs in cross-attention that a target left its source.

Wass-to-Unif, Wass-to-Data and Wass-Combo are those of Guerreiro, Colombo, Piantanida and Martins
(2023, "Optimal Transport for Unsupervised Hallucination Detection in Neural Machine Translation",
arXiv 2212.09631, section 4), with the costs and constants of the authors' program
(``utils.py`` and ``run_detection.ipynb`` of deep-spin/ot-hallucination-detection): 0/1 for the
first, |i − j| of places in the source for the second. They take one layer; here each is by layer.

``B`` batch, ``L`` layers, ``H`` heads, ``T`` target steps, ``S`` source length, ``R`` sentences of
the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import Seq2SeqModel, Tokenizers
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers

Doubles = NDArray[np.float64]
MOST_USUAL = 1_000
"""Most sentences of the corpus whose masses are kept, as many as the authors draw."""
_WINDOW = 0.1
"""By which share of its length a target may differ from one that it is compared with."""
_NEAREST = 4
"""Of how many distances, the smallest, the mean is taken."""
_RARE = 0.999
"""The quantile of Wass-to-Unif over the corpus from which on Wass-Combo is this."""
_ROUNDING = 1e-6
"""By how much the weight on no word has to be larger than that on a word."""


def mean_over_heads(model: Seq2SeqModel, cross: Tensor) -> Tensor:
    """Average the heads of each layer: (B, L H, T, S) → (B, L, T, S)."""
    return cross.unflatten(1, model.description.shapes["cross"]).mean(dim=2)


def source_mass(maps: Tensor) -> Doubles:
    """Return the attention on each source token, the mean over steps: (L, T, S) → (L, S)."""
    found: Doubles = maps.mean(dim=-2).double().cpu().numpy()
    return found


@dataclass(frozen=True)
class SentenceMass:
    """The mass of attention on the source tokens of one sentence, while its target is forced."""

    source: str
    length: int
    """Target tokens, ``</s>`` included."""
    mass: Doubles
    """(L, S), rows sum to 1."""


@torch.inference_mode()
def masses_in_batch(
    model: Seq2SeqModel, sentences: Sequence[EncodedPair]
) -> dict[int, SentenceMass]:
    """Compute the masses of the sentences of a batch, by their numbers."""
    maps, _ = attention_maps(model, PaddedIds.of_pairs(sentences, model))
    cross = mean_over_heads(model, maps["cross"])
    if model.description.merged_attention:  # a mass is a whole: of the weights on the source
        cross = cross / cross.sum(dim=-1, keepdim=True)
    return {
        s.number: SentenceMass(
            s.pair.source,
            len(s.target) - 1,
            source_mass(cross[row, :, : len(s.target) - 1, : len(s.source)]),
        )
        for row, s in enumerate(sentences)
    }


def wass_to_unif(mass: Doubles) -> Doubles:
    """Return the Wasserstein distance to the uniform mass, of each layer: (L, S) → (L,).

    The cost of moving mass is 1 wherever it goes, so that the distance is half the L1 distance, the
    total variation.
    """
    found: Doubles = np.abs(mass - 1 / mass.shape[-1]).sum(axis=-1) / 2
    return found


class UsualMass:
    """The corpus' usual distribution of attention over source tokens, under its own targets."""

    def __init__(self, masses: Sequence[SentenceMass]) -> None:
        """Keep the masses of some sentences, and the ranges that Wass-Combo needs."""
        self._sources = np.array([each.source for each in masses], dtype=object)
        self._lengths = np.array([each.length for each in masses])
        self._cumulated: Doubles = np.ones(0)
        if not masses:
            return
        size = max(each.mass.shape[-1] for each in masses)
        self._cumulated = np.stack([_cumulated(each.mass, size) for each in masses])  # (R, L, S)
        unif = np.stack([wass_to_unif(each.mass) for each in masses])  # (R, L)
        data = np.stack([self.wass_to_data(each) for each in masses])
        self._rare = np.quantile(unif, _RARE, axis=0)
        self._unif, self._data = ((side.min(axis=0), np.ptp(side, axis=0)) for side in (unif, data))

    def wass_to_data(self, sentence: SentenceMass) -> Doubles:
        """Return the mean Wasserstein distance to the four nearest masses of the corpus, (L,).

        The cost of moving mass is how many places it is moved, so that the distance is the L1
        distance of the cumulated masses. Compared are the sentences whose targets differ by less
        than a tenth in length or, if there is none, all; never one with the same source. NaN
        without others.
        """
        others = self._sources != sentence.source
        near = others & (np.abs(self._lengths - sentence.length) < _WINDOW * sentence.length)
        compared = near if near.any() else others
        if not compared.any():
            return np.full(len(sentence.mass), math.nan)
        cumulated = self._cumulated[compared]
        size = max(cumulated.shape[-1], sentence.mass.shape[-1])
        beyond = [(0, 0), (0, 0), (0, size - cumulated.shape[-1])]
        own = _cumulated(sentence.mass, size)
        distances = np.abs(np.pad(cumulated, beyond, constant_values=1) - own).sum(axis=-1)
        found: Doubles = np.sort(distances, axis=0)[:_NEAREST].mean(axis=0)
        return found

    def wass_combo(self, unif: Doubles, data: Doubles) -> Doubles:
        """Combine Wass-to-Unif and Wass-to-Data of a sentence: (L,), (L,) → (L,).

        It is Wass-to-Data, but where Wass-to-Unif is beyond its 99.9th percentile over the corpus
        it is that, brought from its range over the corpus to the range of Wass-to-Data.
        """
        if not len(self._cumulated):
            return np.full_like(unif, math.nan)
        (low, spread), (low_data, spread_data) = self._unif, self._data
        scaled = low_data + (unif - low) / np.maximum(spread, _ROUNDING) * spread_data
        return np.where(unif > self._rare, scaled, data)

    def distances(self, sentence: SentenceMass) -> dict[str, Doubles]:
        """Return the three distances of a sentence by their names, each (L,)."""
        unif, data = wass_to_unif(sentence.mass), self.wass_to_data(sentence)
        return {
            "wass_to_unif": unif,
            "wass_to_data": data,
            "wass_combo": self.wass_combo(unif, data),
        }


def _cumulated(mass: Doubles, size: int) -> Doubles:
    """Cumulate masses over places, and pad them to a size with what they sum to."""
    found = mass.cumsum(axis=-1)
    return np.pad(found, [(0, 0), (0, size - found.shape[-1])], constant_values=1)


def unaligned(tokenizers: Tokenizers, sentence: EncodedPair, maps: Tensor) -> Doubles:
    """Return the share of target words that align to nothing, by layer: (L, T, S) → (L,).

    A word's row is the mean over the steps that predict its tokens. It aligns to nothing if no
    source word has as much of it, summed over its tokens, as what is no word has together, such as
    ``</s>`` and language codes. NaN without target words.
    """
    keys = torch.tensor(source_word_numbers(tokenizers, sentence.source)) + 1  # 0 is no word
    rows = torch.tensor(word_numbers(tokenizers.target, sentence.target)[1:])
    words = int(rows.max()) + 1
    if words < 1:
        return np.full(len(maps), math.nan)
    on_words = maps.new_zeros(*maps.shape[:2], int(keys.max()) + 1)
    on_words.index_add_(-1, keys.to(maps.device), maps)  # (L, T, words + 1)
    of_words = torch.stack([on_words[:, rows == word].mean(dim=1) for word in range(words)], dim=1)
    nothing, largest = of_words[..., 0], torch.zeros_like(of_words[..., 0])
    if of_words.shape[-1] > 1:
        largest = of_words[..., 1:].amax(dim=-1)
    found: Doubles = (nothing > largest + _ROUNDING).double().mean(dim=-1).cpu().numpy()
    return found
