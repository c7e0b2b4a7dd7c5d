"""The encoder-decoder of figure 1 in Vaswani et al. (2017).

``B`` batch, ``S`` source length, ``T`` target length, ``D`` = d_model, ``V`` = vocabulary size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.attention import KeyValueCache, MultiHeadAttention
from model.config import TransformerConfig
from model.hooks import HookPoint
from model.layers import FeedForward, InputEmbedding, Norm, residual
from model.masks import causal_mask, padding_mask_if_padded
from model.modules import Embedding, Linear, Module


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_k=config.head_width,
        bias=config.attention_bias,
    )


class EncoderLayer(Module):
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
    """The two caches of a decoder layer."""

    def __init__(self) -> None:
        self.self_attention = KeyValueCache(fixed=False)
        self.cross_attention = KeyValueCache(fixed=True)


class DecoderCache:
    """What the decoder remembers between two steps: ``length`` positions in each layer."""

    def __init__(self, n_layers: int) -> None:
        self.length = 0
        self.layers = [LayerCache() for _ in range(n_layers)]

    def keep(self, rows: Tensor) -> None:
        """Reorder or drop batch rows, a LongTensor of the rows to go on with."""
        for layer in self.layers:
            layer.self_attention.keep(rows)
            layer.cross_attention.keep(rows)


class DecoderLayer(Module):
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


class Encoder(Module):
    """A stack of N encoder layers on the source embedding."""

    def __init__(self, embedding: InputEmbedding, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.final_norm = Norm(config.d_model) if config.final_norm else nn.Identity()

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) or None → (B, S, D)."""
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.final_norm(x)


class Decoder(Module):
    """A stack of N decoder layers on the target embedding."""

    def __init__(self, embedding: InputEmbedding, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_layers))
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

        Each position attends to itself and those before it. Padding on the right needs no mask of
        its own: no piece sees it, and what padded rows compute is not used.

        Raises:
            ValueError: if targets and sources differ in number.
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


class Transformer(Module):
    """Encoder, decoder and the output projection. Hook point: ``logits`` (B, T, V), or (n, V)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        source = Embedding(config.source_vocab_size, config.d_model)
        target = (
            source if config.tied == "all" else Embedding(config.target_vocab_size, config.d_model)
        )
        self.encoder = Encoder(InputEmbedding(source, config), config)
        self.decoder = Decoder(InputEmbedding(target, config), config)
        self.unembedding = Linear(config.d_model, config.target_vocab_size, bias=config.output_bias)
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
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.unembedding.weight.device

    def for_inference(self) -> Transformer:
        """Itself, in evaluation mode and with the matrices of its layers stored as their transpose.

        Names, shapes and weights stay; a CPU multiplies a few rows by them up to twice as fast.
        """
        for layers in (self.encoder.layers, self.decoder.layers):
            for module in layers.modules():
                if isinstance(module, Linear):
                    module.transpose_storage()
            for module in layers.modules():
                if isinstance(module, MultiHeadAttention):
                    module.for_inference()
        return self.eval()

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Source ids (B, S) → memory (B, S, D) and its mask (B, 1, 1, S), True for pieces.

        There is no mask (None) where nothing is padded.

        Raises:
            ValueError: on a wrong shape, too long a source, or a row of padding only.
        """
        mask = padding_mask_if_padded(source)
        return self.encoder(source, mask), mask

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Target ids (B, T), beginning with <s> or going on from the cache → stream (B, T, D)."""
        return self.decoder(target, memory, memory_mask=memory_mask, cache=cache)

    def unembed(self, stream: Tensor) -> Tensor:
        """Decoder output (…, D) → logits (…, V): the linear layer before the output softmax."""
        return self.unembedding(stream)

    def forward(self, source: Tensor, target: Tensor, keep: Tensor | None = None) -> Tensor:
        """One teacher-forced pass.

        Args:
            source: ids (B, S), padded on the right.
            target: consumed ids (B, T), beginning with <s>, padded on the right.
            keep: boolean (B, T); logits are computed only there (training skips padding).

        Returns:
            Logits (B, T, V), row t predicting piece t + 1; or (n, V) for the n kept positions.

        Raises:
            ValueError: if the two batches differ in size, or as ``encode`` and ``decode`` do.
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
        return self.logits(self.unembed(stream))
