"""Where each family of Hugging Face encoder-decoders keeps its parts.

A family is described by one record of module paths. All else is read from the model itself: which
norms it has, how many layers and heads, what is tied. To support another family, add a record.
Where encoder and decoder are models of their own, each has the record of its own family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from headwise.model.files import CheckpointError


@dataclass(frozen=True)
class SublayerPaths:
    """The module paths of one sublayer, below its layer."""

    module: str
    """The attention, or the module that holds the feed-forward's linear layers."""
    norm: str
    output_norm: str = ""
    """A norm of what the sublayer gives, before it is added to the stream; "" for none."""


@dataclass(frozen=True)
class Family:
    """The module paths of a family's parts, and the two facts that no module shows."""

    title: str
    norm: Literal["pre", "post"]
    """Whether the norm is before each sublayer, or after each residual sum."""
    positions: Literal["sinusoidal", "learned", "relative", "rotary"]
    layers: str
    """The list of layers, below a stack."""
    self_attention: SublayerPaths
    cross_attention: SublayerPaths
    encoder_feed_forward: SublayerPaths
    decoder_feed_forward: SublayerPaths
    projections: tuple[str, str, str, str]
    """Query, key, value and output projection, below an attention. The first three are in the
    module that computes attention; a name that stands several times is one layer for all of them,
    in this order."""
    expand: tuple[str, ...]
    """The feed-forward's first linear layer, below its module; the names that it may have."""
    gate: str
    """The second factor of a gated feed-forward, below its module; used if it is there."""
    contract: str
    """The feed-forward's last linear layer, below its module."""
    final_norm: str
    """The norm that ends a stack; used if it is there."""
    embedding_norm: str = "layernorm_embedding"
    """A norm of the sum of embeddings and positions; used if it is there."""
    token_norm: str = ""
    """A norm of embeddings, to which positions are added behind it, without any √d_model."""
    position_table: str = "embed_positions"
    """The module that gives positional encodings; used if it is there."""
    scale_output: str = ""
    """The setting that says whether the decoder's output is divided by √d_model; "" if it is not,
    whatever is set."""
    cross_projections: tuple[str, str, str, str] | None = None
    """The same of cross-attention, where they have other names."""
    hides_padding: bool = False
    """Whether a stack that is given no mask hides tokens that have the id of padding, in the
    decoder only without a cache: it is given one that hides none."""
    scale_embeddings: bool = False
    """Whether a stack multiplies embeddings by √d_model outside of their module, without a setting
    that says so."""
    rotary: str = "rotary_emb"
    """The module that gives the angles of rotary positions; used if positions are rotary."""
    token_types: str = "embeddings.token_type_embeddings"
    """The module of which the first row is added to every position; used if it is there."""
    numbers_positions: bool = False
    """Whether a stack is given the numbers of its positions, since it counts them for all sentences
    of a batch together."""
    transform: tuple[str, str, str] | None = None
    """A linear layer and a norm between the decoder's last layer and the unembedding, below the
    model that has the decoder, and the name of the activation function between the two ("" for that
    of the feed-forward)."""
    text: str = ""
    """The stack that reads text, below an encoder that reads images as well."""
    for_images: tuple[str, ...] = ()
    """What only images go through, below such an encoder; a folder is opened without it."""
    head_norms: tuple[str, str] = ("q_norm", "k_norm")
    """Norms of each head's queries and keys, below an attention; used if they are there."""
    score_cap: str = "attn_logit_softcapping"
    """The setting with the cap of scores; "" where attention has none, whatever is set."""
    halved_window: bool = False
    """Whether a window of the encoder has half of its width on each side of a token, not all."""

    @property
    def is_merged(self) -> bool:
        """Return whether one attention of the decoder reads target and source, in this order."""
        return self.self_attention.module == self.cross_attention.module


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
    scale_output="scale_decoder_outputs",
)
_BERT = Family(
    title="BERT",
    norm="post",
    positions="learned",
    layers="encoder.layer",
    self_attention=SublayerPaths("attention", "attention.output.LayerNorm"),
    cross_attention=SublayerPaths("crossattention", "crossattention.output.LayerNorm"),
    encoder_feed_forward=SublayerPaths("", "output.LayerNorm"),
    decoder_feed_forward=SublayerPaths("", "output.LayerNorm"),
    projections=("self.query", "self.key", "self.value", "output.dense"),
    expand=("intermediate.dense",),
    gate="",
    contract="output.dense",
    final_norm="",
    embedding_norm="embeddings.LayerNorm",
    position_table="embeddings.position_embeddings",
    numbers_positions=True,
    transform=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", ""),
)

