"""A Hugging Face model that is in memory behind the interface of ours."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headwise.model.interface import Languages
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.tokenizers import PretrainedTokenizers


def wrap_pretrained(
    model: Any, tokenizer: Any, *, languages: Languages, target_tokenizer: Any
) -> tuple[PretrainedModel, PretrainedTokenizers]:
    """Put a model, which is changed, and a copy of its tokenizer behind the interface of ours.

    Where no target language is chosen it is the tokenizer's, if that has one. Errors are those of
    ``wrap_model`` in ``headwise.model.memory``.
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
