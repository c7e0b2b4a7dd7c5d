"""What folders have beside weights, whole and damaged: checkpoints, log, configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers.utils import logging

from headwise.model.files import CheckpointError
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.pretrained.tokenizer_files import panics_as_errors
from headwise.model.pretrained.tokenizers import PretrainedVocabulary, load_tokenizer
from headwise.model.runs import is_training
from tests.model.pretrained.tiny import WEIGHTS, MakeFolder, change_json, trainer_state

# Checkpoints and their log


def test_checkpoints_appear_when_they_are_complete(training: Path) -> None:
    run = PretrainedRun(training, "out")
    written = training / "checkpoint-120"
    written.mkdir()
    shutil.copy(training / "checkpoint-100" / "config.json", written)
    assert run.steps() == [20, 100]
    weights = (training / "checkpoint-100" / WEIGHTS).read_bytes()
    for share in (0, 5, 500, len(weights) - 1):  # a file that grows
        (written / WEIGHTS).write_bytes(weights[:share])
        assert run.steps() == [20, 100]
    (written / WEIGHTS).write_bytes(weights)
    (written / "trainer_state.json").write_text(trainer_state(120))  # the last that is written
    assert run.steps() == [20, 100, 120]
    assert run.metrics()[-1]["step"] == 120  # the log is read anew as well
    shutil.rmtree(training / "checkpoint-20")  # the Trainer keeps only so many
    assert run.steps() == [100, 120]


@pytest.mark.parametrize(
    ("steps", "hours", "seems"),
    [(60, (0, 0), False), (300, (0, 0), True), (300, (5, 1), True), (300, (2, 1), True),
     (300, (1.1, 1), False), (None, (0, 0), False)],
)  # fmt: skip
def test_a_training_seems_to_go_on_until_its_last_step_or_a_silence(
    training: Path, steps: int | None, hours: tuple[float, float], seems: bool
) -> None:
    """Its checkpoints of 20 and 100 steps were written so many hours ago."""
    for step, ago in zip((20, 100), hours, strict=True):
        state = training / f"checkpoint-{step}" / "trainer_state.json"
        state.write_text(trainer_state(step, max_steps=steps))
        os.utime(state, times=(time.time() - 3_600 * ago,) * 2)
    assert is_training(training) is seems


def test_damaged_logs_of_a_training_are_left_out(training: Path) -> None:
    path = training / "checkpoint-100" / "trainer_state.json"
    damaged = [trainer_state(100, log_history=rows) for rows in ({}, [1, {"step": -1}])]
    for content in ("[]", *damaged):
        path.write_text(content)
        assert PretrainedRun(training, "out").metrics() == []
    path.write_text("{")
    message = r"trainer_state\.json: not JSON .*; restore the file"
    with pytest.raises(CheckpointError, match=message):
        PretrainedRun(training, "out").metrics()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"eval_loss": 2, "eval_de_loss": 3.5}, {"valid_loss": 2, "eval_de_loss": 3.5}),
        ({"eval_rougeL": 0.5, "eval_gen_len": 7}, {"eval_rougeL": 0.5, "eval_gen_len": 7}),
        ({"bleu": 3, "eval_bleu": 4}, {"bleu": 4}),  # that of the evaluation
        ({"train_loss": 5, "total_flos": 1e9, "epoch": 3, "eval_runtime": 1}, {}),
        ({"eval_a": "x", "eval_b": True, "eval_c": None, "eval_d": [1], "eval_e": 10**999}, {}),
        ({"eval_a": float("inf"), "loss": float("nan"), "eval_b": -1}, {"eval_b": -1}),
    ],
)
def test_numbers_that_a_trainer_logged_keep_their_names(
    training: Path, row: dict[str, Any], expected: dict[str, float]
) -> None:
    path = training / "checkpoint-100" / "trainer_state.json"
    path.write_text(trainer_state(100, log_history=[{"step": 7} | row]))
    assert PretrainedRun(training, "out").metrics() == [{"step": 7} | expected]


# Configuration and settings of generation

CONFIG, GENERATION = "config.json", "generation_config.json"
FAMILY = r"model_type .* cannot be opened: it is no encoder-decoder .*; expected one of marian"
NOT_OF_TEXTS = "cannot be opened: it is an encoder-decoder, but not of text into text; expected one"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((CONFIG, {"model_type": kind}, FAMILY) for kind in ("llama", None, ["t5"])),
        (CONFIG, {"model_type": "detr"}, NOT_OF_TEXTS),
        (CONFIG, {"model_type": "rag"}, "cannot be opened: it writes from documents"),
        (CONFIG, {"model_type": "whisper"}, "an encoder-decoder, but its source is no text"),
        *(
            (
                CONFIG,
                {"model_type": "encoder-decoder", "encoder": encoder, "decoder": decoder},
                told,
            )
            for encoder, decoder, told in (
                ({"model_type": "vit"}, {}, "encoder: model_type 'vit' cannot be opened; expected"),
                (None, {}, "encoder: model_type None cannot be opened; expected one of bert"),
                ({"model_type": "bert"}, {"model_type": ["t5"]}, "decoder: model_type .* cannot"),
                ({"model_type": "bert"}, {"model_type": "bert"}, "add_cross_attention: expected"),
            )
        ),
        (CONFIG, {"quantization_config": {"load_in_8bit": True}}, "the weights are quantised"),
        (CONFIG, "{", r"not JSON .*restore the file"),
        (CONFIG, "[1]", "expected an object, got list"),
        (CONFIG, {"num_layers": 10**9}, "num_layers: expected at most 1,000"),
        (CONFIG, {"num_layers": -1}, "num_layers: expected at least 1, got -1"),
        *(
            (CONFIG, {name: size}, f"{name}: expected at least 1, got {size}")
            for name in ("n_positions", "relative_attention_max_distance", "decoder_heads")
            for size in (-1, 0)
        ),
        (CONFIG, {"d_model": 10**12}, "d_model: expected at most 10,000,000"),
        (CONFIG, {"d_ff": 0.5}, ""),
        (CONFIG, {"max_position_embeddings": 10**7}, "expected at most 200,000"),
        (CONFIG, {"decoder_start_token_id": 10**6}, ""),
        (CONFIG, {"decoder_start_token_id": None}, 'None; add .* "decoder_start_token_id": 1'),
        (CONFIG, {"eos_token_id": []}, ""),
        (CONFIG, {"dense_act_fn": "magic"}, ""),
        (GENERATION, "{", ""),
        (GENERATION, '{"bad_words_ids": 7}', ""),
    ],
    ids=lambda value: str(value)[:40].encode(errors="replace").decode(),
)
def test_what_cannot_be_a_configuration_is_refused(
    folder: Path, name: str, content: str | dict[str, Any], message: str
) -> None:
    if name == CONFIG:
        (folder / GENERATION).unlink()
    if isinstance(content, str):
        (folder / name).write_bytes(content.encode(errors="surrogatepass"))
    else:
        change_json(folder / name, **content)
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{message}"):
        _ = PretrainedRun(folder, "t5").description
    if name == CONFIG and message:  # not of the weights, which are whole
        with pytest.raises(CheckpointError, match=rf"^[^ ]*config\.json: .*{message}"):
            PretrainedRun(folder, "t5").load(0)


def test_settings_that_our_decoding_does_not_follow_are_listed(folder: Path) -> None:
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == {}
    wanted = {"no_repeat_ngram_size": 3, "min_length": 4, "forced_eos_token_id": 1}
    wanted |= {"repetition_penalty": 1.2, "num_beams": 4, "length_penalty": 2.0, "max_length": 9}
    wanted |= {"max_new_tokens": 7, "do_sample": True, "temperature": 0.7, "top_k": 10}
    wanted |= {"guidance_scale": 1.5, "early_stopping": True}
    nothing = {"encoder_no_repeat_ngram_size": 0, "bad_words_ids": [[5], [6, 7]]}
    nothing |= {"num_beam_groups": 1, "min_new_tokens": 0, "top_p": 1.0, "use_cache": True}
    change_json(folder / GENERATION, **wanted, **nothing, eos_token_id=[1, 9])
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == wanted | {"bad_words_ids": [[6, 7]]}
    assert run.load(0).model.special_ids.never_generated == (5,)
    # Older models have them in their configuration.
    (folder / GENERATION).unlink()
    change_json(folder / CONFIG, min_length=4, bad_words_ids=[[5]])
    run = PretrainedRun(folder, "t5")
    assert run.ignored_settings == {"min_length": 4}
    assert run.load(0).model.special_ids.never_generated == (5,)


def test_warnings_advice_and_bars_are_kept_away_and_come_back() -> None:
    before = logging.get_verbosity()
    for enabled in (False, True):  # bars that were off stay off
        (logging.enable_progress_bar if enabled else logging.disable_progress_bar)()
        with quiet():
            warnings.warn("advice", stacklevel=1)  # an error in these tests, if it were not kept
            assert logging.get_verbosity() == logging.ERROR
            assert not logging.is_progress_bar_enabled()
        with pytest.raises(RuntimeError, match="as ever"), quiet():
            raise RuntimeError("as ever")
        assert logging.get_verbosity() == before
        assert logging.is_progress_bar_enabled() == enabled


# Every file of a tokenizer × every kind of damage: the message names the file

FILES = [
    *(("marian_separate", name) for name in ("config.json", "tokenizer_config.json")),
    *(("marian_separate", name) for name in ("vocab.json", "target_vocab.json")),
    *(("marian_separate", name) for name in ("source.spm", "target.spm")),
    *(("m2m_100", name) for name in ("vocab.json", "sentencepiece.bpe.model")),
    ("t5", "tokenizer.json"),
    ("bart", "tokenizer.json"),
    ("bart", "tokenizer_config.json"),
]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda _: b"\xff\xfe{}",
    "null": lambda _: b"null",
    "a list": lambda _: b"[1, 2]",
    "a number": lambda _: b"7",
    "nested": lambda _: b"[" * 100_000,
}
SETTINGS = {
    "extra_special_tokens": 3,
    "additional_special_tokens": {"a": 1},
    "added_tokens_decoder": {"x": {"content": "a"}},
    "unk_token": 5,
    "eos_token": ["</s>"],
    "model_max_length": "many",
    "separate_vocabs": "yes",
    "tokenizer_class": {"a": 1},
}
IDS: dict[str, object] = {
    "no tokens": {},
    "negative": {"a": -1},
    "twice": {"a": 1, "b": 1},
    "text": {"a": "1"},
    "huge": {"a": 10**12},
}


def refused(folder: Path, file: str) -> str:
    """Return the message with which a folder's tokenizer is refused; it names only this file."""
    with pytest.raises(CheckpointError) as error:
        load_tokenizer(folder, 1_000)
    message = str(error.value)
    assert message.startswith(f"{folder / file}: ")
    return message.removeprefix(f"{folder / file}: ")


