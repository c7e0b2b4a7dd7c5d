"""Folders as ``save_pretrained`` of today writes them, of configurations that give sizes only.

All else is what ``transformers`` takes where a configuration says nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    EncoderDecoderConfig,
    PreTrainedTokenizerFast,
)

from headwise.model.interface import KINDS
from headwise.model.pretrained.families import _DECODERS, FAMILIES, STACKS
from headwise.model.pretrained.folders import quiet
from headwise.model.runs import open_run
from headwise.viz_app.records.trace import AS_TRANSFORMERS
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.model.pretrained.eager import Eager
from tests.model.pretrained.tiny import change_json

SENTENCE, TARGET = "the cat sleeps", "el gato duerme"
_PAIRS = [*((name, name) for name in STACKS), *(("bert", name) for name in _DECODERS)]
_OF_STACK = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
_OF_HIDDEN = _OF_STACK | {"intermediate_size": 31}
_OF_T5 = {"d_model": 24, "d_kv": 5, "d_ff": 31, "num_layers": 2, "num_heads": 3}
_OF_GEMMA = _OF_HIDDEN | {"num_key_value_heads": 3, "head_dim": 8}
_OF_BART: dict[str, Any] = {
    "d_model": 24,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 31),
}
_START = {"decoder_start_token_id": 2}
"""What some configurations do not have, and ``generate`` refuses to do without."""


def _config(name: str) -> Any:
    """Return the configuration of a family, or of a pair of stacks such as bert2gpt2."""
    if "2" in name and name not in FAMILIES:
        encoder, decoder = (
            AutoConfig.for_model(stack, **(_OF_STACK if stack == "gpt2" else _OF_HIDDEN))
            for stack in name.split("2", maxsplit=1)
        )
        pair = EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
        pair.decoder_start_token_id, pair.eos_token_id = 2, 4
        return pair
    if name == "t5gemma2":
        images = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
        images |= {"num_attention_heads": 1, "model_type": "siglip_vision_model"}
        encoder = {"text_config": _OF_GEMMA, "vision_config": images}
        return AutoConfig.for_model(name, encoder=encoder, decoder=_OF_GEMMA)
    if name == "t5gemma":
        return AutoConfig.for_model(name, encoder=_OF_GEMMA, decoder=_OF_GEMMA)
    if name.endswith("t5"):
        return AutoConfig.for_model(name, **_OF_T5)
    return AutoConfig.for_model(name, **_OF_BART)


def _save(folder: Path, name: str) -> None:
    """Write model and tokenizer of a family into a folder."""
    torch.manual_seed(7)
    with quiet():
        inner = AutoModelForSeq2SeqLM.from_config(_config(name))
        if inner.generation_config.decoder_start_token_id is None:
            inner.generation_config.update(**_START)
        inner.save_pretrained(folder)
    end = inner.config.eos_token_id
    words = [f"<{id}>" for id in range(20)] + f"{SENTENCE} {TARGET} <end> <unk>".split()
    words[end], words[-2] = "</s>", f"<{end}>"
    backend = Tokenizer(models.WordLevel({word: id for id, word in enumerate(words)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [("</s>", end)]
    backend.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=special)
    given = {"eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **given).save_pretrained(folder)


@pytest.mark.parametrize("name", [*FAMILIES, *map("2".join, _PAIRS)])
def test_a_model_of_sizes_only_takes_a_sentence_and_equals_eager(name: str, tmp_path: Path) -> None:
    _save(tmp_path, name)
    run = open_run(str(tmp_path))
    assert run.description.max_length > 100
    trace = run_trace(run.load(0).model, run.tokenizers, SENTENCE, TARGET)
    assert [word.text for word in trace.source.words] == [*SENTENCE.split(), "</s>"]
    assert [check.name for check in trace.checks if not check.passed] == []
    assert trace.checks[-1].name == AS_TRANSFORMERS
    eager, ids = Eager.open(tmp_path), (trace.source.ids, trace.target_ids)
    for kind in KINDS:
        assert_near(trace.attention[kind], eager.attention(*ids, kind), size=1, operations=PASS)
    found = trace.predictions.log_probability
    assert_near(found, eager.log_probabilities(*ids), size=10, operations=PASS)


@pytest.mark.parametrize("positions", [None, 7, 512])
def test_a_t5_has_no_limit_that_is_set(positions: int | None, tmp_path: Path) -> None:
    """Files of older versions have ``n_positions``, which nothing reads."""
    _save(tmp_path, "t5")
    change_json(tmp_path / "config.json", n_positions=positions)
    run = open_run(str(tmp_path))
    text = "cat " * 560
    trace = run_trace(run.load(0).model, run.tokenizers, text, TARGET)
    expected = Eager.open(tmp_path).attention(trace.source.ids, trace.target_ids, "cross")
    assert trace.attention["cross"].shape[-1] == 561
    assert_near(trace.attention["cross"], expected, size=1, operations=PASS)
    with pytest.raises(ValueError, match="the sentence has 4,097 tokens, at most 4,096 are read"):
        run_trace(run.load(0).model, run.tokenizers, "cat " * 4_096)


@pytest.mark.parametrize(
    ("name", "longest"),
    [("m2m_100", 1_024), ("roberta2roberta", 510), ("t5gemma", 4_096), ("t5gemma2", 2_048)],
)
def test_the_longest_text_is_what_the_model_reads(name: str, longest: int, tmp_path: Path) -> None:
    _save(tmp_path, name)
    assert open_run(str(tmp_path)).description.max_length == longest


def test_a_window_that_no_layer_has_is_no_limit(tmp_path: Path) -> None:
    _save(tmp_path, "t5gemma")
    config = {"layer_types": ["full_attention"] * 2}
    stacks = AutoConfig.from_pretrained(tmp_path).to_dict()
    change_json(
        tmp_path / "config.json", **{of: stacks[of] | config for of in ("encoder", "decoder")}
    )
    assert open_run(str(tmp_path)).description.max_length == 8_192
