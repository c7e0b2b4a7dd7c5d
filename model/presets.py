"""Presets are named defaults of a training: the model, its training, and how its data are read.

Each preset says where it comes from and in what it differs from that source. Every value can be
changed on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from headwise.model.config import TrainingConfig, TransformerConfig
from headwise.model.tokenizer import TokenizerKind

PresetName = Literal["default", "paper-base", "pre-norm", "books-small", "free-key-dim", "copy"]


@dataclass(frozen=True)
class Preset:
    """A preset holds default arguments of a training; vocabulary sizes are upper limits."""

    model: TransformerConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)
    tokenizer: TokenizerKind = "bpe"
    max_pairs: int | None = None
    corpus: str | None = None
    """Corpus for training and validation, if the preset is made for one."""
    languages: tuple[str, str] = ("en", "es")


PRESETS: Mapping[PresetName, Preset] = MappingProxyType(
    {
        # The project's own choice, measured on two CPU cores with English and Spanish sentences.
        "default": Preset(TransformerConfig(source_vocab_size=8_000, target_vocab_size=8_000)),
        # The base model of Vaswani et al. (2017), table 3, trained as in section 5.
        # Differences: weights of one step instead of the mean of the last five checkpoints;
        # initialised as tensor2tensor did, since the paper does not say how; the tokenizer falls
        # back to bytes.
        "paper-base": Preset(
            model=TransformerConfig(
                source_vocab_size=37_000,
                target_vocab_size=37_000,
                n_encoder_layers=6,
                n_decoder_layers=6,
                n_heads=8,
                d_model=512,
                d_ff=2_048,
                norm="post",
                final_norm=False,
                attention_bias=False,  # section 3.2.2 has projections without them
                tied="all",
                dropout=0.1,
            ),
            training=TrainingConfig(
                steps=100_000,
                # 25,000 source and 25,000 target tokens there; padding counts here.
                batch_tokens=25_000,
                schedule="noam",
                learning_rate=(512 * 4_000) ** -0.5,  # equation 3 at its peak
                warmup_steps=4_000,
                label_smoothing=0.1,
                clip_norm=0.0,
                precision="no",
                max_tokens=256,  # the paper does not say
                milestones=(0, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
            ),
            languages=("en", "de"),
        ),
        # The implementation of "Transformer Coding Details" (tunz), German to English.
        # Differences: no dropout on attention weights, so that the weights shown are those used;
        # sines and cosines of positions alternate, as in the paper, instead of filling two halves;
        # the target begins with ``<s>`` instead of a zero vector; the default training instead of a
        # warm-up of 16,000 steps.
        "pre-norm": Preset(
            model=TransformerConfig(
                source_vocab_size=8_000,
                target_vocab_size=8_000,
                n_encoder_layers=6,
                n_decoder_layers=6,
                n_heads=8,
                d_model=512,
                d_ff=2_048,
                norm="pre",
                final_norm=True,
                attention_bias=False,
                tied="all",
                dropout=0.1,
                hidden_dropout=0.1,
            ),
            languages=("de", "en"),
        ),
        # A study of a three-layer model that learns 10,000 pairs of English and Spanish by heart.
        # Differences: the decoder has its causal mask, biases begin at zero instead of one, and
        # norms divide by √(variance + ε) instead of the standard deviation + ε. Adam's ε is 1e-9,
        # the paper's, in all our trainings.
        "books-small": Preset(
            model=TransformerConfig(
                source_vocab_size=10_000,
                target_vocab_size=10_000,
                n_encoder_layers=3,
                n_decoder_layers=3,
                n_heads=4,
                d_model=128,  # d_k = 32
                d_ff=512,
                norm="post",
                final_norm=False,
                attention_bias=True,
                output_bias=True,
                tied="none",
                dropout=0.0,
            ),
            training=TrainingConfig(
                steps=20_000,
                batch_pairs=64,
                schedule="constant",
                learning_rate=3e-4,
                warmup_steps=0,
                betas=(0.9, 0.999),
                label_smoothing=0.0,
                clip_norm=0.0,
                precision="no",
                max_tokens=32,
                milestones=(0, 500, 1_000, 2_000, 5_000, 7_000, 10_000, 15_000),
                log_every=100,
            ),
            tokenizer="word",
            max_pairs=10_000,
        ),
        # After an exercise of Jurafsky and Martin: d_k independent of D / h, no projection biases.
        # Differences: the sizes are those of the default, and encoder and decoder are built alike.
        "free-key-dim": Preset(
            TransformerConfig(
                source_vocab_size=8_000,
                target_vocab_size=8_000,
                d_model=192,
                n_heads=4,
                d_k=32,  # D / h would be 48
                norm="pre",
                final_norm=False,
                attention_bias=False,
            )
        ),
        # The first example of The Annotated Transformer: attention maps with a known answer.
        # Differences: it is smaller (N = 2, h = 2, D = 64; there 8 heads and D = 512); see also
        # training/corpora.py.
        "copy": Preset(
            model=TransformerConfig(
                source_vocab_size=11,
                target_vocab_size=11,
                n_encoder_layers=2,
                n_decoder_layers=2,
                n_heads=2,
                d_model=64,
                d_ff=32,  # a copy needs little of it
                attention_bias=False,
            ),
            training=TrainingConfig(
                steps=2_000,
                learning_rate=2e-3,
                warmup_steps=200,
                milestones=(0, 50, 100, 200, 400, 700, 1_000),
            ),
            tokenizer="word",
            corpus="copy",
            languages=("symbols", "copy"),
        ),
    }
)
"""All presets by name."""