@pytest.mark.parametrize(("model", "file"), FILES)
def test_a_damaged_file_is_named(
    make_folder: MakeFolder, tmp_path: Path, model: str, file: str
) -> None:
    folder = shutil.copytree(make_folder(model), tmp_path / model)
    content = (folder / file).read_bytes()
    for name, damage in DAMAGE.items():
        if file.endswith((".spm", ".model")) and name == "cut off":
            continue  # a part of a model of SentencePiece can be one
        (folder / file).write_bytes(damage(content))
        assert re.search("expected|not |No |EOF|Invalid", refused(folder, file)), name
    (folder / file).write_bytes(content)
    load_tokenizer(folder, 1_000)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_separators_are_tokens_of_a_vocabulary(tmp_path: Path, end: str) -> None:
    special, words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["the", "x\x85y", "a", "b"]
    lines = [*special, "\u2028", "\x85", *words]  # of both, the library makes the empty token
    (tmp_path / "vocab.txt").write_bytes("".join(f"{line}{end}" for line in lines).encode())
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    found = load_tokenizer(tmp_path, 1_000)
    assert found.encode("the a b", add_special_tokens=False) == [7, 9, 10]
    vocabulary = PretrainedVocabulary(
        found, threading.Lock(), languages={}, is_target=False, size=len(lines)
    )
    assert vocabulary.tokens(range(7, 11)) == [f" {word}" for word in words]
    with (tmp_path / "vocab.txt").open("a") as file:
        file.write("the\n")
    assert "a token in each line, got some twice" in refused(tmp_path, "vocab.txt")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_another_type_is_named(
    make_folder: MakeFolder, tmp_path: Path, setting: str
) -> None:
    folder = shutil.copytree(make_folder("marian"), tmp_path / "marian")
    change_json(folder / "tokenizer_config.json", **{setting: SETTINGS[setting]})
    assert refused(folder, "tokenizer_config.json").startswith(setting)


@pytest.mark.parametrize("ids", IDS)
def test_ids_that_cannot_be_are_named(make_folder: MakeFolder, tmp_path: Path, ids: str) -> None:
    folder = shutil.copytree(make_folder("m2m_100"), tmp_path / "m2m")
    (folder / "vocab.json").write_text(json.dumps(IDS[ids]))
    assert "expected" in refused(folder, "vocab.json")


def test_a_pattern_that_is_tried_in_too_many_ways_is_refused_with_the_text() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+b"), "isolated")
    with pytest.raises(ValueError, match=r"gave up on this text .*retry-limit"), panics_as_errors():
        tokenizer.encode("a" * 40)
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt


def test_a_training_whose_configuration_is_broken_says_that(training: Path) -> None:
    path = training / "checkpoint-100" / "config.json"
    path.write_text("{")
    run = PretrainedRun(training, "out")
    for part in ("description", "tokenizers"):
        with pytest.raises(CheckpointError, match=re.escape(f"{path}: not JSON")):
            getattr(run, part)
