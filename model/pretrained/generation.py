"""Which settings of generation of a Hugging Face model our decoding does not follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import GenerationConfig

_NOT_DONE: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "length_penalty": (1.0,),
    "early_stopping": (False,),
    "do_sample": (False,),
    "temperature": (1.0,),
    "top_k": (0,),
    "top_p": (1.0,),
    "min_p": (0.0,),
    "top_h": (),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "penalty_alpha": (0.0,),
    "dola_layers": (),
    "guidance_scale": (1.0,),
    "max_length": (),
    "max_new_tokens": (),
    "max_time": (),
    "stop_strings": ([], ""),
    "num_return_sequences": (1,),
    "constraints": ([],),
    "force_words_ids": ([],),
    "token_healing": (False,),
    "watermarking_config": (),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_eos_token_id": (),
    "begin_suppress_tokens": ([],),
    "exponential_decay_length_penalty": (),
    "sequence_bias": ({}, []),
}
"""Settings of generation that greedy decoding does not have, and values that ask for nothing."""


def settings_not_followed(generation: GenerationConfig) -> dict[str, Any]:
    """Return settings of generation that greedy decoding does not follow: names and values."""
    ignored = {
        name: value
        for name, without in _NOT_DONE.items()
        if (value := getattr(generation, name, None)) is not None and value not in without
    }
    if longer := [ids for ids in generation.bad_words_ids or () if len(ids) > 1]:
        ignored["bad_words_ids"] = longer
    return ignored
