from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.optimizer import AcceleratedOptimizer
from safetensors import safe_open

from headwise.model.checkpoint import (
    CheckpointError,
    TrainedRun,
    load_weights,
    open_trained_run,
    save_weights,
)
from headwise.model.config import BOS
from headwise.model.files import only_writer
from headwise.model.train import main
from headwise.model.training import data, evaluation
from headwise.model.training import loop as training
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import MOST_SAMPLED, Pair, encode_pairs
from headwise.model.training.evaluation import evaluate, mean_loss
from headwise.model.training.loop import DivergenceError
from headwise.model.training.options import TrainArguments
from headwise.model.training.resume import latest_resume_step
from headwise.model.training.schedule import learning_rate
from headwise.model.transformer import Transformer
from tests.floats import near, rounding
from tests.tiny import DATA, tiny_training

Make = Callable[..., TrainArguments]
Stop = Callable[..., int | None]
Pairs = dict[str, list[Pair]]
Rows = list[dict[str, Any]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that makes the arguments of the tiny training, with these changes."""

    def make(folder: str = "", **changes: Any) -> TrainArguments:
        return tiny_training(tmp_path / folder, **changes)

    return make


def tensors(path: Path) -> dict[str, Any]:
    """Return the bits of each tensor and the header, which the library writes in no fixed order."""
    with safe_open(path, "pt") as file:
        bits = {name: file.get_tensor(name).numpy().tobytes() for name in sorted(file.keys())}
        return {"header": file.metadata(), **bits}


def contents(root: Path) -> dict[str, Any]:
    """Return the contents of all files of the run ``tiny``, without the training speed."""
    folder = root / "tiny"
    files: dict[str, Any] = {
        str(path.relative_to(folder)): tensors(path)
        if path.suffix == ".safetensors"
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    files["metrics.jsonl"] = [
        {key: value for key, value in row.items() if key != "tokens_per_second"}
        for row in open_trained_run("tiny", root=root).metrics()
    ]
    return files


def trained(arguments: TrainArguments) -> TrainedRun:
    main(arguments)
    return open_trained_run("tiny", root=arguments.checkpoints)


def rows_with(name: str, run: TrainedRun) -> Rows:
    return [row for row in run.metrics() if name in row]


def write_lines(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Return the training pairs and the validation pairs of the tiny run."""
    return {
        name: load_corpus(str(DATA / f"{name}.jsonl"), source="en", target="es").pairs
        for name in ("train", "valid")
    }


# A whole training


def test_a_run_has_all_its_files(trained_run: TrainedRun) -> None:
    assert set(contents(trained_run.folder.parent)) == {
        "run.json",
        "tokenizer.json",
        "counts.json",
        *(f"step-000000{step}.safetensors" for step in (0, 3, 5, 8)),
        "metrics.jsonl",
        "samples.jsonl",
        "training.lock",
        "resume/step-0000008/state.json",
        "resume/step-0000008/state.safetensors",
    }
    assert trained_run.steps() == [0, 3, 5, 8]


def test_every_step_is_logged_and_the_model_learns(trained_run: TrainedRun) -> None:
    rows = rows_with("train_loss", trained_run)
    assert [row["step"] for row in rows] == list(range(1, 9))
    rates = [learning_rate(step, trained_run.info.training) for step in range(1, 9)]
    assert [row["learning_rate"] for row in rows] == rates
    assert all(row["gradient_norm"] > 0 and row["tokens_per_second"] > 0 for row in rows)
    tokens = sum(trained_run.counts.target) - trained_run.counts.target[BOS]  # of one epoch
    assert rows[3]["tokens"] < tokens < rows[4]["tokens"]
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] - 0.5
    valid = [row["valid_loss"] for row in rows_with("valid_loss", trained_run)]
    assert valid == sorted(valid, reverse=True)


def test_losses_are_means_over_tokens_since_the_last(trained_run: TrainedRun, make: Make) -> None:
    rows = rows_with("train_loss", trained(make(log_every=4)))
    assert [row["step"] for row in rows] == [4, 8]
    single = rows_with("train_loss", trained_run)
    seen = [0, *(row["tokens"] for row in single)]
    tokens = [after - before for before, after in itertools.pairwise(seen)]
    for row, steps in zip(rows, (slice(4), slice(4, 8)), strict=True):
        of_steps = list(zip(single[steps], tokens[steps], strict=True))
        mean = sum(one["train_loss"] * n for one, n in of_steps) / sum(n for _, n in of_steps)
        bound = 0.0001 + rounding(torch.float32, mean)  # all are rounded to four digits
        assert row["train_loss"] == pytest.approx(mean, rel=0, abs=bound)