_ROBERTA = replace(
    _BERT,
    title="RoBERTa",
    numbers_positions=False,
    transform=("lm_head.dense", "lm_head.layer_norm", "gelu"),
)

_GPT2 = Family(
    title="GPT-2",
    norm="pre",
    positions="learned",
    layers="h",
    self_attention=SublayerPaths("attn", "ln_1"),
    cross_attention=SublayerPaths("crossattention", "ln_cross_attn"),
    encoder_feed_forward=SublayerPaths("mlp", "ln_2"),
    decoder_feed_forward=SublayerPaths("mlp", "ln_2"),
    projections=("c_attn", "c_attn", "c_attn", "c_proj"),
    cross_projections=("q_attn", "c_attn", "c_attn", "c_proj"),
    expand=("c_fc",),
    gate="",
    contract="c_proj",
    final_norm="ln_f",
    position_table="wpe",
    numbers_positions=True,
)

_MLP_OF_GEMMA = SublayerPaths("mlp", "pre_feedforward_layernorm", "post_feedforward_layernorm")
_T5GEMMA = Family(
    title="T5Gemma",
    norm="pre",
    positions="rotary",
    layers="layers",
    self_attention=SublayerPaths(
        "self_attn", "pre_self_attn_layernorm", "post_self_attn_layernorm"
    ),
    cross_attention=SublayerPaths(
        "cross_attn", "pre_cross_attn_layernorm", "post_cross_attn_layernorm"
    ),
    encoder_feed_forward=_MLP_OF_GEMMA,
    decoder_feed_forward=_MLP_OF_GEMMA,
    projections=("q_proj", "k_proj", "v_proj", "o_proj"),
    expand=("gate_proj",),
    gate="up_proj",
    contract="down_proj",
    final_norm="norm",
    hides_padding=True,
    scale_embeddings=True,
)

FAMILIES: dict[str, Family] = {
    "marian": _MARIAN,
    "bart": replace(_MARIAN, title="BART", positions="learned"),
    "pegasus": replace(_MARIAN, title="Pegasus", norm="pre"),
    "mbart": replace(_MARIAN, title="mBART", norm="pre", positions="learned"),
    "m2m_100": replace(_MARIAN, title="M2M100 or NLLB", norm="pre"),
    "blenderbot": replace(_MARIAN, title="Blenderbot", norm="pre", positions="learned"),
    "blenderbot-small": replace(_MARIAN, title="Blenderbot Small", positions="learned"),
    "plbart": replace(_MARIAN, title="PLBart", positions="learned"),
    "t5": _T5,
    "t5gemma": _T5GEMMA,
    "t5gemma2": replace(
        _T5GEMMA,
        title="T5Gemma 2",
        cross_attention=_T5GEMMA.self_attention,
        hides_padding=False,
        scale_embeddings=False,
        text="text_model",
        for_images=("vision_tower", "multi_modal_projector"),
        score_cap="",
        halved_window=True,
    ),
    "mt5": replace(_T5, title="mT5", scale_output=""),
    "umt5": replace(_T5, title="UMT5", scale_output="tie_word_embeddings"),
}
"""The families that can be opened, by the ``model_type`` of their configuration."""
_OTHER_DECODERS = {
    "blenderbot-small": replace(
        FAMILIES["blenderbot-small"], embedding_norm="", token_norm="layernorm_embedding"
    )
}
"""The decoders that are built otherwise than the encoder of their family."""

