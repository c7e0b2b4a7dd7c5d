"""Descriptions of two models that differ in everything on which formulas depend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwise.model.config import TransformerConfig
from headwise.model.interface import Description

SMALL = TransformerConfig(
    37, 37, n_encoder_layers=3, n_decoder_layers=2, n_heads=12, d_model=24, d_ff=23
)


@pytest.fixture(scope="session")
def post_norm() -> Description:
    """Post-norm, with biases and scaled embeddings."""
    return replace(SMALL, norm="post", final_norm=False, output_bias=True).description


@pytest.fixture(scope="session")
def pre_norm() -> Description:
    """Pre-norm with a final norm, without biases, embeddings not scaled."""
    return replace(SMALL, attention_bias=False, scale_embeddings=False).description
