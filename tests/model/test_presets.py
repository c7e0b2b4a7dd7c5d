from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.model.presets import PRESETS, PresetName
from headwise.model.tokenizer import Tokenizer, WordTokenizer
from headwise.model.train import main
from headwise.model.training.copy_task import copy_task
from headwise.model.training.options import TrainArguments, preset_arguments
from headwise.model.training.schedule import learning_rate
from headwise.model.transformer import Transformer
from tests.floats import near

NAMES = list(PRESETS)

# Parameters, term by term


def attention(d_model: int, width: int, *, bias: bool) -> int:
    """Count the parameters of the projections of an attention module."""
    return 4 * d_model * width + bias * (3 * width + d_model)


def feed_forward(d_model: int, d_ff: int) -> int:
    return (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)


def stacks(n_layers: int, attention: int, feed_forward: int, norm: int) -> int:
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return n_layers * (encoder + decoder)


PARAMETERS: dict[PresetName, tuple[int, int]] = {
    "default": (
        8_000 * 192  # one table for both embeddings and the output
        + stacks(3, attention(192, 192, bias=True), feed_forward(192, 768), 2 * 192)
        + 2 * (2 * 192),  # final norms
        4_651_776,
    ),
    "paper-base": (
        37_000 * 512
        + stacks(6, attention(512, 8 * 64, bias=False), feed_forward(512, 2_048), 2 * 512),
        63_045_632,
    ),
    "pre-norm": (
        8_000 * 512
        + stacks(6, attention(512, 8 * 64, bias=False), feed_forward(512, 2_048), 2 * 512)
        + 2 * (2 * 512),  # final norms
        48_199_680,
    ),
    "books-small": (
        2 * 10_000 * 128  # embeddings
        + (128 * 10_000 + 10_000)  # output
        + stacks(3, attention(128, 4 * 32, bias=True), feed_forward(128, 512), 2 * 128),
        5_238_544,
    ),
    "free-key-dim": (
        8_000 * 192
        + stacks(3, attention(192, 4 * 32, bias=False), feed_forward(192, 768), 2 * 192),
        4_201_728,
    ),
    "copy": (
        11 * 64
        + stacks(2, attention(64, 2 * 32, bias=False), feed_forward(64, 32), 2 * 64)
        + 2 * (2 * 64),  # final norms
        117_312,
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_those_of_the_formula(name: PresetName) -> None:
    with torch.device("meta"):
        model = Transformer(PRESETS[name].model)
    terms, total = PARAMETERS[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == terms == total


# What is particular

MODELS: dict[PresetName, dict[str, Any]] = {
    "default": {"norm": "pre", "final_norm": True, "tied": "all", "hidden_dropout": 0.0},
    "paper-base": {
        "n_encoder_layers": 6, "n_decoder_layers": 6, "n_heads": 8, "d_model": 512,
        "d_ff": 2_048, "head_width": 64,
        "norm": "post", "final_norm": False, "tied": "all", "scale_embeddings": True,
        "dropout": 0.1, "hidden_dropout": 0.0, "attention_bias": False, "output_bias": False,
        "source_vocab_size": 37_000, "target_vocab_size": 37_000,
    },
    "pre-norm": {
        "n_encoder_layers": 6, "n_decoder_layers": 6, "n_heads": 8, "d_model": 512,
        "d_ff": 2_048, "norm": "pre",
        "final_norm": True, "dropout": 0.1, "hidden_dropout": 0.1,
    },
    "books-small": {
        "n_encoder_layers": 3, "n_decoder_layers": 3, "n_heads": 4, "d_model": 128,
        "d_ff": 512, "head_width": 32,
        "norm": "post", "final_norm": False, "tied": "none", "dropout": 0.0,
        "hidden_dropout": 0.0, "attention_bias": True, "output_bias": True,
        "source_vocab_size": 10_000, "target_vocab_size": 10_000,
    },
    "free-key-dim": {
        "d_model": 192, "n_heads": 4, "head_width": 32, "norm": "pre", "final_norm": False,
        "attention_bias": False,
    },
    "copy": {
        "n_encoder_layers": 2, "n_decoder_layers": 2, "n_heads": 2, "d_model": 64,
        "source_vocab_size": 11,
        "target_vocab_size": 11,
    },
}  # fmt: skip

TRAININGS: dict[PresetName, dict[str, Any]] = {
    "paper-base": {
        "schedule": "noam", "warmup_steps": 4_000, "steps": 100_000, "batch_tokens": 25_000,
        "betas": (0.9, 0.98), "label_smoothing": 0.1,
    },
    "books-small": {
        "schedule": "constant", "learning_rate": 3e-4, "warmup_steps": 0, "steps": 20_000,
        "batch_pairs": 64, "betas": (0.9, 0.999), "label_smoothing": 0.0, "clip_norm": 0.0,
        "weight_decay": 0.0, "max_tokens": 32, "accumulate": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_has_the_settings_of_its_source(name: PresetName) -> None:
    preset = PRESETS[name]
    model = {key: getattr(preset.model, key) for key in MODELS[name]}
    values = {key: getattr(preset.training, key) for key in TRAININGS.get(name, {})}
    assert model == MODELS[name]
    assert values == TRAININGS.get(name, {})


@pytest.mark.parametrize("step", [1, 1_000, 4_000, 16_000, 100_000])
def test_the_rate_of_the_base_model_is_that_of_equation_3(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4_000**-1.5)
    rate = learning_rate(step, PRESETS["paper-base"].training)
    assert rate == near(expected)


@pytest.mark.parametrize(
    ("name", "tokenizer", "max_pairs", "languages", "corpus"),
    [
        ("default", "bpe", None, ("en", "es"), None),
        ("paper-base", "bpe", None, ("en", "de"), None),
        ("pre-norm", "bpe", None, ("de", "en"), None),
        ("books-small", "word", 10_000, ("en", "es"), None),
        ("free-key-dim", "bpe", None, ("en", "es"), None),
        ("copy", "word", None, ("symbols", "copy"), "copy"),
    ],
)
def test_a_preset_says_how_its_data_are_read(
    name: PresetName,
    tokenizer: str,
    max_pairs: int | None,
    languages: tuple[str, str],
    corpus: str | None,
) -> None:
    preset = PRESETS[name]
    assert (preset.tokenizer, preset.max_pairs) == (tokenizer, max_pairs)
    assert (preset.languages, preset.corpus) == (languages, corpus)


@pytest.mark.parametrize("name", NAMES)
def test_milestones_lie_within_the_training(name: PresetName) -> None:
    config = PRESETS[name].training
    assert config.all_milestones == (*config.milestones, config.steps)


# Training


def arguments(name: PresetName, root: Path, data_folder: Path) -> TrainArguments:
    """Return arguments that train a preset for one step; large models are cut to one layer."""
    begun = preset_arguments(name)
    own = begun.preset == "copy"
    large = begun.model.d_model == 512
    return replace(
        begun,
        run="one-step",
        train="copy" if own else str(data_folder / "train.jsonl"),
        valid="copy" if own else str(data_folder / "valid.jsonl"),
        source="en",
        target="es",
        max_pairs=17 if begun.max_pairs or own else None,
        checkpoints=root,
        model=replace(begun.model, n_decoder_layers=2, d_ff=61) if large else begun.model,
        training=replace(
            begun.training,
            steps=1,
            milestones=(),
            batch_tokens=97,
            batch_pairs=begun.training.batch_pairs and 5,
            log_every=1,
        ),
    )


@pytest.fixture
def any_precision() -> Iterator[None]:
    """Let a training differ in precision from those before and after it in this process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("any_precision")
@pytest.mark.parametrize("name", NAMES)
def test_a_preset_trains_and_is_rebuilt_from_what_it_wrote(
    name: PresetName, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, torch.Tensor] = {}

    def save(folder: Path, model: Transformer, **labels: Any) -> str:
        for key, tensor in model.state_dict().items():
            written[key] = tensor.half().float()
        return save_weights(folder, model, **labels)

    monkeypatch.setattr("headwise.model.training.loop.save_weights", save)
    wanted = arguments(name, tmp_path, data_folder)
    main(wanted)

    run = open_trained_run("one-step", root=tmp_path)
    info, tokenizers = run.info, run.tokenizers
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    assert info.training == wanted.training
    assert info.model == replace(
        wanted.model, source_vocab_size=sizes[0], target_vocab_size=sizes[1]
    )
    assert tokenizers.shared == (wanted.model.tied == "all")
    kind = WordTokenizer if PRESETS[name].tokenizer == "word" else Tokenizer
    assert {type(tokenizers.source), type(tokenizers.target)} == {kind}
    assert info.data.train_pairs == (wanted.max_pairs or 48)
    assert math.isfinite(run.metrics()[0]["train_loss"])
    assert run.steps() == [1]

    model = load_weights(run, 1).model
    assert model.config == info.model
    assert info.parameters == sum(parameter.numel() for parameter in model.parameters())
    again = model.state_dict()
    assert again.keys() == written.keys() == Transformer(info.model).state_dict().keys()
    assert all(torch.equal(again[key], written[key]) for key in written)


def test_the_copy_task_fills_its_vocabulary() -> None:
    """Seven symbols and four special tokens: the eleven of the preset."""
    learned = WordTokenizer.train(copy_task("train"), 1_000).vocab_size
    assert learned == PRESETS["copy"].model.source_vocab_size
