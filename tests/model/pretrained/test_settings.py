"""Configurations and settings of generation, whole and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwise.model.files import CheckpointError
from headwise.model.pretrained.run import PretrainedRun
from tests.model.pretrained.saved import change_json


@pytest.mark.parametrize("kind", ["llama", "bert", "blenderbot", "no such", None, 3, ["t5"]])
def test_other_families_are_refused(folder: Path, kind: object) -> None:
    change_json(folder / "config.json", model_type=kind)
    with pytest.raises(CheckpointError, match=r"config\.json: model_type .* one of marian, bart"):
        _ = PretrainedRun(folder, "t5").description


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"config\.json: not JSON .*restore the file"),
        ("[1]", r"config\.json: expected an object, got list"),
        ("{}", r"config\.json: model_type None cannot be opened"),
        ("\ud800", r"config\.json: not JSON"),
    ],
)
def test_a_configuration_that_is_none_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(CheckpointError, match=message):
        _ = PretrainedRun(folder, "t5").description
    with pytest.raises(CheckpointError, match=message):
        PretrainedRun(folder, "t5").load(0)


@pytest.mark.parametrize(
    "values",
    [
        {"num_layers": 10**9},
        {"num_layers": -1},
        {"num_layers": "many"},
        {"d_model": 10**12},
        {"d_ff": 0.5},
        {"vocab_size": 10**15},
        {"vocab_size": -5},
        {"num_heads": 0},
        {"num_decoder_layers": 0},
        {"decoder_start_token_id": 10**6},
        {"decoder_start_token_id": None},
        {"pad_token_id": None},
        {"eos_token_id": []},
        {"dense_act_fn": "magic"},
        {"relative_attention_num_buckets": float("inf")},
    ],
    ids=str,
)
def test_absurd_configurations_are_refused(folder: Path, values: dict[str, Any]) -> None:
    (folder / "generation_config.json").unlink()
    change_json(folder / "config.json", **values)
    with pytest.raises(CheckpointError, match=r"config\.json: "):
        _ = PretrainedRun(folder, "t5").description


@pytest.mark.parametrize("content", ["{", "[]", '{"bad_words_ids": 7}'])
def test_damaged_settings_of_generation_are_named(folder: Path, content: str) -> None:
    (folder / "generation_config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json: "):
        _ = PretrainedRun(folder, "t5").description


def test_a_marian_with_absurdly_long_sentences_is_refused(training: Path) -> None:
    for step in (20, 100):
        place = training / f"checkpoint-{step}" / "config.json"
        change_json(place, max_position_embeddings=10**7)
    with pytest.raises(CheckpointError, match="max_position_embeddings: expected at most 100,000"):
        _ = PretrainedRun(training, "out").description


def test_settings_that_our_decoding_does_not_follow_are_listed(folder: Path) -> None:
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == {}
    wanted = {"no_repeat_ngram_size": 3, "min_length": 4, "forced_eos_token_id": 1}
    wanted["repetition_penalty"] = 1.2
    nothing = {"encoder_no_repeat_ngram_size": 0, "num_beams": 4, "bad_words_ids": [[5], [6, 7]]}
    change_json(folder / "generation_config.json", **wanted, **nothing, eos_token_id=[1, 9])
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == wanted | {"bad_words_ids": [[6, 7]], "eos_token_id": [9]}
    assert run.load(0).model.special_ids.never_generated == (5,)


def test_settings_of_generation_may_stand_in_the_configuration(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    change_json(folder / "config.json", min_length=4, bad_words_ids=[[5]])
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == {"min_length": 4}
    assert run.load(0).model.special_ids.never_generated == (5,)
