"""The model that all peers are compared in, and what it reads: random weights, the same for all."""

from __future__ import annotations

import itertools
import string

import torch
from torch import Tensor

from headwise.model.config import BOS, EOS, PAD, TransformerConfig
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer

VOCABULARY = 9_760


def model_of(
    *, max_length: int = 1_024, n_layers: int = 3, n_heads: int = 4, endless: bool = False
) -> Transformer:
    """D = 128, d_ff = 512, norms after the sublayers as in the peers; as a loaded checkpoint is.

    With ``endless``, ``</s>`` is never chosen, so that every peer decodes as many tokens.
    """
    torch.manual_seed(0)
    config = TransformerConfig(
        VOCABULARY,
        VOCABULARY,
        n_encoder_layers=n_layers,
        n_decoder_layers=n_layers,
        n_heads=n_heads,
        d_model=128,
        d_ff=512,
        norm="post",
        final_norm=False,
        output_bias=True,
        dropout=0.0,
        max_length=max_length,
    )
    model = Transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:  # fresh ones are ones and zeros
                parameter.add_(0.1 * torch.randn_like(parameter))
        if endless:
            model.unembedding.bias[
                [PAD, BOS, EOS]
            ] = -100.0  # far more costs the logits their digits
    return model.for_inference()


def ids_of(batch: int, length: int, *, seed: int) -> Tensor:
    """Random tokens, none of them special: (batch, length)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(EOS + 1, VOCABULARY, (batch, length), generator=generator)


def tokenizers_of(vocabulary: int = VOCABULARY) -> TokenizerPair:
    """Whole words, as many as the vocabulary has room for; a token for each."""
    letters = itertools.product(string.ascii_lowercase, repeat=4)
    words = ["".join(word) for word in itertools.islice(letters, vocabulary - EOS - 1)]
    texts = [" ".join(words[n : n + 1_000]) for n in range(0, len(words), 1_000)]
    pairs = [Pair(text, text) for text in texts] * 2  # single words may be left out
    return TokenizerPair.train(
        pairs, kind="word", vocab_sizes=(vocabulary, vocabulary), shared=True
    )
