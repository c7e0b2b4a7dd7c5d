"""Runs of random weights on disk, and sentences of an exact number of tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.model.attention import MultiHeadAttention
from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    open_trained_run,
    save_weights,
    tokenizer_sha256,
)
from headwise.model.config import EOS, TrainingConfig, TransformerConfig
from headwise.model.run_info import Counts, DataSource, RunInfo
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class Size:
    """Of a model and a sentence."""

    layers: int
    """Of the encoder, and of the decoder."""
    tokens: int
    """Tokens of the source, ``</s>`` included, and of what the decoder consumes."""

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


@torch.no_grad()
def sharp_run(
    root: Path, tokens: int, *, tokenizers: TokenizerPair, n_layers: int, n_heads: int
) -> TrainedRun:
    """Write a run whose translations have so many tokens, and whose maps are as sharp as trained.

    With queries three times as large, the largest weight of a row of 20 is 0.4 in the mean.
    """
    torch.manual_seed(0)
    config = TransformerConfig(
        tokenizers.source.vocab_size,
        tokenizers.target.vocab_size,
        n_encoder_layers=n_layers,
        n_decoder_layers=n_layers,
        n_heads=n_heads,
        d_model=128,
        d_ff=512,
        tied="none",  # or each token would be said again and again
        output_bias=True,
        max_length=tokens,
    )
    model = Transformer(config)
    model.unembedding.bias[EOS] = -100.0  # far more would cost the checks of the page their digits
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.query_projection.weight *= 3
    folder = root / f"{tokens}-tokens"
    write_run(folder, model, tokenizers, source="en", target="es")
    return open_trained_run(folder.name, root=root)


class Sentences:
    """Random sentences of words that are one token each, in both languages of a vocabulary."""

    def __init__(self, tokenizers: TokenizerPair, *, seed: int) -> None:
        tokenizer = tokenizers.source
        tokens = tokenizer.tokens(range(tokenizer.vocab_size))
        words = [token[1:] for token in tokens if token[:1] == " " and token[1:].isalpha()]
        self._words = [word for word in words if len(tokenizer.encode(word)) == 1]
        self._random = random.Random(seed)

    def of(self, tokens: int) -> str:
        """A sentence of so many tokens, the one that ends it included."""
        return " ".join(self._random.choices(self._words, k=tokens - 1))
