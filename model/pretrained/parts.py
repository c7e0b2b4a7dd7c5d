"""Modules of a Hugging Face model by their paths, and their weights as our interface gives them.

``D`` = d_model, ``V`` vocabulary size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from headwise.model.interface import (
    Description,
    LinearParameters,
    NormParameters,
    SpecialIds,
    Stack,
)
from headwise.model.placement import in_float32
from headwise.model.pretrained.families import Family, SublayerPaths
from headwise.model.stream import capped


def find(module: nn.Module, path: str) -> Any:
    """Return the module at a path below another; None if there is none, or the path is empty."""
    try:
        return module.get_submodule(path) if path else None
    except AttributeError:
        return None


def find_first(module: nn.Module, paths: Sequence[str]) -> Any:
    """Return the first of the modules at some paths that is there; AttributeError if none is."""
    for path in paths:
        if (found := find(module, path)) is not None:
            return found
    raise AttributeError(f"{type(module).__name__} has no attribute {' or '.join(paths)}")


def linear_parameters(linear: Any) -> LinearParameters:
    """Return the weights of a linear layer, or of GPT-2's ``Conv1D``, which is one."""
    if isinstance(linear, Conv1D):
        return LinearParameters(linear.weight, linear.bias)
    return LinearParameters(linear.weight.T, linear.bias)


def for_each_head(linear: LinearParameters, heads: int, width: int) -> LinearParameters:
    """Return the weights of keys or values as if every head had its own, (D, heads · width).

    Where fewer are stored, each is for as many heads that follow each other.
    """
    weight, bias = linear
    groups = heads * width // weight.shape[1]
    if groups == 1:
        return linear

    def spread(stored: Tensor) -> Tensor:
        each = stored.unflatten(-1, (-1, width))
        return each.repeat_interleave(groups, dim=-2).flatten(-2)

    return LinearParameters(spread(weight), None if bias is None else spread(bias))


def part_of(linear: LinearParameters, place: int, count: int) -> LinearParameters:
    """Return the weights of one of ``count`` layers that are stored beside each other in one."""
    weight, bias = linear
    return LinearParameters(
        weight.chunk(count, dim=-1)[place], None if bias is None else bias.chunk(count)[place]
    )


def norm_parameters(norm: Any) -> NormParameters:
    if isinstance(norm, nn.LayerNorm):
        return NormParameters(norm.weight, norm.bias, norm.eps)
    if hasattr(norm, "variance_epsilon"):
        return NormParameters(norm.weight, None, norm.variance_epsilon)
    return NormParameters(1 + in_float32(norm.weight), None, norm.eps)  # Gemma's are kept less 1


class Part(NamedTuple):
    """The encoder or the decoder in ``transformers``, and the record of its family."""

    stack: Stack
    module: Any
    family: Family

    def find(self, path: str) -> Any:
        """Return the module at a path; None if there is none."""
        return find(self.module, path)

    def layers(self) -> Any:
        """Return the list of layers."""
        return self.module.get_submodule(self.family.layers)

    def feed_forward(self) -> nn.Module:
        """Return the module that holds the linear layers of the first feed-forward."""
        paths: SublayerPaths = getattr(self.family, f"{self.stack}_feed_forward")
        return self.layers()[0].get_submodule(paths.module)

    def embedding(self) -> nn.Embedding:
        """Return the module of the embeddings of tokens."""
        return self.module.get_input_embeddings()

    def open_mask(self, ids: Tensor, before: int = 0) -> Tensor | None:
        """Return a mask that hides nothing, (B, n), for a family that is to be given one."""
        if not self.family.hides_padding:
            return None
        return ids.new_ones(len(ids), before + ids.shape[1])

    def position_ids(self, ids: Tensor, before: int = 0) -> dict[str, Tensor]:
        """Return the numbers of positions, (B, n), of a family that is to be given them."""
        if not self.family.numbers_positions:
            return {}
        numbers = torch.arange(before, before + ids.shape[1], device=ids.device)
        return {"position_ids": numbers.expand(len(ids), -1)}


