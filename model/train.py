"""Train a transformer: python -m model.train --help."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from accelerate import PartialState

from model.checkpoint import (
    CHECKPOINTS,
    CheckpointError,
    Run,
    create_run,
    open_run,
    steps_of,
    tokenizer_sha256,
    write_info,
)
from model.config import TrainingConfig, TransformerConfig
from model.corpora import Corpus, DataError, load_corpus
from model.data import Examples, Sample, encode_pairs, first_distinct, load_samples
from model.files import only_writer
from model.presets import PRESETS, PresetName
from model.resume import latest_resume_step
from model.run_info import Counts, DataSource, RunInfo
from model.schedule import learning_rate
from model.tokenizer import TokenizerKind, TokenizerPair
from model.training import DivergenceError, Training
from model.transformer import Transformer


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
    """Train on so many pairs only, the first with distinct sources."""
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


def _training_pairs(arguments: Arguments) -> Corpus:
    corpus = load_corpus(
        arguments.train,
        source=arguments.source,
        target=arguments.target,
        columns=arguments.columns,
    )
    if arguments.max_pairs is None:
        return corpus
    longest = arguments.training.max_pieces
    pairs = first_distinct(corpus.pairs, arguments.max_pairs, max_pieces=longest)
    return dataclasses.replace(corpus, pairs=pairs)


def _count(rows: Sequence[Sequence[int]], size: int) -> list[int]:
    counter = Counter(id for row in rows for id in row)
    return [counter[id] for id in range(size)]


def _encode(
    corpus: Corpus, tokenizers: TokenizerPair, model: TransformerConfig, training: TrainingConfig
) -> Examples:
    longest = min(training.max_pieces, model.max_length)
    return encode_pairs(corpus.pairs, tokenizers, max_pieces=longest)


def _new_run(arguments: Arguments, corpus: Corpus, valid: Corpus) -> tuple[Run, Examples]:
    tokenizers = TokenizerPair.train(
        corpus.pairs,
        kind=arguments.tokenizer,
        vocab_sizes=(arguments.model.source_vocab_size, arguments.model.target_vocab_size),
        shared=arguments.model.tied == "all",
    )
    model = dataclasses.replace(
        arguments.model,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
    )
    examples = _encode(corpus, tokenizers, model, arguments.training)
    info = RunInfo(
        name=arguments.run,
        source_language=arguments.source,
        target_language=arguments.target,
        model=model,
        training=arguments.training,
        data=DataSource(
            name=arguments.data_name or corpus.name,
            licence=arguments.licence,
            attribution=arguments.attribution,
            train_file=corpus.name,
            train_sha256=corpus.sha256,
            train_pairs=len(examples.sources),
            valid_file=valid.name,
            valid_sha256=valid.sha256,
            longest_source=max(map(len, examples.sources)),
        ),
        parameters=sum(parameter.numel() for parameter in Transformer(model).parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = Counts(
        source=_count(examples.sources, model.source_vocab_size),
        target=_count(examples.targets, model.target_vocab_size),
    )
    create_run(arguments.checkpoints / arguments.run, info, tokenizers, counts)
    return open_run(arguments.run, root=arguments.checkpoints), examples


def _resumed_run(arguments: Arguments, corpus: Corpus, valid: Corpus) -> tuple[Run, Examples]:
    run = open_run(arguments.run, root=arguments.checkpoints)
    _refuse_changes(run, arguments, corpus, valid)
    if arguments.training != run.info.training:
        wanted = _changed_end(run, arguments.training, latest_resume_step(run.folder) or 0)
        info = dataclasses.replace(run.info, training=wanted)
        write_info(run.folder, info)
        run = dataclasses.replace(run, info=info)
    examples = _encode(corpus, run.tokenizers, run.info.model, run.info.training)
    if len(examples.sources) != run.info.data.train_pairs:
        raise CheckpointError(
            f"{run.folder}: expected the {run.info.data.train_pairs:,} pairs that the run began "
            f"with, got {len(examples.sources):,}; give the same --max-pairs"
        )
    return run, examples


def _refuse_changes(run: Run, arguments: Arguments, corpus: Corpus, valid: Corpus) -> None:
    """Data, languages and model of a resumed training are those that it began with."""
    info = run.info
    model = dataclasses.replace(  # the sizes asked for were only the most there could be
        arguments.model,
        source_vocab_size=info.model.source_vocab_size,
        target_vocab_size=info.model.target_vocab_size,
    )
    for name, given, begun in (
        ("training data", corpus.sha256, info.data.train_sha256),
        ("validation data", valid.sha256, info.data.valid_sha256),
        ("source language", arguments.source, info.source_language),
        ("target language", arguments.target, info.target_language),
        ("tokenizer", arguments.tokenizer, run.tokenizers.source.kind),
        ("model", model, info.model),
    ):
        if given != begun:
            raise CheckpointError(
                f"{run.folder}: the {name} is not that which the run began with: expected {begun}, "
                f"got {given}"
            )


def _changed_end(run: Run, wanted: TrainingConfig, step: int) -> TrainingConfig:
    """The wanted training, if up to ``step`` it is the one that was run."""
    old = run.info.training
    free = {"steps", "decay_steps", "milestones", "log_every", "resume_every"}
    fixed = [
        name
        for name in vars(old)
        if name not in free and getattr(old, name) != getattr(wanted, name)
    ]
    if fixed:
        raise CheckpointError(
            f"{run.folder}: a resumed training keeps its {', '.join(fixed)}; "
            f"give {', '.join(f'{name} {getattr(old, name)}' for name in fixed)}"
        )
    same_past = all(
        learning_rate(s, old) == learning_rate(s, wanted) for s in range(1, step + 1)
    ) and {s for s in old.all_milestones if s <= step} == {
        s for s in wanted.all_milestones if s <= step
    }
    if not same_past or wanted.steps < step:
        raise CheckpointError(
            f"{run.folder}: step {step:,} is behind it already, and the changed steps, decay or "
            "milestones would have made that part differ; leave them as they were"
        )
    return wanted


def main(arguments: Arguments) -> None:
    """Train as the arguments say."""
    if Path(arguments.run).name != arguments.run or arguments.run in ("", ".", ".."):
        raise ValueError(f"run: expected a plain folder name, got {arguments.run!r}")
    corpus = _training_pairs(arguments)
    valid = load_corpus(
        arguments.valid,
        source=arguments.source,
        target=arguments.target,
        split="validation",
        columns=arguments.columns,
    )
    samples = (
        load_samples(arguments.samples)
        if arguments.samples is not None
        else [Sample(pair.source, pair.target) for pair in valid.pairs[:12]]
    )
    folder, process = arguments.checkpoints / arguments.run, PartialState()
    with only_writer(folder) if process.is_main_process else nullcontext():
        with process.main_process_first():  # it makes the run; others only open it
            there = (folder / "run.json").exists()
            begun = latest_resume_step(folder) is not None or bool(steps_of(folder))
            old = there and (arguments.resume or not process.is_main_process)
            run, examples = (_resumed_run if old else _new_run)(arguments, corpus, valid)
        print(examples.report, file=sys.stderr)
        training = Training(
            run,
            train=examples,
            valid=valid.pairs,
            samples=samples,
            tensorboard=arguments.tensorboard,
        )
        try:
            for step in training(resume=arguments.resume and begun):
                print(f"milestone {step:,}: {run.metrics()[-1]}", file=sys.stderr)
        except KeyboardInterrupt:
            sys.exit("\nstopped; the state is saved: go on with the same command and --resume")


if __name__ == "__main__":
    try:
        main(parse(sys.argv[1:]))
    except (CheckpointError, DataError, DivergenceError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
