"""A Hugging Face encoder-decoder as a ``Seq2SeqModel``, whose letters stand for axes here."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel, PreTrainedTokenizerBase

from headwise.model.hooks import HookPoint
from headwise.model.interface import (
    NO_ORIGIN,
    Languages,
    LinearParameters,
    NormParameters,
    Reference,
    Rotation,
    Side,
    Stack,
)
from headwise.model.layers import transpose_in_memory
from headwise.model.masks import embeddable, padding_mask_if_padded
from headwise.model.placement import in_float32
from headwise.model.pretrained import parts
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.copies import EagerTwin
from headwise.model.pretrained.families import Family, SublayerPaths, families_of
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.parts import describe, special_ids
from headwise.model.pretrained.points import StackPoints, require_reached
from headwise.model.pretrained.tokenizers import PretrainedTokenizers

_MEMORY_PROJECTION = "enc_to_dec_proj"
"""A linear layer from the encoder's width to the decoder's; used if it is there."""
_STACKS: tuple[Stack, ...] = ("encoder", "decoder")
_READ_MEMORY = ("key_projection", "value_projection")


class PretrainedCache(EncoderDecoderCache):
    """A ``Cache`` of the interface."""

    def __init__(self) -> None:
        super().__init__(DynamicCache(), DynamicCache())

    def keep(self, rows: Tensor) -> None:
        self.batch_select_indices(rows)


class PretrainedModel(nn.Module):
    """A model of ``transformers``, which is ``inner``, behind the interface of ours.

    ``encoder``, ``decoder`` and ``logits`` hold the hook points.
    """

    def __init__(self, inner: PreTrainedModel, *, reached: bool = False) -> None:
        """Put hook points beside a model, of which it is known whether they are ``reached``.

        An unknown family is a CheckpointError; wrong ids, a module that is not there, or a pass
        beside the hook points is a ValueError.
        """
        super().__init__()
        config = inner.config.to_dict() | {"model_type": inner.config.model_type}
        families = families_of(config, inner.config.name_or_path or type(inner).__name__)
        try:
            of_encoder, of_decoder = self._put_points(inner, families)
        except AttributeError as error:  # of PyTorch, as of a family that was only just added
            raise ValueError(
                f"model_type {config['model_type']!r}: it lacks a module that the record of its "
                f"family names ({error}); see docs/add-a-family.md"
            ) from error
        self.special_ids = special_ids(inner, of_encoder, of_decoder)
        self.origin = NO_ORIGIN
        self.eval()
        if not reached and self.device.type != "meta":
            require_reached(self)

    def _put_points(
        self, inner: PreTrainedModel, families: Sequence[Family]
    ) -> tuple[parts.Part, parts.Part]:
        """Put hook points beside a model, and describe it; return its two stacks."""
        modules = (inner.get_encoder().base_model, inner.get_decoder().base_model)
        modules = tuple(
            module.get_submodule(family.text) if stack == "encoder" else module
            for stack, module, family in zip(_STACKS, modules, families, strict=True)
        )
        of_encoder, of_decoder = map(parts.Part, _STACKS, modules, families)
        self._parts: dict[Side | Stack, parts.Part] = {
            **dict.fromkeys(("encoder", "source"), of_encoder),
            **dict.fromkeys(("decoder", "target"), of_decoder),
        }
        self._output = parts.Output(inner, of_decoder.module, of_decoder.family)
        self.encoder = StackPoints(*of_encoder)
        self.decoder = StackPoints(*of_decoder, final_norm=self._output.final_norm)
        self.logits = HookPoint()
        self.inner: Any = inner.requires_grad_(False)
        self._eager = EagerTwin(inner)
        transpose_in_memory(inner)
        self.description = describe(of_encoder, of_decoder, self._output)
        for stack in _STACKS:  # which the points of a layer do not need
            self.linear(f"{stack}.layers.0.feed_forward.expand")
        return of_encoder, of_decoder

    @property
    def device(self) -> torch.device:
        return self.inner.device

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        part = self._parts["encoder"]
        ids = self._checked(source, part)
        mask = padding_mask_if_padded(source)
        output = part.module(
            input_ids=ids,
            attention_mask=part.open_mask(ids) if mask is None else _of_keys(mask),
            return_dict=True,
            **part.position_ids(source),
        )
        return output.last_hidden_state, mask

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        cache: PretrainedCache | None = None,
    ) -> Tensor:
        before = cache.get_seq_length() if cache is not None else 0
        part, projection = self._parts["decoder"], parts.find(self.inner, _MEMORY_PROJECTION)
        output = part.module(
            input_ids=self._checked(target, part, before),
            attention_mask=part.open_mask(target, before),
            encoder_hidden_states=memory if projection is None else projection(memory),
            encoder_attention_mask=_of_keys(mask),
            past_key_values=cache,
            use_cache=cache is not None,
            return_dict=True,
            **part.position_ids(target, before),
        )
        return self._output.transformed(output.last_hidden_state)

    def _checked(self, ids: Tensor, part: parts.Part, before: int = 0) -> Tensor:
        """Return ids (B, n) that a stack has; ``before`` are in its cache."""
        vocabulary, ids = part.embedding().num_embeddings, embeddable(ids)
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
        return ids

    def unembed(self, stream: Tensor) -> Tensor:
        return self.logits(self._output.logits(stream))

    def lens(self, stream: Tensor) -> Tensor:
        return self.unembed(self._output.of_last_layer(stream))

    def new_cache(self) -> PretrainedCache:
        return PretrainedCache()

    def reference(self, source: Tensor, consumed: Tensor) -> Reference:
        return self._eager.run(source, consumed)

    def _sublayer(self, path: str) -> tuple[Any, SublayerPaths, Family]:
        """Return the layer of ``transformers`` that a sublayer is in, and where it is there."""
        stack, _, index, name = path.split(".")
        part = self._parts["encoder" if stack == "encoder" else "decoder"]
        field = f"{stack}_feed_forward" if name == "feed_forward" else name
        return part.layers()[int(index)], getattr(part.family, field), part.family

    def linear(self, path: str) -> LinearParameters:
        if path == "unembedding":
            return self._output.unembedding
        if path == "output_transform":
            return self._output.transform
        sublayer, _, name = path.rpartition(".")
        layer, paths, family = self._sublayer(sublayer)
        module = layer.get_submodule(paths.module)
        if name.endswith("_projection"):
            crosses = sublayer.endswith("cross_attention")
            made = _projection(module, family, name.removesuffix("_projection"), crosses)
        else:
            given = getattr(family, name)
            names = [given] if isinstance(given, str) else list(given)
            made = parts.linear_parameters(parts.find_first(module, names))
        if name not in _READ_MEMORY:
            return made
        of, stack = vars(self.description), sublayer.partition(".")[0]
        made = parts.for_each_head(made, of[f"n_{stack}_heads"], of[f"{stack}_d_k"])
        crosses = sublayer.endswith("cross_attention")
        projection = parts.find(self.inner, _MEMORY_PROJECTION) if crosses else None
        return made if projection is None else _one_after_the_other(projection, made)

    def norm(self, sublayer: str) -> NormParameters:
        layer, paths, _ = self._sublayer(sublayer)
        return parts.norm_parameters(layer.get_submodule(paths.norm))

    def output_norm(self, sublayer: str) -> NormParameters | None:
        layer, paths, _ = self._sublayer(sublayer)
        norm = parts.find(layer, paths.output_norm)
        return None if norm is None else parts.norm_parameters(norm)

    def rotation(self, projection: str, length: int) -> Rotation | None:
        sublayer, _, name = projection.rpartition(".")
        layer, _, family = self._sublayer(sublayer)
        turns = name == "query_projection" and family.is_merged
        if not sublayer.endswith("cross_attention"):
            turns = name in ("query_projection", "key_projection")
        if family.positions != "rotary" or not turns:
            return None
        part = self._parts["encoder" if sublayer.startswith("encoder") else "decoder"]
        module = part.find(family.rotary)
        kinds = (layer.attention_type,) if hasattr(module, "layer_types") else ()
        positions = torch.arange(length, device=self.device)[None]
        angles = module(part.embedding().weight, positions, *kinds)
        return Rotation(*(of[0] for of in angles))

    def head_norm(self, projection: str) -> NormParameters | None:
        sublayer, _, name = projection.rpartition(".")
        if name not in ("query_projection", "key_projection"):
            return None
        layer, paths, family = self._sublayer(sublayer)
        at = family.head_norms[name == "key_projection"]
        norm = parts.find(layer.get_submodule(paths.module), at)
        return None if norm is None else parts.norm_parameters(norm)

    def final_norm(self, side: Side) -> NormParameters | None:
        part = self._parts[side]
        of_source = part.find(part.family.final_norm)
        norm = of_source if side == "source" else self._output.final_norm
        return None if norm is None else parts.norm_parameters(norm)

    def embedding_norm(self, side: Side) -> NormParameters | None:
        part = self._parts[side]
        norm = part.find(part.family.embedding_norm)
        return None if norm is None else parts.norm_parameters(norm)

    def embedding_table(self, side: Side) -> Tensor:
        return self._parts[side].embedding().weight

    def position_table(self, side: Side) -> Tensor | None:
        part = self._parts[side]
        return getattr(part.find(part.family.position_table), "weight", None)


def wrap_pretrained(
    model: Any, tokenizer: Any, *, languages: Languages, target_tokenizer: Any
) -> tuple[PretrainedModel, PretrainedTokenizers]:
    """Put a model, which is changed, and a copy of its tokenizer behind the interface of ours.

    Where no target language is chosen it is the tokenizer's, if that has one.
    """
    if not (isinstance(model, PreTrainedModel) and model.get_output_embeddings()):
        raise ValueError(
            "model: expected an encoder-decoder of transformers with an output layer, such as "
            f"AutoModelForSeq2SeqLM loads, got {type(model).__name__}"
        )
    for given in (tokenizer, target_tokenizer or tokenizer):
        if not isinstance(given, PreTrainedTokenizerBase):
            raise ValueError(
                "tokenizer: expected one of transformers, such as AutoTokenizer loads, got "
                f"{type(given).__name__}"
            )
    with quiet():
        model.set_attn_implementation(ATTENTION)
        tokenizer, target_tokenizer = copy.deepcopy((tokenizer, target_tokenizer))
    wrapped = PretrainedModel(model)
    known = getattr(tokenizer, "tgt_lang", None)
    if languages.target is None and isinstance(known, str):
        languages = replace(languages, target=known)
    tokenizers = PretrainedTokenizers(
        tokenizer,
        wrapped.special_ids,
        config=model.config,
        generation=model.generation_config,
        sizes=wrapped.description.vocab_sizes,
        languages=languages,
        own_target=target_tokenizer,
        place=type(model).__name__,
    )
    return wrapped, tokenizers


def _projection(module: nn.Module, family: Family, role: str, crosses: bool) -> LinearParameters:
    names = (crosses and family.cross_projections) or family.projections
    place = ("query", "key", "value", "output").index(role)
    name = names[place]
    whole = parts.linear_parameters(module.get_submodule(name))
    found = parts.part_of(whole, names[:place].count(name), names.count(name))
    # The bias of what two halves give together is the first half's.
    is_second = crosses and family.is_merged and role == "output"
    return found._replace(bias=None) if is_second else found


def _one_after_the_other(first: nn.Linear, second: LinearParameters) -> LinearParameters:
    """Return two linear layers as one, in float32 or float64."""
    weight = in_float32(second.weight)
    bias = in_float32(first.bias) @ weight
    bias = bias if second.bias is None else bias + second.bias
    return LinearParameters(in_float32(first.weight.T) @ weight, bias)


def _of_keys(mask: Tensor | None) -> Tensor | None:
    """Return a mask (B, 1, 1, S) as ``transformers`` takes it: (B, S)."""
    return mask[:, 0, 0] if mask is not None else None
