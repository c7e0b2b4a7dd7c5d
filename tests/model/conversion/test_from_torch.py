"""Tutorial-like models with random weights, converted, must compute what they computed before."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from headwise.model.checkpoint import load_weights, open_trained_run, write_info
from headwise.model.config import TrainingConfig
from headwise.model.conversion.from_torch import convert_from_torch
from headwise.model.conversion.layouts import Parts
from headwise.model.conversion.vocabularies import SpecialNames
from headwise.model.decoding.translation import translate
from headwise.model.files import CheckpointError
from headwise.model.layers import sinusoidal_positions
from tests.floats import PASS, rounding
from tests.model.conversion.tutorials import (
    ENGLISH,
    GERMAN,
    LONGEST,
    D,
    annotated_model,
    convert,
    deviations,
    from_torch,
    tutorial_model,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer


NOTHING = rounding(torch.float64, 10, PASS)
"""How far two computations may be apart whose logits are below 10."""


# The same computation


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_torch_transformer_computes_the_same(
    tmp_path: Path, batch_first: bool, norm_first: bool, bias: bool
) -> None:
    model = tutorial_model(batch_first=batch_first, norm_first=norm_first, bias=bias)
    run = convert(from_torch(tmp_path, model.state_dict(), norm_first=norm_first))
    logits, maps = deviations(model, run)
    assert logits.max() < NOTHING
    assert maps.max() < NOTHING
    config = run.info.model
    assert (config.n_encoder_layers, config.n_decoder_layers) == (2, 1)
    assert (config.norm, config.final_norm) == ("pre" if norm_first else "post", True)
    assert (config.attention_bias, config.tied, config.max_length) == (bias, "none", LONGEST)


def test_the_annotated_transformer_computes_the_same_up_to_its_norm(tmp_path: Path) -> None:
    model = annotated_model()
    arguments = from_torch(tmp_path, model.state_dict(), layout="annotated-transformer")
    said = convert_from_torch(arguments)
    assert "ours by the root of the variance plus 1e-5" in said
    logits, maps = deviations(model, open_trained_run("tutorial", root=tmp_path / "runs"))
    assert NOTHING < logits.max() < 3e-5
    assert logits.mean() < 4e-6
    assert NOTHING < maps.max() < 1e-5
    # With our norm in their formulas nothing differs: the gains are converted in float32.
    model.norm = lambda name, x: nn.functional.layer_norm(  # type: ignore[method-assign]
        x,
        (D,),
        (model.state[f"{name}.a_2"] * math.sqrt((D - 1) / D)).double(),
        model.state[f"{name}.b_2"].double(),
    )
    logits, maps = deviations(model, open_trained_run("tutorial", root=tmp_path / "runs"))
    assert logits.max() < NOTHING
    assert maps.max() < NOTHING


def test_words_of_a_text_get_the_rows_of_their_tokens(tmp_path: Path) -> None:
    model = tutorial_model()
    run = convert(from_torch(tmp_path, model.state_dict()))
    pair = run.tokenizers
    assert pair.source.tokens(pair.encode_source("Der der  Hund.")) == (
        ["<s>", "<unk>", "der", "Hund", ".", "</s>"]
    )
    assert pair.target.tokens(pair.encode_target("I see")) == ["<s>", "I", "<unk>", "</s>"]
    table = load_weights(run, 7).model.embedding_table("source")
    for token, row in zip(GERMAN, model.src_tok_emb.weight, strict=True):
        usual = {"<bos>": "<s>", "<eos>": "</s>"}.get(token, token)
        assert torch.equal(table[pair.source.tokens(range(len(GERMAN))).index(usual)], row)
    without = convert(from_torch(tmp_path, model.state_dict(), run="without", source_start=False))
    assert without.tokenizers.encode_source("der") == run.tokenizers.encode_source("der")[1:]


def test_a_converted_run_says_what_is_not_known(tmp_path: Path) -> None:
    run = convert(from_torch(tmp_path, tutorial_model().state_dict()))
    assert (run.data, run.counts, run.planned_steps) == (None, None, None)
    assert (run.metrics(), run.samples(), run.steps()) == ([], [], [7])
    assert translate(run.load(7).model, run.tokenizers, ["der Hund ."]) != [""]


# Tied matrices, and tokens that a vocabulary lacks


def test_equal_matrices_are_tied(tmp_path: Path) -> None:
    model = tutorial_model()
    model.generator.weight = model.tgt_tok_emb.weight
    run = convert(from_torch(tmp_path, model.state_dict()))
    assert run.info.model.tied == "output"
    assert deviations(model, run)[0].max() < NOTHING

    state = model.state_dict()
    state["src_tok_emb.weight"] = state["tgt_tok_emb.weight"]
    arguments = from_torch(tmp_path, state, run="all")
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert run.info.model.tied == "all"
    assert run.tokenizers.shared

    del state["src_tok_emb.weight"], state["generator.weight"], state["generator.bias"]
    state["embedding.weight"] = state.pop("tgt_tok_emb.weight")
    arguments = from_torch(tmp_path, state, run="one", parts=Parts(generator="embedding.weight"))
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert (run.info.model.tied, run.info.model.output_bias) == ("all", False)


def test_a_special_token_that_is_not_there_has_probability_zero(tmp_path: Path) -> None:
    state = tutorial_model().state_dict()
    arguments = from_torch(tmp_path, state)
    names = [*(f"w{i}" for i in range(len(ENGLISH) - 1)), "go"]
    arguments.target_vocab.write_text(json.dumps(names))
    changed = replace(arguments, special=SpecialNames(start="go"))
    with pytest.raises(CheckpointError, match=r"target\.json: there is no 'stop', which --end"):
        convert_from_torch(replace(arguments, special=SpecialNames(start="go", end="stop")))
    said = convert_from_torch(changed)
    assert "the target vocabulary has no <pad>, <unk>, </s>: embedded as zeros, and never" in said
    run = open_trained_run("tutorial", root=tmp_path / "runs")
    assert run.description.target_vocab_size == len(ENGLISH) + 3
    model = load_weights(run, 7).model
    assert not model.embedding_table("target")[[0, 1, 3]].any()
    source, target = torch.tensor([[4, 5]]), torch.tensor([[2, 4]])
    with torch.no_grad():
        probabilities = model(source, target).softmax(-1)
    assert not probabilities[..., [0, 1, 3]].any()
    assert (probabilities[..., [2, *range(4, 15)]] > 0).all()


# Files and checkpoints


@pytest.mark.parametrize("form", ["training", "parallel", "half", "safetensors"])
def test_other_forms_of_the_file_are_read(tmp_path: Path, form: str) -> None:
    model = tutorial_model()
    state: Any = model.state_dict()
    if form == "training":
        state = {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": {"state": {}}}
    elif form == "parallel":
        state = {f"module.{name}": tensor for name, tensor in state.items()}
    elif form == "half":
        model.half()
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.float()
        model.pos_embedding.copy_(sinusoidal_positions(LONGEST, D).view_as(model.pos_embedding))
    arguments = from_torch(tmp_path, state)
    if form == "safetensors":
        path = tmp_path / "model.safetensors"
        safetensors.torch.save_file(state, path)
        arguments = replace(arguments, file=path)
    assert deviations(model, convert(arguments))[0].max() < NOTHING


def test_another_step_becomes_a_checkpoint_of_the_same_run(tmp_path: Path) -> None:
    model = tutorial_model()
    arguments = from_torch(tmp_path, model.state_dict(), step=0)
    convert(arguments)
    with torch.no_grad():
        model.generator.weight.mul_(2)
    run = convert(from_torch(tmp_path, model.state_dict(), step=70))
    assert run.steps() == [0, 70]
    assert deviations(model, run, 70)[0].max() < NOTHING
    for changes, message in [
        ({"step": 70}, r"step-0000070\.safetensors: is there already; give another --step"),
        ({"step": 80, "heads": 7}, r"runs/tutorial: its model is not that of .*model\.pt"),
        ({"step": 80, "split": "spaces"}, r"runs/tutorial: its tokenizer_sha256 is not that of"),
        ({"step": 80, "source_start": False}, r"runs/tutorial: its source_start is not that of"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            convert_from_torch(replace(arguments, **changes))
    assert run.steps() == [0, 70]


def test_a_trained_run_gets_no_converted_checkpoint(tmp_path: Path) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    run = convert(arguments)
    write_info(run.folder, replace(run.info, training=TrainingConfig()))
    with pytest.raises(CheckpointError, match="this run was trained here, not converted"):
        convert_from_torch(replace(arguments, step=8))
