"""What a Hugging Face model is, read from its modules and its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from torch import nn
from transformers import PreTrainedModel

from headwise.model.interface import Description, SpecialIds
from headwise.model.pretrained.parts import Output, Part, find, linear_parameters

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