STACKS: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": replace(_ROBERTA, title="XLM-R"),
    "camembert": replace(_ROBERTA, title="CamemBERT"),
}
"""The families that can be encoder or decoder of an ``EncoderDecoderModel``, by ``model_type``."""
_DECODERS = {"gpt2": _GPT2}
"""Those that can only be the decoder."""
_EXPECTED = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
"""Settings of a stack that change its scores in ways that are not shown, and what they must be."""
_PAIR = "encoder-decoder"
_IN_PLACE = "its attention computes scores and weights in place, where they cannot be read"
_EXPERTS = (
    "its feed-forwards lead each token to some of several experts, which no account of a word knows"
)
_BLOCKS = (
    "its encoder attends within blocks and to some tokens that all see, so that no one map says "
    "where a head looks"
)
_SPEECH = "its source may be speech as well, which layers of another make read"
_REASONS = {
    "fsmt": _IN_PLACE,
    "mvp": _IN_PLACE,
    "longt5": _BLOCKS,
    "bigbird_pegasus": _BLOCKS,
    "pegasus_x": _BLOCKS,
    "switch_transformers": _EXPERTS,
    "nllb-moe": _EXPERTS,
    "seamless_m4t": _SPEECH,
    "seamless_m4t_v2": _SPEECH,
    "rag": "it writes from documents that it searches itself, beside the source",
    "led": "its encoder attends within a window by some projections and to a few global tokens by "
    "others, so that no one map says where a head looks",
    "prophetnet": "its decoder predicts several tokens ahead, each by a stream of its own",
}
"""Why some families of encoder-decoders are not opened."""


def families_of(config: Mapping[str, Any], path: object) -> tuple[Family, Family]:
    """Return the families of encoder and decoder; a CheckpointError if they cannot be opened."""
    model_type = config.get("model_type")
    if model_type == _PAIR:
        return _stack_family(config, "encoder", path), _stack_family(config, "decoder", path)
    if isinstance(model_type, str) and model_type in FAMILIES:
        family = FAMILIES[model_type]
        return family, _OTHER_DECODERS.get(model_type, family)
    reason = _reason(model_type if isinstance(model_type, str) else "")
    raise CheckpointError(
        f"{path}: model_type {model_type!r:.60} cannot be opened: {reason}; expected one of "
        f"{', '.join([*FAMILIES, _PAIR])}"
    )


def _reason(model_type: str) -> str:
    """Say why a family without a record is not opened."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto as known

    if model_type in _REASONS:
        return _REASONS[model_type]
    known_here = model_type in CONFIG_MAPPING
    if not (known_here and getattr(CONFIG_MAPPING[model_type], "is_encoder_decoder", False)):
        return "it is no encoder-decoder of transformers"
    if model_type in known.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "it has no record; docs/add-a-family.md says what it needs to have"
    others = (
        known.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
        | known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    )
    if model_type in others:
        return "it is an encoder-decoder, but its source is no text: speech, or an image"
    return "it is an encoder-decoder, but not of text into text"


def _stack_family(config: Mapping[str, Any], stack: str, path: object) -> Family:
    given = config.get(stack)
    values: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    model_type = values.get("model_type")
    known = STACKS if stack == "encoder" else STACKS | _DECODERS
    if not (isinstance(model_type, str) and model_type in known):
        raise CheckpointError(
            f"{path}: {stack}: model_type {model_type!r:.60} cannot be opened; expected one of "
            f"{', '.join(known)}"
        )
    if stack == "decoder" and values.get("add_cross_attention") is not True:
        raise CheckpointError(
            f"{path}: {stack}: add_cross_attention: expected true, got "
            f"{values.get('add_cross_attention')!r:.60}: without it the decoder reads no source"
        )
    for name, expected in _EXPECTED.items():
        if values.get(name, expected) != expected:
            raise CheckpointError(
                f"{path}: {stack}: {name}: expected {expected}, got {values[name]!r:.60}: scores "
                "that are scaled so cannot be shown"
            )
    return known[model_type]
