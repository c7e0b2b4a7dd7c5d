"""Prepare a training: read its data, and create its run or open the run to resume."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwise.model.checkpoint import (
    CheckpointError,
    TrainedRun,
    create_run,
    open_trained_run,
    tokenizer_sha256,
    write_info,
)
from headwise.model.config import TrainingConfig, TransformerConfig, to_dict
from headwise.model.files import write_bytes
from headwise.model.run_info import Counts, DataSource, RunInfo
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.batches import Encoded
from headwise.model.training.corpora import Corpus, load_corpus
from headwise.model.training.data import (
    DataError,
    Examples,
    Pair,
    Sample,
    encode_pairs,
    first_distinct,
    load_samples,
    without_texts,
)
from headwise.model.training.evaluation import bleu_note
from headwise.model.training.held_back import hold_back, to_lines
from headwise.model.training.options import TrainArguments
from headwise.model.training.resume import latest_resume_step
from headwise.model.training.schedule import learning_rate
from headwise.model.training.train_sample import draw_train_sample
from headwise.model.training.vocabulary import describe_vocabulary
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class Data:
    """The data that a training has read: both corpora and, if given, the samples."""

    train: Corpus
    valid: Corpus
    samples: list[Sample] | None
    held_back: bool = False
    """Whether the validation data are a part of what was given as training data."""
    left_out: int = 0
    """Number of pairs that were left out because they are among data that must not be seen."""


def load_data(arguments: TrainArguments) -> Data:
    """Read all files and data sets of a training.

    Raises:
        DataError: if one cannot be read; the message names it.
    """
    read = partial(
        load_corpus, source=arguments.source, target=arguments.target, columns=arguments.columns
    )
    valid = read(arguments.valid, split="validation") if arguments.valid is not None else None
    samples = load_samples(arguments.samples) if arguments.samples is not None else None
    train, held_back = read(arguments.train), valid is None
    if valid is None:
        languages = arguments.source, arguments.target
        train, valid = hold_back(train, languages=languages, seed=arguments.training.seed)
    read_pairs = len(train.pairs)
    train = leave_out(train, arguments.leave_out, read)
    left_out = read_pairs - len(train.pairs)
    train = first_pairs(train, arguments.max_pairs, max_tokens=arguments.training.max_tokens)
    return Data(train, valid, samples, held_back, left_out)


@dataclass(frozen=True)
class Prepared:
    """A prepared training: its run on disk, training examples, validation pairs and samples."""

    run: TrainedRun
    examples: Examples
    valid: list[Pair]
    samples: list[Sample]
    notes: list[str]
    """What the person should know of the data and of what was chosen for them."""


def prepare(arguments: TrainArguments, data: Data, *, resume: bool) -> Prepared:
    """Create a new run, or open the run to resume.

    Raises:
        CheckpointError: if a new run exists already, or the one to resume differs from the
            arguments.
        DataError: if no training pair or no validation pair can be used, or a sample is too long.
        ValueError: if a vocabulary size is too small.
    """
    run, examples, samples = (_resumed_run if resume else _new_run)(arguments, data)
    notes = []
    if arguments.leave_out:
        notes.append(
            f"{data.left_out:,} training pairs are left out: a text of them is in "
            f"{', '.join(arguments.leave_out)}"
        )
    notes.append(examples.report)
    if examples.too_long:
        longest = min(arguments.training.max_tokens, run.info.model.max_length)
        notes.append(f"too long: over {longest:,} tokens, see --training.max-tokens")
    if data.held_back:
        held = f"{len(data.valid.pairs):,} pairs are held back for validation"
        notes.append(f"{held}: {run.folder / data.valid.name}; --valid names others")
    if not resume:
        notes += describe_vocabulary(run.tokenizers, examples.pairs, rarest=arguments.rarest_token)
    if note := bleu_note(data.valid.pairs):
        notes.append(note)
    return Prepared(run, examples, data.valid.pairs, samples, notes)


def leave_out(corpus: Corpus, names: Sequence[str], read: Callable[..., Corpus]) -> Corpus:
    """Return a corpus without the pairs that have a text of other data, as ``without_texts`` does.

    Args:
        corpus: training data, which keep their name and hash.
        names: corpora; or files of samples, with the columns source and reference.
        read: reads a corpus in the languages of the training, given its name.

    Raises:
        DataError: if one of them cannot be read, or no pair is left.
    """
    unseen: list[Pair] = []
    for name in names:
        try:
            unseen += read(name, split="test").pairs
        except DataError as error:
            try:
                unseen += read(name, columns=("source", "reference")).pairs
            except DataError:
                raise error from None
    pairs = without_texts(corpus.pairs, (text for pair in unseen for text in pair))
    if not pairs:
        raise DataError(f"{corpus.name}: every pair is also in {', '.join(names)}; give other data")
    return dataclasses.replace(corpus, pairs=pairs)


def first_pairs(corpus: Corpus, count: int | None, *, max_tokens: int) -> Corpus:
    """Return a corpus with ``first_distinct`` pairs only; unchanged if ``count`` is None.

    Raises:
        DataError: if there are fewer.
    """
    if count is None:
        return corpus
    pairs = first_distinct(corpus.pairs, count, max_tokens=max_tokens)
    return dataclasses.replace(corpus, pairs=pairs)


def _count(rows: Sequence[Sequence[int]], size: int) -> list[int]:
    counter = Counter(id for row in rows for id in row)
    return [counter[id] for id in range(size)]


def _counts(examples: Examples, model: TransformerConfig) -> Counts:
    return Counts(
        source=_count(examples.sources, model.source_vocab_size),
        target=_count(examples.targets, model.target_vocab_size),
    )


def _encode(
    corpus: Corpus, tokenizers: TokenizerPair, model: TransformerConfig, training: TrainingConfig
) -> Examples:
    longest = min(training.max_tokens, model.max_length)
    try:
        return encode_pairs(corpus.pairs, tokenizers, max_tokens=longest)
    except DataError as error:
        raise DataError(
            f"{corpus.name}: {error}; --training.max-tokens is the longest allowed: {longest:,}"
        ) from error


def _samples(
    arguments: TrainArguments, data: Data, tokenizers: TokenizerPair, model: TransformerConfig
) -> list[Sample]:
    """Return the sentences to translate; refuse data that a milestone could not measure."""
    valid = encode_pairs(data.valid.pairs, tokenizers, max_tokens=model.max_length).pairs
    if data.samples is None:
        return [Sample(pair.source, pair.target) for pair in valid[:12]]
    for sample in data.samples:
        tokens = len(tokenizers.encode_source(sample.source))
        if tokens > model.max_length:
            raise DataError(
                f"{arguments.samples}: expected at most {model.max_length:,} tokens, got "
                f"{tokens:,} in {sample.source[:60]!r}; shorten it"
            )
    return data.samples


def _longest_source(examples: Examples, training: TrainingConfig, model: TransformerConfig) -> int:
    """Return the most source tokens of an example; joined pairs reach the most allowed."""
    if training.join:
        return min(training.max_tokens, model.max_length)
    return max(map(len, examples.sources))


def _learn_tokenizers(arguments: TrainArguments, corpus: Corpus) -> TokenizerPair:
    try:
        return TokenizerPair.train(
            corpus.pairs,
            kind=arguments.tokenizer,
            vocab_sizes=(arguments.model.source_vocab_size, arguments.model.target_vocab_size),
            shared=arguments.model.tied == "all",
            rarest=arguments.rarest_token if arguments.tokenizer == "bpe" else 0,
        )
    except ValueError as error:
        raise ValueError(
            f"--model.source-vocab-size and --model.target-vocab-size: {error}"
        ) from error


def _new_run(arguments: TrainArguments, data: Data) -> tuple[TrainedRun, Examples, list[Sample]]:
    corpus, valid = data.train, data.valid
    tokenizers = _learn_tokenizers(arguments, corpus)
    model = dataclasses.replace(
        arguments.model,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
    )
    examples = _encode(corpus, tokenizers, model, arguments.training)
    samples = _samples(arguments, data, tokenizers, model)
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
            longest_source=_longest_source(examples, arguments.training, model),
            held_back=len(valid.pairs) if data.held_back else 0,
            left_out=data.left_out,
        ),
        parameters=sum(parameter.numel() for parameter in Transformer(model).parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = _counts(examples, model)
    folder = arguments.checkpoints / arguments.run
    create_run(folder, info, tokenizers, counts)
    if data.held_back:
        lines = to_lines(valid.pairs, (arguments.source, arguments.target))
        write_bytes(folder / valid.name, lines)
    return open_trained_run(arguments.run, root=arguments.checkpoints), examples, samples


def _resumed_run(
    arguments: TrainArguments, data: Data
) -> tuple[TrainedRun, Examples, list[Sample]]:
    run = open_trained_run(arguments.run, root=arguments.checkpoints)
    training, source = run.info.training, run.info.data
    if training is None or source is None:
        raise CheckpointError(
            f"{run.folder}: converted from a file of weights, so that its training cannot be "
            "resumed; take another name"
        )
    _refuse_changes(run, source, arguments, data)
    if arguments.training != training:
        step = latest_resume_step(run.folder) or 0
        training = _changed_end(run.folder, training, wanted=arguments.training, step=step)
        info = dataclasses.replace(run.info, training=training)
        write_info(run.folder, info)
        run = dataclasses.replace(run, info=info)
    examples = _encode_again(run, training, data.train)
    return run, examples, _samples(arguments, data, run.tokenizers, run.info.model)


def _encode_again(run: TrainedRun, training: TrainingConfig, corpus: Corpus) -> Examples:
    """Encode training data; raise an error if they are not the pairs the run began with."""
    examples = _encode(corpus, run.tokenizers, run.info.model, training)
    if _counts(examples, run.info.model) != run.counts:
        raise CheckpointError(
            f"{run.folder}: the pairs are not those that the run began with; give the same "
            "--columns, --leave-out and --max-pairs"
        )
    return examples


def train_sample_of(
    run: TrainedRun,
    corpus: Corpus,
    *,
    left_out: Sequence[str] = (),
    max_pairs: int | None = None,
) -> Encoded:
    """Return the sample of the training pairs that the training of a run measures.

    Args:
        run: the run.
        corpus: its training data.
        left_out: names of the data whose texts its training left out.
        max_pairs: what was given to its training.

    Raises:
        CheckpointError: if the run was converted, or these are not the data that it began with.
        DataError: if there are fewer than ``max_pairs``.
    """
    training, source = run.info.training, run.info.data
    if training is None or source is None:
        raise CheckpointError(
            f"{run.folder}: converted from a file of weights, so that its training data are not "
            "known; choose a run that was trained here"
        )
    if corpus.sha256 != source.train_sha256:
        raise CheckpointError(
            f"{run.folder}: {corpus.name} is not the training data that the run began with, "
            f"{source.train_file}: expected {source.train_sha256}, got {corpus.sha256}"
        )
    if source.held_back:
        languages = run.source_language, run.target_language
        corpus, _ = hold_back(corpus, languages=languages, seed=training.seed)
    read = partial(load_corpus, source=run.source_language, target=run.target_language)
    corpus = leave_out(corpus, left_out, read)
    corpus = first_pairs(corpus, max_pairs, max_tokens=training.max_tokens)
    return draw_train_sample(_encode_again(run, training, corpus), seed=training.seed)


def _refuse_changes(
    run: TrainedRun, source: DataSource, arguments: TrainArguments, data: Data
) -> None:
    """Raise an error if data, languages, tokenizer or model are not those the run began with."""
    info = run.info
    # The vocabulary sizes in the arguments are only upper limits.
    model, begun_model = (
        {key: value for key, value in to_dict(m).items() if not key.endswith("vocab_size")}
        for m in (arguments.model, info.model)
    )
    for name, given, begun in (
        ("training data", data.train.sha256, source.train_sha256),
        ("number of pairs left out", data.left_out, source.left_out),
        ("validation data", data.valid.sha256, source.valid_sha256),
        ("source language", arguments.source, info.source_language),
        ("target language", arguments.target, info.target_language),
        ("tokenizer", arguments.tokenizer, run.tokenizers.source.kind),
        ("model", model, begun_model),
    ):
        if given != begun:
            raise CheckpointError(
                f"{run.folder}: the {name} is not that which the run began with: expected {begun}, "
                f"got {given}"
            )


def _changed_end(
    folder: Path, old: TrainingConfig, *, wanted: TrainingConfig, step: int
) -> TrainingConfig:
    """Return the wanted training; raise an error if it would change a step up to ``step``."""
    free = {"steps", "decay_steps", "milestones", "log_every", "resume_every"}
    fixed = {
        f"--training.{name.replace('_', '-')}": " ".join(map(str, value))
        if isinstance(value, tuple)
        else value
        for name, value in vars(old).items()
        if name not in free and value != getattr(wanted, name)
    }
    if fixed:
        raise CheckpointError(
            f"{folder}: a resumed training keeps its {', '.join(fixed)}; "
            f"give {' '.join(f'{option} {value}' for option, value in fixed.items())}"
        )
    same_past = all(
        learning_rate(s, old) == learning_rate(s, wanted) for s in range(1, step + 1)
    ) and {s for s in old.all_milestones if s <= step} == {
        s for s in wanted.all_milestones if s <= step
    }
    if not same_past or wanted.steps < step:
        raise CheckpointError(
            f"{folder}: step {step:,} is behind it already, and the changed steps, decay or "
            "milestones would have made that part differ; leave them as they were"
        )
    return wanted