def test_steps_have_the_scheduled_rate(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step at rate zero leaves the weights as they are; the last step has a rate."""
    monkeypatch.setattr(
        training, "learning_rate", lambda step, config: (step != 3) * learning_rate(step, config)
    )
    run = trained(make(steps=4, milestones=(2, 3), schedule="cosine"))
    second, third, last = (load_weights(run, step).model.state_dict() for step in (2, 3, 4))
    assert all(torch.equal(third[name], second[name]) for name in last)
    assert any(not torch.equal(last[name], third[name]) for name in last)


def test_losses_are_smoothed_and_another_seed_gives_other_weights(
    trained_run: TrainedRun, make: Make
) -> None:
    sharp = trained(make("a", steps=1, milestones=(), label_smoothing=0.0))
    assert sharp.metrics()[0]["train_loss"] != trained_run.metrics()[1]["train_loss"]
    other = trained(make("b", steps=1, milestones=(0,), seed=6))
    assert load_weights(other, 0).sha256 != load_weights(trained_run, 0).sha256


def test_batches_add_up_to_one(make: Make, tmp_path: Path) -> None:
    """Two batches take the step that one of all their pairs takes: each token counts alike."""
    rows = [{"en": "a cat", "es": "un gato" + " y" * n} for n in range(6)]
    file = str(write_lines(tmp_path / "data.jsonl", rows))
    steps = []
    for accumulate, tokens in ((1, 1000), (2, 27)):
        arguments = make(str(accumulate), steps=1, accumulate=accumulate, batch_tokens=tokens)
        model = replace(arguments.model, dropout=0.0)
        run = trained(replace(arguments, train=file, valid=file, model=model))
        steps.append(run.metrics()[1])
    one, two = steps
    assert one["tokens"] == two["tokens"]
    for name in ("train_loss", "gradient_norm"):  # both are rounded to four digits
        bound = 0.0001 + rounding(torch.float32, one[name])
        assert one[name] == pytest.approx(two[name], rel=0, abs=bound)


# Milestones


INTERVALS = ("bleu_low", "bleu_high", "chrf_low", "chrf_high")


def measured(run: TrainedRun, step: int, pairs: Pairs) -> dict[str, Any]:
    """Return what the log must have of a milestone, measured of its file."""
    model = load_weights(run, step).model
    valid, train = (evaluate(model, run.tokenizers, pairs[name]) for name in ("valid", "train"))
    assert len(pairs["train"]) < MOST_SAMPLED  # the sample is all of them
    bound = 0.00005 + rounding(torch.float32, train.loss)  # of float32, in four digits
    return {
        "step": step,
        "valid_loss": round(valid.loss, 4),
        "bleu": round(valid.bleu, 2),
        "chrf": round(valid.chrf, 2),
        "exact": round(valid.exact, 4),
        **{name: round(vars(valid)[name], 2) for name in INTERVALS if vars(valid)[name] >= 0},
        "valid_pairs": valid.pairs,
        "valid_sources": valid.sources,
        "train_sample_loss": pytest.approx(train.loss, rel=0, abs=bound),
    }


def test_milestones_are_measured(trained_run: TrainedRun, pairs: Pairs) -> None:
    rows = rows_with("valid_loss", trained_run)
    assert rows == [measured(trained_run, step, pairs) for step in (0, 3, 5, 8)]


def test_milestones_measure_the_weights_as_written(
    make: Make, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_other(folder: Path, model: Transformer, *, run: str, step: int) -> str:
        torch.manual_seed(99)
        return save_weights(folder, Transformer(model.config), run=run, step=step)

    monkeypatch.setattr(training, "save_weights", save_other)
    run = trained(make(steps=1, milestones=()))
    assert run.metrics()[-1] == measured(run, 1, pairs)


def test_every_milestone_measures_the_same_pairs(
    make: Make, stop: Stop, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn from the corpus as it is, though its pairs are joined and replaced; also resumed."""
    samples, valid = [], []

    def remember(model: Transformer, *sample: Any) -> Any:
        assert not model.training
        samples.append(sample)
        return mean_loss(model, *sample)

    def remember_valid(model: Transformer, tokenizers: Any, given: list[Pair]) -> Any:
        valid.append(given)
        return evaluate(model, tokenizers, given)

    monkeypatch.setattr(data, "MOST_SAMPLED", 7)
    monkeypatch.setattr(training, "mean_loss", remember)
    monkeypatch.setattr(training, "evaluate", remember_valid)
    arguments = make(join=0.5, replace=0.5)
    stop(arguments, interrupt, 11)
    assert len(samples) == 3
    run = trained(resumed(arguments))
    assert samples == [samples[0]] * 4
    assert valid == [pairs["valid"]] * 4

    examples = encode_pairs(pairs["train"], run.tokenizers, max_tokens=100)
    plain = list(zip(examples.sources, examples.targets, strict=True))
    sampled = list(zip(*samples[0], strict=True))
    assert len(sampled) == 7
    assert all(pair in plain for pair in sampled)
    last = load_weights(run, 8).model
    assert run.metrics()[-1]["train_sample_loss"] == round(mean_loss(last, *samples[0])[0], 4)


def test_samples_are_the_first_validation_sentences_or_given(
    make: Make, pairs: Pairs, tmp_path: Path, trained_run: TrainedRun
) -> None:
    rows = trained_run.samples()
    assert [row["step"] for row in rows] == [step for step in (0, 3, 5, 8) for _ in range(12)]
    assert [(row["source"], row["reference"]) for row in rows[-12:]] == pairs["valid"][:12]
    given: Rows = [{"source": "No.", "reference": "No.", "shows": "negation"}] * 2
    samples = write_lines(tmp_path / "samples.jsonl", given)
    run = trained(replace(make(steps=1, milestones=(0,)), samples=samples))
    written = run.samples()
    assert all(isinstance(row.pop("translation"), str) for row in written)
    assert written == [{"step": step, **row} for step in (0, 1) for row in given]


# Stopping and going on


def interrupt() -> None:
    """Send this process SIGINT, as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def interrupt_twice() -> None:
    interrupt()
    interrupt()


def kill() -> None:
    raise SystemError("killed")


ENDS: dict[Callable[[], None], tuple[type[BaseException], str]] = {
    interrupt: (SystemExit, r"the state is saved: go on with .* --resume"),
    interrupt_twice: (SystemExit, "stopped at once; --resume goes on from the state"),
    kill: (SystemError, "killed"),
}


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Return a function that trains until a call of a function; it returns what was saved last."""

    def stop(
        arguments: TrainArguments,
        act: Callable[[], None],
        call: int,
        name: str = "cross_entropy",
        owner: object = training,
    ) -> int | None:
        before, (error, message) = signal.getsignal(signal.SIGINT), ENDS[act]
        original, calls = getattr(owner, name), itertools.count(1)

        def function(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if next(calls) == call:
                act()
            return result

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, function)
            with pytest.raises(error, match=message):
                main(arguments)
        assert signal.getsignal(signal.SIGINT) == before
        return latest_resume_step(arguments.checkpoints / "tiny")

    return stop


def resumed(arguments: TrainArguments) -> TrainArguments:
    return replace(arguments, resume=True)


@pytest.mark.parametrize(
    ("name", "call", "act", "step"),
    [
        ("cross_entropy", 11, interrupt, 6),  # in the middle of the sixth step
        ("zero_grad", 6, interrupt, 6),  # after its update
        ("save_weights", 3, interrupt, 5),  # in a milestone
        ("append_log", 6, interrupt, 3),  # between metrics and samples
        ("save_weights", 1, interrupt, 0),  # before the first step
        ("cross_entropy", 11, interrupt_twice, 4),  # at once
        ("cross_entropy", 12, kill, 4),  # in the sixth step
    ],
)
def test_a_training_that_was_stopped_ends_as_if_never_stopped(
    make: Make, stop: Stop, trained_root: Path, name: str, call: int, act: Any, step: int
) -> None:
    """Dropout on, two batches a step, stopped within an epoch: the same bits, and the same logs.

    Where it was killed, logs and the milestone of step 5 are cut back to step 4.
    """
    arguments = make()
    owner = AcceleratedOptimizer if name == "zero_grad" else training
    assert stop(arguments, act, call, name, owner) == step
    if act is kill:
        assert open_trained_run("tiny", root=arguments.checkpoints).steps() == [0, 3, 5]
    main(resumed(arguments))
    assert contents(arguments.checkpoints) == contents(trained_root)


@pytest.mark.parametrize(("act", "step"), [(interrupt, 5), (kill, 4)])
def test_a_stop_between_two_lines_of_the_log_leaves_no_trace_in_it(
    make: Make, stop: Stop, act: Any, step: int
) -> None:
    """Lines are due at steps 3 and 6."""
    whole, stopped = (make(name, log_every=3) for name in ("whole", "stopped"))
    main(whole)
    assert stop(stopped, act, 10) == step
    main(resumed(stopped))
    assert contents(stopped.checkpoints) == contents(whole.checkpoints)


def test_a_trapezoid_may_be_made_longer_before_it_falls(make: Make, stop: Stop) -> None:
    """It ends as the longer one would have, trained in one go."""
    short = make("a", schedule="trapezoid", decay_steps=3)
    long = make("b", schedule="trapezoid", decay_steps=2, steps=11)
    stop(short, interrupt, 9)
    run = trained(replace(resumed(short), training=long.training))
    main(long)
    assert contents(short.checkpoints) == contents(long.checkpoints)
    assert run.info.training.steps == 11


def test_resume_begins_a_run_and_changes_nothing_in_a_finished_one(
    make: Make, trained_root: Path, tmp_path: Path
) -> None:
    """The same seed ends bit-equal."""
    for _ in range(2):
        main(resumed(make()))
        assert contents(tmp_path) == contents(trained_root)


def test_a_run_that_cannot_be_trained_stays_as_it_is(
    make: Make, trained_root: Path, tmp_path: Path
) -> None:
    """There is one already, another training writes, or the state is gone."""
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    arguments, before = make(), contents(tmp_path)
    with pytest.raises(CheckpointError, match="there is a run already"):
        main(make(steps=1))
    message = "another training writes into this run; wait"
    with only_writer(tmp_path / "tiny"), pytest.raises(CheckpointError, match=message):
        main(resumed(arguments))
    assert contents(tmp_path) == before
    shutil.rmtree(tmp_path / "tiny" / "resume")
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="no resume state"):
        main(resumed(arguments))
    assert contents(tmp_path) == before


