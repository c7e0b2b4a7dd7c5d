"""Four pairs of sentences that the tiny run knows, and each of them eight times over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.core.computed import Sentences

PAIRS = [
    ("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    ("Where is the old dog?", "¿Dónde está?"),
    ("The cat", "El gato, el perro."),
    ("The dog, the old dog.", "El perro, el perro viejo, el viejo."),
]
"""They differ in length on both sides, and in the last, tokens repeat on both."""


@pytest.fixture(scope="session")
def sentences(tokenizers: TokenizerPair) -> Sentences:
    """``PAIRS``."""
    return Sentences.of(tokenizers, PAIRS, max_length=31)


@pytest.fixture(scope="session")
def many_sentences(sentences: Sentences) -> Sentences:
    """Every resample of them has some of each."""
    pairs = [replace(each, number=place) for place, each in enumerate(sentences.pairs * 8)]
    return replace(sentences, pairs=tuple(pairs))