class Output:
    """The layers between the decoder's last layer and the logits.

    Some models have a norm at the end of the decoder; BERT and RoBERTa have what their masked
    language models have, a linear layer, an activation function and a norm (Devlin et al. 2019).
    """

    def __init__(self, inner: Any, decoder: Any, family: Family) -> None:
        self._inner = inner
        self._unembedding: Any = inner.get_output_embeddings()
        self._width: int = decoder.get_input_embeddings().embedding_dim
        self.is_scaled = bool(getattr(decoder.config, family.scale_output, False))
        """Whether the decoder's output is multiplied by 1/√D."""
        self._cap: float | None = getattr(decoder.config, "final_logit_softcapping", None)
        self.final_norm = find(decoder, family.final_norm)
        """The last norm before the unembedding; None if there is none."""
        self._dense: Any = None
        if family.transform is not None:
            dense, norm, activation = family.transform
            self._dense = inner.decoder.get_submodule(dense)
            self.final_norm = inner.decoder.get_submodule(norm)
            self._activation = ACT2FN[activation or decoder.config.hidden_act]

    @property
    def has_transform(self) -> bool:
        """Return whether a linear layer and an activation function come before that norm."""
        return self._dense is not None

    @property
    def transform(self) -> LinearParameters:
        """Return the weights of that linear layer."""
        return linear_parameters(self._dense)

    @property
    def unembedding(self) -> LinearParameters:
        """Return the weights that give the logits: (D, V) and (V,)."""
        weight, own = linear_parameters(self._unembedding)
        biases = (own, *getattr(self._inner, "final_logits_bias", ()))
        given = [bias for bias in biases if bias is not None]
        return LinearParameters(weight, sum(given[1:], given[0]) if given else None)

    def is_tied_to(self, table: Tensor) -> bool:
        """Return whether the unembedding has the weights of a table of embeddings."""
        return self._unembedding.weight is table

    def transformed(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its module in ``transformers`` gives."""
        if not self.has_transform:
            return stream
        return self.final_norm(self._activation(self._dense(stream)))

    def of_last_layer(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its last layer gives."""
        if self.has_transform or self.final_norm is None:
            return self.transformed(stream)
        return self.final_norm(stream)

    def logits(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of the decoder's output (…, D)."""
        if self.is_scaled:
            stream = stream * self._width**-0.5
        logits = self._unembedding(stream)
        if hasattr(self._inner, "final_logits_bias"):
            logits += self._inner.final_logits_bias[0]  # in place: logits may be large
        return capped(logits, self._cap)


_LONGEST = 4_096
"""Tokens that are read of a text where a model has no limit, as with relative positions."""


def special_ids(inner: PreTrainedModel, encoder: Part, decoder: Part) -> SpecialIds:
    config, generation = inner.config, inner.generation_config
    vocabulary = decoder.embedding().num_embeddings
    of_encoder, of_decoder = (part.module.config.pad_token_id for part in (encoder, decoder))

    def setting(name: str) -> Any:
        return _first_given(*(getattr(each, name, None) for each in (generation, config)))

    given = setting("eos_token_id")
    end, *more = given if isinstance(given, list) and given else [given]
    others = tuple(id for id in more if type(id) is int)
    required = {
        "decoder_start_token_id": _first_given(
            setting("decoder_start_token_id"), setting("bos_token_id")
        ),
        "eos_token_id": end,
    }
    # What is padding to one stack may be a word to the other.
    padding = of_encoder if of_encoder == of_decoder else None
    given = {} if padding is None else {"pad_token_id": padding}
    for name, id in (required | given).items():
        if type(id) is not int or not 0 <= id < vocabulary:
            line = f'"{name}": {end if type(end) is int else 2}'
            step = f"; add a line to config.json, such as {line}" if id is None else ""
            raise ValueError(f"{name}: expected the id of a token, got {id!r:.60}{step}")
    ends, words = (end, *others), generation.bad_words_ids or ()
    bad = {ids[0] for ids in words if len(ids) == 1 and ids[0] not in ends}  # as there, no end
    forbidden = bad.union(generation.suppress_tokens or ())
    return SpecialIds(
        start=required["decoder_start_token_id"],
        end=end,
        padding=padding,
        unknown=getattr(config, "unk_token_id", None),
        other_ends=others,
        never_generated=tuple(id for id in sorted(forbidden) if 0 <= id < vocabulary),
    )


def _first_given(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _longest(part: Part) -> int:
    """Return the number of positions that a stack knows."""
    table, longest = part.find(part.family.position_table), _LONGEST
    if part.family.positions != "relative":  # T5 once wrote a number that it does not read
        longest = _first_given(_setting(part, "max_position_embeddings"), _LONGEST)
    # Up to the width of its window, a layer sees all that the other layers see.
    window = _setting(part, "sliding_window")
    if window is not None and "sliding_attention" in part.module.config.layer_types:
        is_halved = part.stack == "encoder" and part.family.halved_window
        longest = min(longest, (window + 1) // 2 if is_halved else window)
    if not isinstance(table, nn.Embedding) or table.padding_idx is None:
        return longest
    return longest - table.padding_idx - 1  # RoBERTa counts from the number after it


def describe(encoder: Part, decoder: Part, output: Output) -> Description:
    """Describe a model: as its decoder is, with what differs in the encoder beside it."""
    sizes: dict[str, Any] = {}
    for part in (encoder, decoder):
        layers, stack = part.layers(), part.stack
        heads = _setting(part, f"{stack}_attention_heads", "num_attention_heads")
        contract = find(part.feed_forward(), part.family.contract)
        sizes |= {
            f"n_{stack}_layers": len(layers),
            f"n_{stack}_heads": heads,
            f"{stack}_d_k": len(linear_parameters(_last_projection(part)).weight) // heads,
            f"{stack}_d_ff": len(linear_parameters(contract).weight),
        }
    source, target = encoder.embedding(), decoder.embedding()
    tied: Literal["none", "output", "all"] = "none"
    if output.is_tied_to(target.weight):
        tied = "all" if source.weight is target.weight else "output"
    whole = Description(
        **sizes,
        source_vocab_size=source.num_embeddings,
        target_vocab_size=target.num_embeddings,
        max_length=min(map(_longest, (encoder, decoder))),
        output_bias=output.unembedding.bias is not None,
        tied=tied,
        output_transform=output.has_transform,
        scale_output=output.is_scaled,
        merged_attention=decoder.family.is_merged,
        **_properties(decoder),
    )
    of_encoder = _properties(encoder)
    differs = of_encoder != _properties(decoder)
    return replace(whole, of_encoder=replace(whole, **of_encoder)) if differs else whole


def _setting(part: Part, *names: str) -> Any:
    """Return the first of some settings of a stack that is given."""
    return _first_given(*(getattr(part.module.config, name, None) for name in names))


def _attention(part: Part) -> nn.Module:
    return part.layers()[0].get_submodule(part.family.self_attention.module)


def _last_projection(part: Part) -> Any:
    return _attention(part).get_submodule(part.family.projections[-1])


def _properties(part: Part) -> dict[str, Any]:
    """Return the properties of a stack that another stack of the model may not have."""
    family, feed_forward = part.family, part.feed_forward()
    divisor = _setting(part, "query_pre_attn_scalar")
    activation = _setting(
        part, "dense_act_fn", "activation_function", "hidden_act", "hidden_activation"
    )
    norm = part.layers()[0].get_submodule(family.self_attention.norm)
    heads, key_heads = (_setting(part, f"num_{of}_heads") for of in ("attention", "key_value"))
    return {
        "d_model": part.embedding().embedding_dim,
        "norm": family.norm,
        "final_norm": part.find(family.final_norm) is not None,
        "attention_bias": _last_projection(part).bias is not None,
        "scale_embeddings": not family.token_norm
        and (
            bool(_setting(part, "scale_embedding"))
            or family.scale_embeddings
            or getattr(part.embedding(), "scalar_embed_scale", 1.0) != 1.0
        ),
        "scale_scores": family.positions != "relative",
        "positions": family.positions,
        "activation": str(activation),
        "gated": find(feed_forward, family.gate) is not None,
        "feed_forward_bias": find(feed_forward, family.contract).bias is not None,
        "norm_kind": "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        "output_norms": bool(family.self_attention.output_norm),
        "score_divisor": None if divisor in (None, _setting(part, "head_dim")) else divisor,
        "score_cap": _setting(part, family.score_cap) if family.score_cap else None,
        "logit_cap": _setting(part, "final_logit_softcapping"),
        "head_norms": any(find(_attention(part), norm) for norm in family.head_norms),
        "key_heads": None if key_heads in (None, heads) else key_heads,
        "token_norm": bool(family.token_norm),
        "embedding_norm": part.find(family.embedding_norm) is not None,
        "token_types": part.find(family.token_types) is not None,
    }