def test_measuring_leaves_the_training_as_it_is(make: Make, trained_run: TrainedRun) -> None:
    """Dropout is on: a draw more or less at a milestone would change all that follows."""
    other = trained(make(milestones=()))
    assert load_weights(other, 8).sha256 == load_weights(trained_run, 8).sha256


@pytest.mark.parametrize("write", [4, 7, 9, 12])
def test_a_full_disk_leaves_the_last_state(
    make: Make, trained_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    """The file is that of the first state, a milestone, half a state, or the last state."""
    calls = itertools.count(1)

    def fsync(_: int) -> None:
        if next(calls) >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = make()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        message = r"tiny/.*: cannot be written \(No space left on device\); what was .* is intact"
        with pytest.raises(CheckpointError, match=message):
            main(arguments)
    assert not list(tmp_path.rglob("*.unfinished"))
    main(resumed(arguments))
    assert contents(tmp_path) == contents(trained_root)


# TensorBoard and divergence


def test_a_training_can_be_followed_with_tensorboard(make: Make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained(replace(make(), tensorboard=True))
    written = EventAccumulator(str(run.folder / "tensorboard"))
    written.Reload()
    for name in (
        *("train_loss", "learning_rate", "gradient_norm"),
        *("valid_loss", "bleu", "chrf", "exact", "train_sample_loss"),
    ):
        rows, events = rows_with(name, run), written.Scalars(name)
        assert [event.step for event in events] == [row["step"] for row in rows]
        values = near([row[name] for row in rows], dtype=torch.float32, operations=1)
        assert [event.value for event in events] == values


def test_a_training_that_diverges_ends_with_advice(make: Make, tmp_path: Path) -> None:
    arguments = make(learning_rate=1e30, schedule="constant", milestones=())
    message = r"step 2: loss .*: the training diverged\. The state of step 0 is kept; .* lower"
    with pytest.raises(DivergenceError, match=message):
        main(arguments)
    assert latest_resume_step(tmp_path / "tiny") == 0


def test_a_gradient_that_is_no_number_never_reaches_the_weights(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finite loss with an infinite gradient: the state saved next would be lost."""

    class Infinite(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * float("inf")

    def cross_entropy(*args: Any, **kwargs: Any) -> torch.Tensor:
        return Infinite.apply(evaluation.cross_entropy(*args, **kwargs))

    monkeypatch.setattr(training, "cross_entropy", cross_entropy)
    with pytest.raises(DivergenceError, match=r"step 1: loss \d.*, gradient norm (nan|inf)"):
        main(make(milestones=(), resume_every=1))
    assert latest_resume_step(tmp_path / "tiny") == 0
