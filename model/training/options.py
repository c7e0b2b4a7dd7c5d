"""The arguments of a training, for the command line and for Python."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tyro

from headwise.model.checkpoint import NEW_RUNS
from headwise.model.config import TrainingConfig, TransformerConfig
from headwise.model.presets import PRESETS, PresetName
from headwise.model.tokenizer import TokenizerKind

RAREST_TOKEN = 20
"""How often a token must occur in the training data, unless a vocabulary size is given."""


@dataclass(frozen=True)
class TrainArguments:
    """Train a translation model and keep its checkpoints in checkpoints/RUN/.

    The tokenizer is learned from the training data. Weights are written at every milestone and
    measured on the validation data; interrupt with Ctrl-C and continue with --resume.
    """

    run: str
    """Name of the run, and of its folder."""
    train: str
    """Training data: a .jsonl, .tsv, .csv or .parquet file, or a part of it as in pairs.tsv[:95%];
    or a corpus of the Hugging Face hub by its short name, opus_books or multi30k; a split may
    follow a colon, as in opus_books:train[:99%]."""
    valid: str | None = None
    """Validation data, given in the same way; a short name without a split means its validation
    split. Without it, 5% of the training pairs are held back, at most 2,000; no source is on both
    sides."""
    preset: PresetName = "default"
    """The preset, which gives the other options their default values."""
    source: str = "en"
    """Source language."""
    target: str = "es"
    """Target language."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, if they are not the languages; their numbers, such as
    1 2, if a .tsv or .csv file begins without a line of names."""
    leave_out: tuple[str, ...] = ()
    """Data that the model must not have seen, such as test data and samples: training pairs are
    left out if their source or target is in them once case, accents and punctuation are set aside.
    Files and corpora are given as for train; files of samples have source and reference."""
    max_pairs: int | None = None
    """Train on this many pairs only: the first with distinct sources whose words fit into
    training.max_tokens (byte-pair encoding may make them longer, and drop some)."""
    tokenizer: TokenizerKind = "bpe"
    """Byte-pair encoding, or lower-cased words. One vocabulary if model.tied is all, else two."""
    rarest_token: int = 0
    """Byte-pair encoding makes no token of what occurs fewer times than this in the training data,
    so that the vocabulary fits small data. As a command: 20, or 0 if a vocabulary size is given."""
    samples: Path | None = None
    """Sentences to translate at each milestone: a file of JSON lines with source, reference and
    shows; by default the first twelve of the validation data."""
    data_name: str = ""
    """Name of the data, for people."""
    licence: str = ""
    """Licence of the data."""
    attribution: str = ""
    """Whom the licence asks to name."""
    resume: bool = False
    """Continue from the last saved state, or begin if there is no run yet. Steps, decay and
    milestones may be changed if this does not affect the steps already trained."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard, which pip install -e ".[tensorboard]" installs:
    tensorboard --logdir checkpoints/RUN."""
    checkpoints: Path = NEW_RUNS
    """Folder of the runs."""
    model: TransformerConfig = field(default_factory=lambda: PRESETS["default"].model)
    """The model; its vocabulary sizes are upper limits for the tokenizer. Byte-pair encoding stays
    below them where the data are small, unless they are given as options."""
    training: TrainingConfig = field(default_factory=lambda: PRESETS["default"].training)
    """The training."""

    def __post_init__(self) -> None:
        if self.max_pairs is not None and self.max_pairs < 1:
            raise ValueError(
                f"max_pairs: expected at least 1, got {self.max_pairs}; leave it out to use all"
            )
        if self.training.bpe_dropout and self.tokenizer != "bpe":
            raise ValueError(
                f"training.bpe_dropout: expected 0 with --tokenizer {self.tokenizer}, whose tokens "
                f"are not merged, got {self.training.bpe_dropout}"
            )
        if self.rarest_token < 0:
            raise ValueError(f"rarest_token: expected 0 or more, got {self.rarest_token}")


def preset_arguments(name: PresetName) -> TrainArguments:
    """Return the arguments of a preset; those that it has no value for are ``tyro.MISSING``."""
    preset = PRESETS[name]
    return TrainArguments(
        run=tyro.MISSING,
        train=preset.corpus or tyro.MISSING,
        valid=preset.corpus,
        preset=name,
        source=preset.languages[0],
        target=preset.languages[1],
        max_pairs=preset.max_pairs,
        tokenizer=preset.tokenizer,
        rarest_token=RAREST_TOKEN,
        model=preset.model,
        training=preset.training,
    )


def parse(arguments: Sequence[str]) -> TrainArguments:
    """Parse a command line; its options override the values of the preset."""
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--preset", default="default")
    for option in ("--model.source-vocab-size", "--model.target-vocab-size"):
        chooser.add_argument(option, option.replace("-", "_").replace("__", "--"), dest="size")
    given = chooser.parse_known_args(arguments)[0]
    # tyro reports an unknown preset.
    preset: PresetName = next((name for name in PRESETS if name == given.preset), "default")
    default = preset_arguments(preset)
    if given.size is not None:
        default = replace(default, rarest_token=0)
    return tyro.cli(
        TrainArguments, prog="python -m headwise.model.train", args=arguments, default=default
    )
