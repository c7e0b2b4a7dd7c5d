"""Models of random weights, runs of them on disk, and what they read: the same for all peers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.model.attention import MultiHeadAttention
from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    open_trained_run,
    save_weights,
    tokenizer_sha256,
)
from headwise.model.config import (
    BOS,
    EOS,
    PAD,
    Counts,
    DataSource,
    RunInfo,
    TrainingConfig,
    TransformerConfig,
)
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer

VOCABULARY = 9_760
"""Tokens of en-es, whose tokenizers are taken."""
_MUTE = -100.0
"""Bias of a token that is never chosen; a far lower one costs the logits their digits."""


def _config(vocabulary: int, n_layers: int, **more: Any) -> TransformerConfig:
    layers = {"n_encoder_layers": n_layers, "n_decoder_layers": n_layers}
    width = {"d_model": 128, "d_ff": 512}
    return TransformerConfig(vocabulary, vocabulary, **layers, **width, output_bias=True, **more)


@torch.no_grad()
def model_of(*, max_length: int = 1_024, endless: bool = False) -> Transformer:
    """D = 128, d_ff = 512, norms after the sublayers as in the peers; as a loaded checkpoint is.

    With ``endless``, ``</s>`` is never chosen, so that every peer decodes as many tokens.
    """
    torch.manual_seed(0)
    as_peers: dict[str, Any] = {"norm": "post", "final_norm": False, "dropout": 0.0}
    config = _config(VOCABULARY, 3, n_heads=4, max_length=max_length, **as_peers)
    model = Transformer(config)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:  # fresh ones are ones and zeros
            parameter.add_(0.1 * torch.randn_like(parameter))
    if endless:
        model.unembedding.bias[[PAD, BOS, EOS]] = _MUTE
    return model.for_inference()


def ids_of(batch: int, length: int, *, seed: int) -> Tensor:
    """Random tokens, none of them special: (batch, length)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(EOS + 1, VOCABULARY, (batch, length), generator=generator)


def write_run(folder: Path, model: Transformer, tokenizers: TokenizerPair) -> TrainedRun:
    """Write a run from English to Spanish, with one checkpoint, into a folder named after it."""
    info = RunInfo(
        name=folder.name,
        source_language="en",
        target_language="es",
        model=model.config,
        training=TrainingConfig(steps=1),
        data=DataSource("none", "CC0", "nobody", "none", "0", 0, "none", "0", 0),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = [[1] * side.vocab_size for side in (tokenizers.source, tokenizers.target)]
    create_run(folder, info, tokenizers, Counts(*counts))
    save_weights(folder, model, run=folder.name, step=0)
    return open_trained_run(folder.name, root=folder.parent)


@torch.no_grad()
def sharp_run(
    root: Path, tokens: int, *, tokenizers: TokenizerPair, n_layers: int, n_heads: int
) -> TrainedRun:
    """Write a run whose translations have so many tokens, and whose maps are as sharp as trained.

    With queries three times as large, the largest weight of a row of 20 is 0.4 in the mean.
    """
    torch.manual_seed(0)
    size = tokenizers.source.vocab_size
    # Tied, it would say each token again and again.
    config = _config(size, n_layers, n_heads=n_heads, tied="none", max_length=tokens)
    model = Transformer(config)
    model.unembedding.bias[EOS] = _MUTE
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.query_projection.weight *= 3
    return write_run(root / f"{tokens}-tokens", model, tokenizers)


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
