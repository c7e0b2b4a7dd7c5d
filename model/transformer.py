"""The encoder-decoder of figure 1 in Vaswani et al. (2017).

``B`` batch, ``S`` source length, ``T`` target length, ``D`` = d_model, ``V`` = vocabulary size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.model.attention import KeyValueCache, MultiHeadAttention
from headwise.model.config import BOS, EOS, PAD, UNK, TransformerConfig
from headwise.model.hooks import HookPoint
from headwise.model.interface import (
    NO_ORIGIN,
    Description,
    LinearParameters,
    NormParameters,
    Side,
    SpecialIds,
)
from headwise.model.layers import FeedForward, InputEmbedding, Norm, residual, transpose_in_memory
from headwise.model.masks import causal_mask, padding_mask_if_padded


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_k=config.head_width,
        bias=config.attention_bias,
    )


def _embedding(size: int, d_model: int) -> nn.Embedding:
    """Make an embedding with uninitialised weights.

    A model whose weights come from a file is built without memory, on the device "meta";
    initialising it there would import PyTorch's compiler, which takes 1.4 s.
    """
    return nn.Embedding.from_pretrained(torch.empty(size, d_model), freeze=False)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each in a residual connection. Hook point: ``output``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_residual = residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = residual(config)
        self.output = HookPoint()

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) or None → (B, S, D)."""
        x = self.self_attention_residual(x, lambda x: self.self_attention(x, x, mask=mask))
        return self.output(self.feed_forward_residual(x, self.feed_forward))


class LayerCache:
    """The key/value caches of one decoder layer: one for each attention."""

    def __init__(self) -> None:
        self.self_attention = KeyValueCache(fixed=False)
        self.cross_attention = KeyValueCache(fixed=True)


class DecoderCache:
    """The key/value caches of all decoder layers; ``length`` is the number of cached positions."""

    def __init__(self, n_layers: int) -> None:
        self.length = 0
        self.layers = [LayerCache() for _ in range(n_layers)]

    def keep(self, rows: Tensor) -> None:
        """Select and reorder the rows of the batch: ``rows`` is a LongTensor of row indices."""
        for layer in self.layers:
            layer.self_attention.keep(rows)
            layer.cross_attention.keep(rows)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward. Hook point: ``output``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_residual = residual(config)
        self.cross_attention = _attention(config)
        self.cross_attention_residual = residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = residual(config)
        self.output = HookPoint()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """x (B, T, D), memory (B, S, D), masks (·, 1, T, M) and (B, 1, 1, S) → (B, T, D).

        Without a mask all positions are attended to.
        """
        x = self.self_attention_residual(
            x,
            lambda x: self.self_attention(
                x, x, mask=mask, cache=cache.self_attention if cache is not None else None
            ),
        )
        x = self.cross_attention_residual(
            x,
            lambda x: self.cross_attention(
                x,
                memory,
                mask=memory_mask,
                cache=cache.cross_attention if cache is not None else None,
            ),
        )
        return self.output(self.feed_forward_residual(x, self.feed_forward))


