"""A Hugging Face encoder-decoder as a ``Seq2SeqModel``.

``B`` batch, ``S`` source length, ``T`` target length, ``D`` = d_model, ``V`` vocabulary size.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from headwise.model.hooks import HookPoint
from headwise.model.interface import (
    NO_ORIGIN,
    Description,
    LinearParameters,
    NormParameters,
    Side,
    SpecialIds,
)
from headwise.model.layers import transpose_in_memory
from headwise.model.masks import padding_mask_if_padded
from headwise.model.pretrained.families import Family, SublayerPaths, family_of
from headwise.model.pretrained.points import Stack

_LONGEST = 1_024
"""Tokens, where a configuration gives no limit: relative positions have none."""


class PretrainedCache(EncoderDecoderCache):
    """The keys and values that the decoder has computed for the target so far."""

    def __init__(self) -> None:
        super().__init__(DynamicCache(), DynamicCache())

    def keep(self, rows: Tensor) -> None:
        """Select and reorder the rows of the batch: ``rows`` is a LongTensor of row indices."""
        self.batch_select_indices(rows)


class PretrainedModel(nn.Module):
    """A model of ``transformers`` behind the interface of ours, in evaluation mode.

    ``encoder``, ``decoder`` and ``logits`` hold the hook points, ``inner`` the model.
    """

    def __init__(self, inner: PreTrainedModel) -> None:
        super().__init__()
        self._family = family_of(inner.config.model_type, inner.config.name_or_path)
        self.encoder = Stack(inner.get_encoder(), self._family, decoder=False)
        self.decoder = Stack(inner.get_decoder(), self._family, decoder=True)
        self.logits = HookPoint()
        self.inner: Any = inner.requires_grad_(False)
        transpose_in_memory(inner)
        self.description = _describe(inner, self._family)
        self.special_ids = _special_ids(inner)
        self.origin = NO_ORIGIN
        self.eval()

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return self.inner.device

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run the encoder: ids (B, S), padded on the right → memory (B, S, D), mask (B, 1, 1, S).

        The mask is True for tokens; it is None if nothing is padded.

        Raises:
            ValueError: on a wrong shape, too long a source, or a row of padding only.
        """
        self._check(source, self.description.source_vocab_size)
        mask = padding_mask_if_padded(source, padding=self.special_ids.padding)
        stack = self.inner.get_encoder()
        output = stack(input_ids=source, attention_mask=_of_keys(mask), return_dict=True)
        return output.last_hidden_state, mask

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        cache: PretrainedCache | None = None,
    ) -> Tensor:
        """Run the decoder: ids (B, T), from the start or after the cache → stream (B, T, D)."""
        before = cache.get_seq_length() if cache is not None else 0
        self._check(target, self.description.target_vocab_size, before=before)
        output = self.inner.get_decoder()(
            input_ids=target,
            encoder_hidden_states=memory,
            encoder_attention_mask=_of_keys(mask),
            past_key_values=cache,
            use_cache=cache is not None,
            return_dict=True,
        )
        return output.last_hidden_state

    def _check(self, ids: Tensor, vocabulary: int, *, before: int = 0) -> None:
        if ids.dim() != 2:
            raise ValueError(f"ids: expected shape (batch, length), got {tuple(ids.shape)}")
        length, longest = before + ids.shape[1], self.description.max_length
        if length > longest:
            raise ValueError(f"expected at most {longest} tokens, got {length}; shorten the text")
        if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < vocabulary):
            raise ValueError(
                f"expected ids from 0 to {vocabulary - 1}, got {int(ids.min())} to "
                f"{int(ids.max())}; is this the tokenizer of the model?"
            )

    def unembed(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of the decoder's output (…, D)."""
        if self.description.scale_output:
            stream = stream * self.inner.config.d_model**-0.5
        logits = self.inner.lm_head(stream)
        if hasattr(self.inner, "final_logits_bias"):
            logits += self.inner.final_logits_bias[0]  # in place: logits may be large
        return self.logits(logits)

    def lens(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) as if the stream (…, D) came from the last decoder layer."""
        norm = getattr(self.inner.get_decoder(), self._family.final_norm, None)
        return self.unembed(norm(stream) if norm is not None else stream)

    def new_cache(self) -> PretrainedCache:
        """Return an empty cache for ``decode``."""
        return PretrainedCache()

    def _sublayer(self, path: str) -> tuple[Any, SublayerPaths]:
        """Return the layer of ``transformers`` that a sublayer is in, and where it is there."""
        side, _, index, name = path.split(".")
        stack = self.inner.get_encoder() if side == "encoder" else self.inner.get_decoder()
        field = f"{side}_feed_forward" if name == "feed_forward" else name
        return getattr(stack, self._family.layers)[int(index)], getattr(self._family, field)

    def linear(self, path: str) -> LinearParameters:
        """Return the weights of the linear layer at a path.

        Those of a feed-forward are ``expand``, ``contract`` and, of a gated one, ``gate``; the one
        that gives the logits is ``unembedding``.
        """
        if path == "unembedding":
            head = self.inner.lm_head
            biases = (head.bias, *getattr(self.inner, "final_logits_bias", ()))
            given = [bias for bias in biases if bias is not None]
            return LinearParameters(head.weight.T, sum(given[1:], given[0]) if given else None)
        sublayer, _, name = path.rpartition(".")
        layer, paths = self._sublayer(sublayer)
        module = layer.get_submodule(paths.module)
        if name.endswith("_projection"):
            order = ("query", "key", "value", "output")
            names = [self._family.projections[order.index(name.removesuffix("_projection"))]]
        else:
            given = getattr(self._family, name)
            names = [given] if isinstance(given, str) else list(given)
        linear = next(getattr(module, name) for name in names if hasattr(module, name))
        return LinearParameters(linear.weight.T, linear.bias)

    def norm(self, sublayer: str) -> NormParameters:
        """Return the weights of the norm before or after the sublayer at a path."""
        layer, paths = self._sublayer(sublayer)
        return _norm_parameters(layer.get_submodule(paths.norm))

    def final_norm(self, side: Side) -> NormParameters | None:
        """Return the weights of the norm at the end of a side's stack; None if it has none."""
        norm = getattr(self._stack(side), self._family.final_norm, None)
        return None if norm is None else _norm_parameters(norm)

    def embedding_norm(self, side: Side) -> NormParameters | None:
        """Return the weights of the norm after a side's embedding; None if it has none."""
        norm = getattr(self._stack(side), self._family.embedding_norm, None)
        return None if norm is None else _norm_parameters(norm)

    def embedding_table(self, side: Side) -> Tensor:
        """Return the embeddings of a side's vocabulary, unscaled: (V, D)."""
        return self._stack(side).embed_tokens.weight

    def position_table(self, side: Side) -> Tensor | None:
        """Return the stored positions of a side: (positions, D); None if none are stored."""
        table = getattr(self._stack(side), self._family.position_table, None)
        return getattr(table, "weight", None)

    def _stack(self, side: Side) -> Any:
        return self.inner.get_encoder() if side == "source" else self.inner.get_decoder()


def _norm_parameters(norm: Any) -> NormParameters:
    if isinstance(norm, nn.LayerNorm):
        return NormParameters(norm.weight, norm.bias, norm.eps)
    return NormParameters(norm.weight, None, norm.variance_epsilon)


def _of_keys(mask: Tensor | None) -> Tensor | None:
    """A mask (B, 1, 1, S) as ``transformers`` takes it: (B, S)."""
    return mask[:, 0, 0] if mask is not None else None


def _special_ids(inner: PreTrainedModel) -> SpecialIds:
    config, generation = inner.config, inner.generation_config
    ends = _first_given(generation.eos_token_id, getattr(config, "eos_token_id", None))
    end = ends[0] if isinstance(ends, list) and ends else ends
    start = _first_given(
        generation.decoder_start_token_id,
        getattr(config, "decoder_start_token_id", None),
        generation.bos_token_id,
        getattr(config, "bos_token_id", None),
    )
    required = {"decoder_start_token_id": start, "eos_token_id": end}
    required["pad_token_id"] = config.pad_token_id
    for name, id in required.items():
        if type(id) is not int or not 0 <= id < inner.get_decoder().embed_tokens.num_embeddings:
            raise ValueError(f"{name}: expected the id of a token, got {id!r:.60}")
    return SpecialIds(
        start=start,
        end=end,
        padding=config.pad_token_id,
        unknown=getattr(config, "unk_token_id", None),
        never_generated=_never_generated(inner, end),
    )


def _first_given(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _never_generated(inner: PreTrainedModel, end: int) -> tuple[int, ...]:
    """The tokens that a model's settings of generation forbid; as there, the end cannot be."""
    generation: Any = inner.generation_config
    bad = [ids[0] for ids in generation.bad_words_ids or () if len(ids) == 1 and ids[0] != end]
    forbidden = {*(generation.suppress_tokens or ()), *bad}
    vocabulary = inner.get_decoder().embed_tokens.num_embeddings
    return tuple(id for id in sorted(forbidden) if 0 <= id < vocabulary)


def _tied(inner: Any) -> Literal["none", "output", "all"]:
    source, target = (s.embed_tokens.weight for s in (inner.get_encoder(), inner.get_decoder()))
    if inner.lm_head.weight is not target:
        return "none"
    return "all" if source is target else "output"


def _describe(inner: Any, family: Family) -> Description:
    config: Any = inner.config
    encoder, decoder = inner.get_encoder(), inner.get_decoder()
    layers = [getattr(stack, family.layers) for stack in (encoder, decoder)]
    heads = [
        getattr(config, f"{side}_attention_heads", None) or config.num_attention_heads
        for side in ("encoder", "decoder")
    ]
    feed_forward = layers[0][0].get_submodule(family.encoder_feed_forward.module)
    attention = layers[0][0].get_submodule(family.self_attention.module)
    output = attention.get_submodule(family.projections[-1])
    contract = feed_forward.get_submodule(family.contract)
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", 0)
    gated = bool(family.gate) and hasattr(feed_forward, family.gate)
    relative = family.positions == "relative"
    widths = [
        layer[0].get_submodule(paths.module).get_submodule(family.contract).in_features
        for layer, paths in zip(
            layers, (family.encoder_feed_forward, family.decoder_feed_forward), strict=True
        )
    ]
    return Description(
        n_encoder_layers=len(layers[0]),
        n_decoder_layers=len(layers[1]),
        n_encoder_heads=heads[0],
        n_decoder_heads=heads[1],
        d_model=config.d_model,
        encoder_d_k=output.in_features // heads[0],
        decoder_d_k=output.in_features // heads[1],
        encoder_d_ff=widths[0],
        decoder_d_ff=widths[1],
        source_vocab_size=encoder.embed_tokens.num_embeddings,
        target_vocab_size=decoder.embed_tokens.num_embeddings,
        max_length=longest if isinstance(longest, int) else _LONGEST,
        norm=family.norm,
        final_norm=hasattr(encoder, family.final_norm),
        attention_bias=output.bias is not None,
        output_bias=hasattr(inner, "final_logits_bias"),
        tied=_tied(inner),
        scale_embeddings=bool(getattr(config, "scale_embedding", False)),
        scale_scores=not relative,
        positions=family.positions,
        activation=str(getattr(config, "dense_act_fn", None) or config.activation_function),
        gated=gated,
        feed_forward_bias=contract.bias is not None,
        norm_kind="rms" if relative else "layer",
        embedding_norm=hasattr(encoder, family.embedding_norm),
        scale_output=bool(getattr(config, family.scale_output, False)),
    )
