"""Runs of random weights on disk, and sentences of an exact number of pieces."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint import create_run, save_weights, tokenizer_sha256
from model.config import TrainingConfig
from model.run_info import Counts, DataSource, RunInfo
from model.tokenizer import TokenizerPair
from model.transformer import Transformer


@dataclass(frozen=True)
class Size:
    """Of a model and a sentence."""

    layers: int
    """Of the encoder, and of the decoder."""
    tokens: int
    """Pieces of the source, ``</s>`` included, and of what the decoder consumes."""

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens, {self.layers} layers"


Figures = dict[str, dict[Size, list[float]]]
"""Step with its unit, as "trace (s)" → size → what each round gave."""


def write_run(
    folder: Path, model: Transformer, tokenizers: TokenizerPair, *, source: str, target: str
) -> None:
    """Write a run between two languages, with one checkpoint, into a folder named after it."""
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    info = RunInfo(
        name=folder.name,
        source_language=source,
        target_language=target,
        model=model.config,
        training=TrainingConfig(steps=1),
        data=DataSource("none", "CC0", "nobody", "none", "0", 0, "none", "0", 0),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = Counts(*([1] * size for size in sizes))
    create_run(folder, info, tokenizers, counts)
    save_weights(folder, model, run=folder.name, step=0)


class Sentences:
    """Random sentences of words that are one piece each, in both languages of a vocabulary."""

    def __init__(self, tokenizers: TokenizerPair, *, seed: int) -> None:
        tokenizer = tokenizers.source
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        words = [piece[1:] for piece in pieces if piece[:1] == " " and piece[1:].isalpha()]
        self._words = [word for word in words if len(tokenizer.encode(word)) == 1]
        self._random = random.Random(seed)

    def of(self, tokens: int) -> str:
        """A sentence of so many pieces, the one that ends it included."""
        return " ".join(self._random.choices(self._words, k=tokens - 1))
