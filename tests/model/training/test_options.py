from __future__ import annotations

from dataclasses import replace

import pytest

from headwise.model.presets import PRESETS, PresetName
from headwise.model.training.options import RAREST_TOKEN, parse, preset_arguments

NAMES = list(PRESETS)

DATA = ["--run", "new", "--train", "a.tsv", "--valid", "b.tsv"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("separator", [" ", "="])
def test_a_preset_is_chosen_by_name(name: PresetName, separator: str) -> None:
    chosen = parse([*DATA, *f"--preset{separator}{name}".split()])
    begun = preset_arguments(name)
    assert chosen == replace(begun, run="new", train="a.tsv", valid="b.tsv")
    assert name != "default" or chosen == parse(DATA)
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
    begun = parse([*DATA, "--preset", "books-small"])
    assert parse([*DATA, *flags.split()]) == replace(
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
        ([*DATA, "--preset", "nope"], ["'nope'", "--preset", *NAMES]),
        ([*DATA, "--preset"], ["--preset: expected one argument"]),
        (["--run", "new", "--preset", "books-small"], ["--train"]),
        (["--preset", "copy"], ["--run"]),
        ([*DATA, "--max-pairs", "0"], ["expected at least 1, got 0"]),
        ([*DATA, "--rarest-token", "-1"], ["expected 0 or more, got -1"]),
        (
            [*DATA, "--tokenizer", "word", "--training.bpe-dropout", "0.1"],
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
    assert parse(DATA).rarest_token == RAREST_TOKEN
    assert parse([*DATA, *option.split()]).rarest_token == 0
    assert parse([*DATA, *option.split(), "--rarest-token", "5"]).rarest_token == 5
