"""From what a training is told to a run on disk and its data: a new run, or one that goes on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from model.checkpoint import (
    CheckpointError,
    Run,
    create_run,
    open_run,
    tokenizer_sha256,
    write_info,
)
from model.config import TrainingConfig, TransformerConfig, to_dict
from model.corpora import Corpus, load_corpus
from model.data import (
    DataError,
    Examples,
    Pair,
    Sample,
    encode_pairs,
    first_distinct,
    load_samples,
)
from model.options import Arguments
from model.resume import latest_resume_step
from model.run_info import Counts, DataSource, RunInfo
from model.schedule import learning_rate
from model.tokenizer import TokenizerPair
from model.transformer import Transformer


@dataclass(frozen=True)
class Data:
    """What a training reads."""

    train: Corpus
    valid: Corpus
    samples: list[Sample] | None


def load_data(arguments: Arguments) -> Data:
    """Read all files and data sets.

    Raises:
        DataError: naming what cannot be read.
    """
    valid = load_corpus(
        arguments.valid,
        source=arguments.source,
        target=arguments.target,
        split="validation",
        columns=arguments.columns,
    )
    samples = load_samples(arguments.samples) if arguments.samples is not None else None
    return Data(_training_pairs(arguments), valid, samples)


@dataclass(frozen=True)
class Prepared:
    """A run on disk and the data that it learns from and is measured with."""

    run: Run
    examples: Examples
    valid: list[Pair]
    samples: list[Sample]


def prepare(arguments: Arguments, data: Data, *, resume: bool) -> Prepared:
    """Make a new run, or open the one that goes on.

    Raises:
        CheckpointError: if there is a run already, or it is not the one that the arguments ask for.
        DataError: if the data leave nothing to learn from or to measure with.
        ValueError: on vocabularies without room.
    """
    run, examples, samples = (_resumed_run if resume else _new_run)(arguments, data)
    return Prepared(run, examples, data.valid.pairs, samples)


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


def _counts(examples: Examples, model: TransformerConfig) -> Counts:
    return Counts(
        source=_count(examples.sources, model.source_vocab_size),
        target=_count(examples.targets, model.target_vocab_size),
    )


def _encode(
    corpus: Corpus, tokenizers: TokenizerPair, model: TransformerConfig, training: TrainingConfig
) -> Examples:
    longest = min(training.max_pieces, model.max_length)
    return encode_pairs(corpus.pairs, tokenizers, max_pieces=longest)


def _samples(
    arguments: Arguments, data: Data, tokenizers: TokenizerPair, model: TransformerConfig
) -> list[Sample]:
    """Sentences to translate; what cannot be measured is found out before the first milestone."""
    valid = encode_pairs(data.valid.pairs, tokenizers, max_pieces=model.max_length).pairs
    if data.samples is None:
        return [Sample(pair.source, pair.target) for pair in valid[:12]]
    for sample in data.samples:
        pieces = len(tokenizers.encode_source(sample.source))
        if pieces > model.max_length:
            raise DataError(
                f"{arguments.samples}: expected at most {model.max_length:,} pieces, got "
                f"{pieces:,} in {sample.source[:60]!r}; shorten it"
            )
    return data.samples


def _new_run(arguments: Arguments, data: Data) -> tuple[Run, Examples, list[Sample]]:
    corpus, valid = data.train, data.valid
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
            longest_source=max(map(len, examples.sources)),
        ),
        parameters=sum(parameter.numel() for parameter in Transformer(model).parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = _counts(examples, model)
    create_run(arguments.checkpoints / arguments.run, info, tokenizers, counts)
    return open_run(arguments.run, root=arguments.checkpoints), examples, samples


def _resumed_run(arguments: Arguments, data: Data) -> tuple[Run, Examples, list[Sample]]:
    run = open_run(arguments.run, root=arguments.checkpoints)
    _refuse_changes(run, arguments, data)
    if arguments.training != run.info.training:
        wanted = _changed_end(run, arguments.training, latest_resume_step(run.folder) or 0)
        info = dataclasses.replace(run.info, training=wanted)
        write_info(run.folder, info)
        run = dataclasses.replace(run, info=info)
    examples = _encode(data.train, run.tokenizers, run.info.model, run.info.training)
    if _counts(examples, run.info.model) != run.counts:
        raise CheckpointError(
            f"{run.folder}: the pairs are not those that the run began with; give the same "
            "--columns and --max-pairs"
        )
    return run, examples, _samples(arguments, data, run.tokenizers, run.info.model)


def _refuse_changes(run: Run, arguments: Arguments, data: Data) -> None:
    """Data, languages and model of a resumed training are those that it began with."""
    info = run.info
    # The vocabulary sizes asked for were only the most there could be.
    model, begun_model = (
        {key: value for key, value in to_dict(m).items() if not key.endswith("vocab_size")}
        for m in (arguments.model, info.model)
    )
    for name, given, begun in (
        ("training data", data.train.sha256, info.data.train_sha256),
        ("validation data", data.valid.sha256, info.data.valid_sha256),
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
