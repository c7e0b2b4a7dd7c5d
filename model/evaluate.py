"""Measure checkpoints on a corpus: python -m headwise.model.evaluate --help."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import tyro

from headwise.model.checkpoint import CHECKPOINTS, Checkpoint, CheckpointError, TrainedRun
from headwise.model.decoding.translation import GREEDY, Decoding
from headwise.model.files import only_writer
from headwise.model.interface import DEFAULT_LANGUAGES, Languages
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, choose_languages, load_checkpoint, open_run, require_languages
from headwise.model.training import evaluation
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import Corpus, DataError
from headwise.model.training.preparation import train_sample_of


@dataclass(frozen=True)
class EvaluateArguments:
    """Measure checkpoints: one line of JSON each, with loss, perplexity, BLEU and chrF.

    Lines of the data with the same source are references of one sentence, which is translated once.
    Loss is in nats per target token, without label smoothing; BLEU and chrF are sacrebleu's, cased
    and detokenised; their signatures are printed with them. Decoding is greedy without --beam or
    --temperature. Word-level models write lower case only, which lowers their BLEU.
    """

    run: str
    """Name of the run, folder of a model or of a training, or name on the Hugging Face hub."""
    data: str
    """A .jsonl, .tsv, .csv or .parquet file, or a corpus by name: opus_books, multi30k or copy."""
    step: str = "last"
    """A checkpoint's step, "last", or "all"."""
    split: str = "test"
    """Split of a corpus by name."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, if they are not the languages."""
    train_sample: bool = False
    """Measure another loss and write it into the run's metrics.jsonl as train_sample_loss: that of
    the fixed sample of training pairs that headwise.model.train measures at each milestone. The
    data are those that the run was trained on; of a corpus by name, the training split is read."""
    valid: bool = False
    """Measure again what headwise.model.train measures at each milestone, and write it into the
    run's metrics.jsonl, as where an older log has no intervals. The data are the validation data
    of the run; of a corpus by name, the validation split is read."""
    leave_out: tuple[str, ...] = ()
    """With --train-sample: what was given to headwise.model.train."""
    max_pairs: int | None = None
    """With --train-sample: what was given to headwise.model.train, or is in its preset."""
    decoding: Annotated[Decoding, tyro.conf.arg(name="")] = GREEDY
    """Way of decoding."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where the model computes, and how precisely."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""

    def __post_init__(self) -> None:
        if self.max_pairs is not None and self.max_pairs < 1:
            raise ValueError(f"max_pairs: expected at least 1, got {self.max_pairs}")
        if self.valid and (self.train_sample or self.decoding != GREEDY):
            raise ValueError("valid: a training measures greedily, and no sample; leave it out")
        for name in ("max_pairs", "leave_out"):
            if getattr(self, name) and not self.train_sample:
                raise ValueError(f"{name}: expected with --train-sample only; leave it out")


def _steps(wanted: str, there: list[int]) -> list[int]:
    if wanted == "all":
        return there
    if wanted == "last":
        return there[-1:]
    if not wanted.isdecimal():
        raise ValueError(f"step: expected a number, last or all, got {wanted!r}")
    return [int(wanted)]


def main(arguments: EvaluateArguments) -> None:
    run = choose_languages(open_run(arguments.run, root=arguments.checkpoints), arguments.languages)
    steps = _steps(arguments.step, run.steps())
    require_languages(run, arguments.columns)
    of_training = "train" if arguments.train_sample else "validation" if arguments.valid else None
    corpus = load_corpus(
        arguments.data,
        source=run.source_language,
        target=run.target_language,
        split=of_training or arguments.split,
        columns=arguments.columns,
    )
    if arguments.train_sample:
        _add_train_sample_loss(arguments, run, steps, corpus)
        return
    if note := evaluation.bleu_note(corpus.pairs):
        print(note, file=sys.stderr)
    if arguments.valid:
        _require_valid(run, steps, corpus)
    for step in steps:
        checkpoint = load_checkpoint(run, step, arguments.placement)
        figures = evaluation.evaluate(
            checkpoint.model, run.tokenizers, corpus.pairs, arguments.decoding
        )
        if arguments.valid:
            with only_writer(run.folder):
                evaluation.add_to_log(
                    run.folder / "metrics.jsonl", {step: evaluation.milestone_figures(figures)}
                )
        row = {
            "data_sha256": corpus.sha256,
            "decoding": vars(arguments.decoding),
            "dtype": arguments.placement.dtype,
            **vars(figures),
        }
        _print(run, checkpoint, corpus, row)


def _print(run: Run, checkpoint: Checkpoint, corpus: Corpus, figures: Mapping[str, object]) -> None:
    which = {"run": run.name, "step": checkpoint.step, "sha256": checkpoint.sha256}
    row = {**which, "data": corpus.name, **figures}
    print(orjson.dumps(row).decode(), flush=True)


def _trained(run: Run, option: str) -> TrainedRun:
    if isinstance(run, TrainedRun):
        return run
    raise CheckpointError(
        f"{run.folder}: {option} is for runs that headwise.model.train has trained; leave it out"
    )


def _require_valid(run: Run, steps: list[int], corpus: Corpus) -> None:
    """Refuse data that are not those by which a training of ours was validated."""
    run = _trained(run, "--valid")
    if run.info.data is None or run.info.data.valid_sha256 != corpus.sha256:
        raise DataError(
            f"{corpus.name}: expected the validation data of {run.name}, got others (sha256 "
            f"{corpus.sha256[:12]}…); give the file that it was validated with"
        )
    evaluation.require_milestones(run.folder / "metrics.jsonl", steps)


def _add_train_sample_loss(
    arguments: EvaluateArguments, run: Run, steps: list[int], corpus: Corpus
) -> None:
    """Measure the sample of the training pairs as a training does, and write it into the log."""
    run = _trained(run, "--train-sample")
    sample = train_sample_of(
        run, corpus, left_out=arguments.leave_out, max_pairs=arguments.max_pairs
    )
    log = run.folder / "metrics.jsonl"
    with only_writer(run.folder):
        evaluation.require_milestones(log, steps)
        losses: dict[int, dict[str, float]] = {}
        for step in steps:
            checkpoint = run.load(step)  # in float32, as the training has it
            model = checkpoint.model.to(arguments.placement.torch_device)
            loss, tokens = evaluation.mean_loss(model, *sample)
            losses[step] = {"train_sample_loss": round(loss, 4)}
            row = {"train_sample_loss": loss, "tokens": tokens, "pairs": len(sample[0])}
            _print(run, checkpoint, corpus, row)
        evaluation.add_to_log(log, losses)


if __name__ == "__main__":
    try:
        main(tyro.cli(EvaluateArguments, prog="python -m headwise.model.evaluate"))
    except (CheckpointError, DataError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
