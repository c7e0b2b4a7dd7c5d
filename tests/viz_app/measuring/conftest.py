"""Three pairs of sentences, and models whose cross-attention is made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from headwise.model.tokenizer import TokenizerPair, WordTokenizer
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair, LeftOutCounts, PaddedIds, encode
from headwise.viz_app.measuring import head_alignments

PAIRS = [
    Pair("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    Pair("Where is the old dog?", "¿Dónde está?"),
    Pair("The cat", "El gato, el perro."),
]
WORDS = TokenizerPair(
    WordTokenizer.train(["the red dog where"], 20), WordTokenizer.train(["el perro rojo dónde"], 20)
)
PAIR = Pair("the red dog", "el perro rojo")
Rows = list[list[float]]
"""The map of a head for ``PAIR``. Rows predict el, perro, rojo and </s>, and consume <s>, el, perro
and rojo; keys are the, red, dog and </s>, which is no word."""
MakeAligner = Callable[..., Transformer]


@contextmanager
def float64_by_default() -> Iterator[None]:
    """What a measure makes for itself, such as an identity matrix, is float64, as its model is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def sentences(tokenizers: TokenizerPair) -> list[EncodedPair]:
    """``PAIRS``, which differ in length on both sides."""
    return list(encode(PAIRS, tokenizers, max_length=31, left_out=LeftOutCounts()))


@pytest.fixture
def make_aligner(
    make_model: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch
) -> MakeAligner:
    """A model for ``WORDS`` whose heads have these maps, cut to the size of each sentence."""

    def make(*heads: Rows) -> Transformer:
        def maps(_: Transformer, ids: PaddedIds) -> tuple[dict[str, Tensor], None]:
            weights = torch.tensor(heads)[:, : ids.predicted.shape[1], : ids.source.shape[1]]
            return {"cross": weights.expand(len(ids.source), -1, -1, -1)}, None

        monkeypatch.setattr(head_alignments, "attention_maps", maps)
        sizes = (WORDS.source.vocab_size, WORDS.target.vocab_size)
        vocabularies = {"source_vocab_size": sizes[0], "target_vocab_size": sizes[1]}
        return make_model(**vocabularies, n_decoder_layers=1)

    return make
