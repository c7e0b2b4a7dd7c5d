from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState

from headwise.model.checkpoint import load_weights, open_trained_run
from headwise.model.presets import PRESETS, PresetName
from headwise.model.tokenizer import Tokenizer, WordTokenizer
from headwise.model.train import main
from headwise.model.training.corpora import copy_task
from headwise.model.training.options import RAREST_TOKEN, TrainArguments, parse, preset_arguments
from headwise.model.training.schedule import learning_rate
from headwise.model.transformer import Transformer
from tests.floats import near
from tests.tiny import DATA

NAMES = list(PRESETS)

FLAGS = ["--run", "new", "--train", "a.tsv", "--valid", "b.tsv"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("separator", [" ", "="])
def test_a_preset_is_chosen_by_name(name: PresetName, separator: str) -> None:
    chosen = parse([*FLAGS, *f"--preset{separator}{name}".split()])
    begun = preset_arguments(name)
    assert chosen == replace(begun, run="new", train="a.tsv", valid="b.tsv")
    assert name != "default" or chosen == parse(FLAGS)
    preset = PRESETS[name]
    assert (chosen.preset, chosen.model, chosen.training) == (name, preset.model, preset.training)
    assert (chosen.tokenizer, chosen.max_pairs) == (preset.tokenizer, preset.max_pairs)
    assert (chosen.source, chosen.target) == preset.languages


def test_options_change_a_part_of_a_preset() -> None:
    flags = (
        "--model.d-ff 61 --preset books-small --training.steps 7 --training.batch-pairs None"
        " --training.milestones 1 3 --training.betas 0.5 0.6 --max-pairs None --target fr"
        " --tokenizer bpe --model.d-k 16 --columns English French"
    )
    begun = parse([*FLAGS, "--preset", "books-small"])
    assert parse([*FLAGS, *flags.split()]) == replace(
        begun,
        target="fr",
        tokenizer="bpe",
        max_pairs=None,
        columns=("English", "French"),
        model=replace(begun.model, d_ff=61, d_k=16),
        training=replace(
            begun.training, steps=7, batch_pairs=None, milestones=(1, 3), betas=(0.5, 0.6)
        ),
    )


@pytest.mark.parametrize(
    ("flags", "messages"),
    [
        ([*FLAGS, "--preset", "nope"], ["'nope'", "--preset", *NAMES]),
        ([*FLAGS, "--preset"], ["--preset: expected one argument"]),
        (["--run", "new", "--preset", "books-small"], ["--train"]),
        (["--preset", "copy"], ["--run"]),
        ([*FLAGS, "--max-pairs", "0"], ["expected at least 1, got 0"]),
        ([*FLAGS, "--rarest-token", "-1"], ["expected 0 or more, got -1"]),
        (
            [*FLAGS, "--tokenizer", "word", "--training.bpe-dropout", "0.1"],
            ["--tokenizer word, whose tokens are not merged"],
        ),
    ],
)
def test_parse_reports_bad_options(
    flags: list[str], messages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(flags)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(message in said for message in messages), said


def test_the_copy_task_needs_no_data() -> None:
    chosen = parse(["--preset", "copy", "--run", "new"])
    assert (chosen.train, chosen.valid) == ("copy", "copy")


@pytest.mark.parametrize(
    "option",
    [
        "--model.source-vocab-size=8000",
        "--model.target-vocab-size 8000",
        "--model.source_vocab_size 8000",
    ],
)
def test_a_given_vocabulary_size_is_taken_as_it_is(option: str) -> None:
    assert parse(FLAGS).rarest_token == RAREST_TOKEN
    assert parse([*FLAGS, *option.split()]).rarest_token == 0
    assert parse([*FLAGS, *option.split(), "--rarest-token", "5"]).rarest_token == 5


# Presets

PARAMETERS: dict[PresetName, int] = {
    "default": 4_651_776,
    "paper-base": 63_045_632,
    "pre-norm": 48_199_680,
    "books-small": 5_238_544,
    "free-key-dim": 4_201_728,
    "copy": 117_312,
}
"""Computed by hand from D, d_k, d_ff, layers, vocabularies, biases and ties of each source."""

PARTICULAR: dict[PresetName, dict[str, Any]] = {
    "default": {"norm": "pre"},
    "paper-base": {"n_heads": 8, "norm": "post", "dropout": 0.1, "scale_embeddings": True},
    "pre-norm": {"n_heads": 8, "norm": "pre", "dropout": 0.1, "hidden_dropout": 0.1},
    "books-small": {"n_heads": 4, "norm": "post", "dropout": 0.0},
    "free-key-dim": {"n_heads": 4, "head_width": 32, "norm": "pre"},
    "copy": {"n_heads": 2},
}
"""What the number of parameters does not tell."""


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_model_of_its_source(name: PresetName) -> None:
    preset = PRESETS[name]
    with torch.device("meta"):
        model = Transformer(preset.model)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    found = {key: getattr(preset.model, key) for key in PARTICULAR[name]}
    assert found == PARTICULAR[name]
    milestones = preset.training.milestones  # none lies behind the end
    assert preset.training.all_milestones == (*milestones, preset.training.steps)


@pytest.mark.parametrize("step", [1, 1_000, 4_000, 16_000, 100_000])
def test_the_rate_of_the_base_model_is_that_of_equation_3(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4_000**-1.5)
    assert learning_rate(step, PRESETS["paper-base"].training) == near(expected)


def test_the_copy_task_fills_its_vocabulary() -> None:
    """Seven symbols and four special tokens: the eleven of the preset."""
    learned = WordTokenizer.train(copy_task("train"), 1_000).vocab_size
    assert learned == PRESETS["copy"].model.source_vocab_size


# Training


def arguments(name: PresetName, root: Path) -> TrainArguments:
    """Return arguments that train a preset for one step; large models are made narrow."""
    begun = preset_arguments(name)
    own = begun.preset == "copy"
    large = begun.model.d_model == 512
    return replace(
        begun,
        run="one-step",
        train="copy" if own else str(DATA / "train.jsonl"),
        valid="copy" if own else str(DATA / "valid.jsonl"),
        source="en",
        target="es",
        max_pairs=17 if begun.max_pairs or own else None,
        checkpoints=root,
        model=replace(begun.model, n_decoder_layers=2, d_model=64, d_ff=61)
        if large
        else begun.model,
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
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_trains_and_is_rebuilt_from_its_files(name: PresetName, tmp_path: Path) -> None:
    wanted = arguments(name, tmp_path)
    main(wanted)

    run = open_trained_run("one-step", root=tmp_path)
    info, tokenizers = run.info, run.tokenizers
    of = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    assert info.training == wanted.training
    assert info.model == replace(wanted.model, source_vocab_size=of[0], target_vocab_size=of[1])
    assert tokenizers.shared == (wanted.model.tied == "all")
    kind = WordTokenizer if name in ("books-small", "copy") else Tokenizer
    assert {type(tokenizers.source), type(tokenizers.target)} == {kind}
    assert info.data.train_pairs == (wanted.max_pairs or 48)
    assert math.isfinite(run.metrics()[0]["train_loss"])
    assert run.steps() == [1]

    model = load_weights(run, 1).model
    assert model.config == info.model
    assert info.parameters == sum(parameter.numel() for parameter in model.parameters())