class Encoder(nn.Module):
    """A stack of N encoder layers on the source embedding."""

    def __init__(self, embedding: InputEmbedding, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.final_norm = Norm(config.d_model) if config.final_norm else nn.Identity()

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) or None → (B, S, D)."""
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.final_norm(x)


class Decoder(nn.Module):
    """A stack of N decoder layers on the target embedding."""

    def __init__(self, embedding: InputEmbedding, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.final_norm = Norm(config.d_model) if config.final_norm else nn.Identity()

    def forward(
        self,
        ids: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """ids (B, T), memory (B, S, D), memory_mask (B, 1, 1, S) or None → (B, T, D).

        Each position attends to itself and those before it. Padding on the right needs no mask: the
        causal mask hides it from all tokens, and the outputs at padding are not used.
        """
        if ids.shape[0] != memory.shape[0]:
            raise ValueError(
                f"expected a target for each of {memory.shape[0]} encoded sources, got "
                f"{ids.shape[0]} targets"
            )
        start = cache.length if cache is not None else 0
        x = self.embedding(ids, start=start)
        mask = None  # a single new position sees all there are
        if ids.shape[1] > 1:
            mask = causal_mask(ids.shape[1], start + ids.shape[1], device=ids.device)
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                cache=cache.layers[index] if cache is not None else None,
            )
        if cache is not None:
            cache.length += ids.shape[1]
        return self.final_norm(x)


class Transformer(nn.Module):
    """Encoder, decoder and the output projection. Hook point: ``logits`` (B, T, V), or (n, V).

    ``Seq2SeqModel`` in ``model/interface.py`` describes its properties and methods.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.origin = NO_ORIGIN
        source = _embedding(config.source_vocab_size, config.d_model)
        target = source
        if config.tied != "all":
            target = _embedding(config.target_vocab_size, config.d_model)
        self.encoder = Encoder(InputEmbedding(source, config), config)
        self.decoder = Decoder(InputEmbedding(target, config), config)
        self.unembedding = nn.Linear(
            config.d_model, config.target_vocab_size, bias=config.output_bias
        )
        self.logits = HookPoint()
        self._initialise()
        if config.tied != "none":
            self.unembedding.weight = target.weight

    def _initialise(self) -> None:
        """Xavier for matrices, zero for biases, N(0, 1/D) for embeddings: √D brings these to 1.

        The paper does not say how it initialised; this is what tensor2tensor did.
        """
        if self.device.type == "meta":
            return
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    @property
    def description(self) -> Description:
        return self.config.description

    @property
    def special_ids(self) -> SpecialIds:
        return SpecialIds(start=BOS, end=EOS, padding=PAD, unknown=UNK)

    @property
    def device(self) -> torch.device:
        return self.unembedding.weight.device

    def for_inference(self) -> Transformer:
        """Switch to evaluation mode and store weight matrices transposed in memory; return self."""
        transpose_in_memory(self)
        return self.eval()

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run the encoder: padded ids (B, S) → memory (B, S, D), mask (B, 1, 1, S) or None."""
        mask = padding_mask_if_padded(source)
        return self.encoder(source, mask), mask

    def decode(
        self, target: Tensor, memory: Tensor, mask: Tensor | None, cache: DecoderCache | None = None
    ) -> Tensor:
        """Run the decoder: ids (B, T), from <s> or from the end of the cache → stream (B, T, D)."""
        return self.decoder(target, memory, memory_mask=mask, cache=cache)

    def unembed(self, stream: Tensor) -> Tensor:
        """Apply the linear layer before the output softmax: (…, D) → logits (…, V)."""
        return self.logits(self.unembedding(stream))

    def lens(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) as if the stream (…, D) came from the last decoder layer."""
        return self.unembed(self.decoder.final_norm(stream))

    def new_cache(self) -> DecoderCache:
        return DecoderCache(self.config.n_decoder_layers)

    def reference(self, source: Tensor, consumed: Tensor) -> None:
        """Return None: there is no other implementation of it."""

    def linear(self, path: str) -> LinearParameters:
        module = self.get_submodule(path)
        assert isinstance(module, nn.Linear)
        return LinearParameters(module.weight.T, module.bias)

    def norm(self, sublayer: str) -> NormParameters:
        return self._norm(f"{sublayer}_residual.norm")

    def final_norm(self, side: Side) -> NormParameters | None:
        stack = "encoder" if side == "source" else "decoder"
        return self._norm(f"{stack}.final_norm") if self.config.final_norm else None

    def embedding_norm(self, side: Side) -> None:
        """Return None: no norm follows the embedding."""
        return

    def _norm(self, path: str) -> NormParameters:
        module = self.get_submodule(f"{path}.norm")
        assert isinstance(module, nn.LayerNorm)
        return NormParameters(module.weight, module.bias, module.eps)

    def embedding_table(self, side: Side) -> Tensor:
        return (self.encoder if side == "source" else self.decoder).embedding.table.weight

    def output_norm(self, sublayer: str) -> None:
        """Return None: what a sublayer gives is added as it is."""

    def rotation(self, projection: str, length: int) -> None:
        """Return None: positions are added to the embeddings."""

    def head_norm(self, projection: str) -> None:
        """Return None: queries and keys are what the projections make."""

    def position_table(self, side: Side) -> None:
        return  # positions are computed

    def forward(self, source: Tensor, target: Tensor, keep: Tensor | None = None) -> Tensor:
        """Run one teacher-forced pass: source ids (B, S), consumed ids (B, T) → logits (B, T, V).

        Both are padded as ``pad`` does; row t predicts token t + 1. Logits (n, V) are computed of n
        positions only if ``keep``, boolean (B, T), is True there; training leaves out padding.
        """
        if source.shape[0] != target.shape[0]:
            raise ValueError(
                f"expected as many targets as sources, got {source.shape[0]} sources and "
                f"{target.shape[0]} targets"
            )
        memory, memory_mask = self.encode(source)
        stream = self.decode(target, memory, memory_mask)
        if keep is not None:
            stream = stream[keep]  # (n, D)
        return self.unembed(stream)
