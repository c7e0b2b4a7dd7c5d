"""Prepare a training: read its data, and create its run or open the run to resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from headwise.model.checkpoint import (
    CheckpointError,
    TrainedRun,
    create_run,
    open_trained_run,
    tokenizer_sha256,
    write_info,
)
from headwise.model.config import Counts, DataSource, RunInfo, TrainingConfig, TransformerConfig
from headwise.model.files import write_bytes
from headwise.model.tokenizer import Tokenizer, TokenizerPair, split_words
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import (
    Corpus,
    Data,
    DataError,
    Encoded,
    Examples,
    Pair,
    Sample,
    draw_train_sample,
    encode_pairs,
    first_distinct,
    hold_back,
    leave_out,
    load_samples,
    to_lines,
)
from headwise.model.training.evaluation import bleu_note
from headwise.model.training.options import TrainArguments
from headwise.model.training.resume import changed_end, latest_resume_step, refuse_changes
from headwise.model.transformer import Transformer
from headwise.model.validation import is_too_long

FEW = 20
"""A word that occurs fewer times than this is rare."""


def load_data(arguments: TrainArguments) -> Data:
    """Read all files and data sets of a training; ``DataError`` names one that cannot be read."""
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
    train = _first_pairs(train, arguments.max_pairs, arguments.training)
    return Data(train, valid, samples, held_back, left_out)


def _first_pairs(corpus: Corpus, count: int | None, training: TrainingConfig) -> Corpus:
    """Return a corpus with ``first_distinct`` pairs only; unchanged if ``count`` is None."""
    if count is None:
        return corpus
    return replace(
        corpus, pairs=first_distinct(corpus.pairs, count, max_tokens=training.max_tokens)
    )


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
    """Create a new run, or open the run to resume; data that cannot be used are refused."""
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


def describe_vocabulary(
    tokenizers: TokenizerPair, pairs: Sequence[Pair], *, rarest: int
) -> list[str]:
    """Say how large the vocabularies are, and warn where rare words are mostly single tokens.

    ``rarest`` is how often a token had to occur.
    """
    sides = [("vocabulary", tokenizers.source, [text for pair in pairs for text in pair])]
    if not tokenizers.shared:
        sides = [
            ("source vocabulary", tokenizers.source, [pair.source for pair in pairs]),
            ("target vocabulary", tokenizers.target, [pair.target for pair in pairs]),
        ]
    sentences = []
    for name, tokenizer, texts in sides:
        sentences.append(f"{name}: {tokenizer.vocab_size:,} tokens")
        if tokenizer.kind != "bpe":
            continue
        if rarest > 1:
            sentences[-1] += f", merged from what occurs at least {rarest:,} times"
        share = rare_words_as_tokens(tokenizer, texts)
        if share > 0.5:
            sentences.append(
                f"warning: {share:.0%} of the words that occur fewer than {FEW} times are single "
                f"tokens of the {name}, which the model sees too seldom to learn; give a smaller "
                "--model.source-vocab-size and --model.target-vocab-size, or none"
            )
    return sentences


def rare_words_as_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Return the share of distinct rare words, of two letters or more, that are single tokens."""
    read = (text for text in texts if not is_too_long(text))
    counts = Counter(word for text in read for word in split_words(text) if len(word) > 1)
    rare = [word for word, count in counts.items() if count < FEW]
    single = sum(len(tokenizer.encode(word)) == 1 for word in rare)
    return single / len(rare) if rare else 0.0


def _counts(examples: Examples, model: TransformerConfig) -> Counts:
    """Count how often each token occurs in the examples."""

    def count(rows: list[list[int]], size: int) -> list[int]:
        counts = Counter(chain.from_iterable(rows))
        return [counts[id] for id in range(size)]

    sizes = model.description.vocab_sizes
    return Counts(*map(count, (examples.sources, examples.targets), sizes))


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


def _new_run(arguments: TrainArguments, data: Data) -> tuple[TrainedRun, Examples, list[Sample]]:
    corpus, valid = data.train, data.valid
    try:
        tokenizers = TokenizerPair.train(
            corpus.pairs,
            kind=arguments.tokenizer,
            vocab_sizes=arguments.model.description.vocab_sizes,
            shared=arguments.model.tied == "all",
            rarest=arguments.rarest_token if arguments.tokenizer == "bpe" else 0,
        )
    except ValueError as error:
        options = "--model.source-vocab-size and --model.target-vocab-size"
        raise ValueError(f"{options}: {error}") from error
    model = replace(
        arguments.model,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
    )
    examples = _encode(corpus, tokenizers, model, arguments.training)
    samples = _samples(arguments, data, tokenizers, model)
    longest = max(map(len, examples.sources))
    if arguments.training.join:  # joined pairs reach the most allowed
        longest = min(arguments.training.max_tokens, model.max_length)
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
            longest_source=longest,
            held_back=len(valid.pairs) if data.held_back else 0,
            left_out=data.left_out,
        ),
        parameters=sum(parameter.numel() for parameter in Transformer(model).parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    folder = arguments.checkpoints / arguments.run
    create_run(folder, info, tokenizers, _counts(examples, model))
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
    refuse_changes(run, source, arguments, data)
    if arguments.training != training:
        step = latest_resume_step(run.folder) or 0
        training = changed_end(run.folder, training, wanted=arguments.training, step=step)
        info = replace(run.info, training=training)
        write_info(run.folder, info)
        run = replace(run, info=info)
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
    run: TrainedRun, corpus: Corpus, *, left_out: Sequence[str] = (), max_pairs: int | None = None
) -> Encoded:
    """Return the sample that the training of a run measures, of its training data.

    ``left_out`` and ``max_pairs`` are what was given to it. Other data, or a run that was
    converted, are a ``CheckpointError``.
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
    corpus = _first_pairs(corpus, max_pairs, training)
    return draw_train_sample(_encode_again(run, training, corpus), seed=training.seed)
