"""A run whose translations are all of one length, with maps as sharp as those of trained heads."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.growth_runs import write_run
from model.attention import MultiHeadAttention
from model.checkpoint import Run, open_run
from model.config import EOS, TransformerConfig
from model.tokenizer import TokenizerPair
from model.transformer import Transformer

_SHARPENED = 3.0
"""Times fresh queries; the largest weight of a row of 20 is then 0.4 in the mean."""


@torch.no_grad()
def endless_model(
    tokenizers: TokenizerPair, *, n_layers: int, n_heads: int, tokens: int
) -> Transformer:
    """Random weights, D = 128: a decoder that never says ``</s>`` is cut off after ``tokens``."""
    torch.manual_seed(0)
    config = TransformerConfig(
        tokenizers.source.vocab_size,
        tokenizers.target.vocab_size,
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=128,
        d_ff=512,
        tied="none",  # or each piece would be said again and again
        output_bias=True,
        max_length=tokens,
    )
    model = Transformer(config).eval()
    model.unembedding.bias[EOS] = -100.0  # far more would cost the checks of the page their digits
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.query_projection.weight *= _SHARPENED
    return model


def endless_run(
    root: Path, tokens: int, *, tokenizers: TokenizerPair, n_layers: int, n_heads: int
) -> Run:
    """Write a run for sentences of so many tokens into a folder of runs, and open it."""
    model = endless_model(tokenizers, n_layers=n_layers, n_heads=n_heads, tokens=tokens)
    folder = root / f"{tokens}-tokens"
    write_run(folder, model, tokenizers, source="en", target="es")
    return open_run(folder.name, root=root)
