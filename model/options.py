"""What a training can be told, on the command line or from Python."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from model.checkpoint import CHECKPOINTS
from model.config import TrainingConfig, TransformerConfig
from model.presets import PRESETS, PresetName
from model.tokenizer import TokenizerKind


@dataclass(frozen=True)
class Arguments:
    """Train a translation model and keep its checkpoints in checkpoints/RUN/.

    The tokenizer is learned from the training data. Weights are written at every milestone and
    measured on the validation data; interrupt with Ctrl-C and go on with --resume.
    """

    run: str
    """Name of the run, and of its folder."""
    train: str
    """Training data: a .jsonl, .tsv, .csv or .parquet file; or a corpus of the Hugging Face hub by
    its short name, opus_books or multi30k; a split may follow a colon, as in
    opus_books:train[:99%]."""
    valid: str
    """Validation data, likewise; a name alone takes the validation split."""
    preset: PresetName = "default"
    """What the training begins from; each option below changes a part of it."""
    source: str = "en"
    """Source language."""
    target: str = "es"
    """Target language."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""
    max_pairs: int | None = None
    """Train on so many pairs only, the first with distinct sources that are not too long by words
    (byte-pair encoding may make them longer, and drop some)."""
    tokenizer: TokenizerKind = "bpe"
    """Byte-pair encoding, or lower-cased words. One vocabulary if model.tied is all, else two."""
    samples: Path | None = None
    """Sentences translated at each milestone: JSON lines with source, reference and shows. Without
    it, the first twelve of the validation data."""
    data_name: str = ""
    """Name of the data, for people."""
    licence: str = ""
    """Licence of the data."""
    attribution: str = ""
    """Whom the licence asks to name."""
    resume: bool = False
    """Go on from the last saved state, or begin if there is no run yet. Steps, decay and milestones
    may be changed if what was trained so far stays what it was."""
    tensorboard: bool = False
    """Write the figures for TensorBoard too: tensorboard --logdir checkpoints/RUN."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""
    model: TransformerConfig = field(default_factory=lambda: PRESETS["default"].model)
    """The model; its vocabulary sizes are those that the tokenizer may grow to."""
    training: TrainingConfig = field(default_factory=lambda: PRESETS["default"].training)
    """The training."""


def preset_arguments(name: PresetName) -> Arguments:
    """The arguments that a preset stands for; those it cannot know are missing."""
    preset = PRESETS[name]
    return Arguments(
        run=tyro.MISSING,
        train=preset.corpus or tyro.MISSING,
        valid=preset.corpus or tyro.MISSING,
        preset=name,
        source=preset.languages[0],
        target=preset.languages[1],
        max_pairs=preset.max_pairs,
        tokenizer=preset.tokenizer,
        model=preset.model,
        training=preset.training,
    )


def parse(arguments: Sequence[str]) -> Arguments:
    """Command line → arguments: those of the preset, changed by the options given."""
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--preset", default="default")
    given = chooser.parse_known_args(arguments)[0].preset
    # Of an unknown one, tyro says what is wrong.
    preset: PresetName = next((name for name in PRESETS if name == given), "default")
    return tyro.cli(Arguments, args=arguments, default=preset_arguments(preset))
