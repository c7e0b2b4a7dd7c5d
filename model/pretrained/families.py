"""Where each family of Hugging Face encoder-decoders keeps its parts.

A family is described by one record of module paths. All else is read from the model itself: which
norms it has, how many layers and heads, what is tied. To support another family, add a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from headwise.model.files import CheckpointError


@dataclass(frozen=True)
class SublayerPaths:
    """The module paths of one sublayer, below its layer."""

    module: str
    """The attention, or the module that holds the feed-forward's linear layers."""
    norm: str


@dataclass(frozen=True)
class Family:
    """The module paths of a family's parts, and the two facts that no module shows."""

    title: str
    norm: Literal["pre", "post"]
    """Whether the norm is before each sublayer, or after each residual sum."""
    positions: Literal["sinusoidal", "learned", "relative"]
    layers: str
    """The list of layers, below a stack."""
    self_attention: SublayerPaths
    cross_attention: SublayerPaths
    encoder_feed_forward: SublayerPaths
    decoder_feed_forward: SublayerPaths
    projections: tuple[str, str, str, str]
    """Query, key, value and output projection, below an attention."""
    expand: tuple[str, ...]
    """The feed-forward's first linear layer, below its module; the names that it may have."""
    gate: str
    """The second factor of a gated feed-forward, below its module; used if it is there."""
    contract: str
    """The feed-forward's last linear layer, below its module."""
    final_norm: str
    """The norm that ends a stack; used if it is there."""
    embedding_norm: str = "layernorm_embedding"
    """A norm between embeddings and first layer; used if it is there."""
    position_table: str = "embed_positions"
    """The module that gives positional encodings; used if it is there."""
    scale_output: str = "scale_decoder_outputs"
    """The setting that says whether the decoder's output is divided by √d_model; used if there."""


_MARIAN = Family(
    title="Marian",
    norm="post",
    positions="sinusoidal",
    layers="layers",
    self_attention=SublayerPaths("self_attn", "self_attn_layer_norm"),
    cross_attention=SublayerPaths("encoder_attn", "encoder_attn_layer_norm"),
    encoder_feed_forward=SublayerPaths("", "final_layer_norm"),
    decoder_feed_forward=SublayerPaths("", "final_layer_norm"),
    projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    expand=("fc1",),
    gate="",
    contract="fc2",
    final_norm="layer_norm",
)
_T5 = Family(
    title="T5",
    norm="pre",
    positions="relative",
    layers="block",
    self_attention=SublayerPaths("layer.0.SelfAttention", "layer.0.layer_norm"),
    cross_attention=SublayerPaths("layer.1.EncDecAttention", "layer.1.layer_norm"),
    encoder_feed_forward=SublayerPaths("layer.1.DenseReluDense", "layer.1.layer_norm"),
    decoder_feed_forward=SublayerPaths("layer.2.DenseReluDense", "layer.2.layer_norm"),
    projections=("q", "k", "v", "o"),
    expand=("wi", "wi_0"),
    gate="wi_1",
    contract="wo",
    final_norm="final_layer_norm",
)

FAMILIES: dict[str, Family] = {
    "marian": _MARIAN,
    "bart": replace(_MARIAN, title="BART", positions="learned"),
    "pegasus": replace(_MARIAN, title="Pegasus", norm="pre"),
    "mbart": replace(_MARIAN, title="mBART", norm="pre", positions="learned"),
    "m2m_100": replace(_MARIAN, title="M2M100 or NLLB", norm="pre"),
    "blenderbot": replace(_MARIAN, title="Blenderbot", norm="pre", positions="learned"),
    "plbart": replace(_MARIAN, title="PLBart", positions="learned"),
    "t5": _T5,
    "mt5": replace(_T5, title="mT5"),
    "umt5": replace(_T5, title="UMT5", scale_output="tie_word_embeddings"),
}
"""The families that can be opened, by the ``model_type`` of their configuration.

Not Blenderbot Small: its decoder adds the positions after a norm of the embeddings, its encoder
before it.
"""


def family_of(model_type: object, path: object) -> Family:
    """Return the family of a model by the ``model_type`` of its configuration."""
    if isinstance(model_type, str) and model_type in FAMILIES:
        return FAMILIES[model_type]
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES as ENCODER_DECODERS,
    )

    known = isinstance(model_type, str) and model_type in ENCODER_DECODERS
    raise CheckpointError(
        f"{path}: model_type {model_type!r:.60} cannot be opened"
        f"{'' if known else ': it is no encoder-decoder of transformers'}; "
        f"expected one of {', '.join(FAMILIES)}"
        f"{' (docs/add-a-family.md says what another needs to have)' if known else ''}"
    )
