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
from headwise.model.training import batches, losses, train_sample
from headwise.model.training import loop as training
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError, Sample, encode_pairs, load_samples
from headwise.model.training.evaluation import evaluate, mean_loss
from headwise.model.training.loop import DivergenceError
from headwise.model.training.options import TrainArguments
from headwise.model.training.resume import latest_resume_step
from headwise.model.training.schedule import learning_rate
from headwise.model.training.train_sample import MOST_PAIRS
from headwise.model.transformer import Transformer
from tests.floats import near, rounding

MakeArguments = Callable[..., TrainArguments]


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


def logged(value: float) -> Any:
    """Equal what the log has of a value that is computed in float32, in four digits."""
    return pytest.approx(value, rel=0, abs=0.00005 + rounding(torch.float32, value))


# A whole training


def test_a_run_has_all_its_files(trained_run: TrainedRun) -> None:
    assert set(contents(trained_run.folder.parent)) == {
        "run.json",
        "tokenizer.json",
        "counts.json",
        "step-0000000.safetensors",
        "step-0000003.safetensors",
        "step-0000005.safetensors",
        "step-0000008.safetensors",
        "metrics.jsonl",
        "samples.jsonl",
        "training.lock",
        "resume/step-0000008/state.json",
        "resume/step-0000008/state.safetensors",
    }
    assert trained_run.steps() == [0, 3, 5, 8]


def test_every_step_is_logged(trained_run: TrainedRun) -> None:
    rows = [row for row in trained_run.metrics() if "train_loss" in row]
    assert [row["step"] for row in rows] == list(range(1, 9))
    rates = [learning_rate(step, trained_run.info.training) for step in range(1, 9)]
    assert [row["learning_rate"] for row in rows] == rates
    assert all(row["gradient_norm"] > 0 and row["tokens_per_second"] > 0 for row in rows)
    tokens = sum(trained_run.counts.target) - trained_run.counts.target[BOS]  # of one epoch
    assert rows[3]["tokens"] < tokens < rows[4]["tokens"]


def test_losses_are_means_over_the_steps_since_the_last(
    trained_run: TrainedRun, make_arguments: MakeArguments, tmp_path: Path
) -> None:
    main(make_arguments(tmp_path, log_every=4))
    rows = [row for row in open_trained_run("tiny", root=tmp_path).metrics() if "train_loss" in row]
    assert [row["step"] for row in rows] == [4, 8]
    single = [row["train_loss"] for row in trained_run.metrics() if "train_loss" in row]
    assert min(single[:4]) < rows[0]["train_loss"] < max(single[:4])
    assert min(single[4:]) < rows[1]["train_loss"] < max(single[4:])


def test_an_epoch_takes_every_pair_once(
    trained_run: TrainedRun,
    make_arguments: MakeArguments,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    padded: list[list[list[int]]] = []
    original = batches.pad

    def pad(rows: list[list[int]]) -> torch.Tensor:
        padded.append(rows)
        return original(rows)

    monkeypatch.setattr(batches, "pad", pad)
    main(make_arguments(tmp_path, steps=9, milestones=()))

    corpus = load_corpus(str(data_folder / "train.jsonl"), source="en", target="es")
    examples = encode_pairs(corpus.pairs, trained_run.tokenizers, max_tokens=100)
    expected = sorted(zip(examples.sources, examples.targets, strict=True))
    for epoch in (padded[:18], padded[18:]):  # 9 batches of sources and targets
        sources, targets = (itertools.chain(*epoch[side::2]) for side in (0, 1))
        assert sorted(zip(sources, targets, strict=True)) == expected


@pytest.mark.parametrize("schedule", ["cosine", "trapezoid"])
def test_steps_have_the_scheduled_rate(
    make_arguments: MakeArguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: str
) -> None:
    """A step at rate zero leaves the weights as they are; the last step has a rate."""
    monkeypatch.setattr(
        training, "learning_rate", lambda step, config: (step != 3) * learning_rate(step, config)
    )
    decay = 2 if schedule == "trapezoid" else 0
    main(make_arguments(tmp_path, steps=4, milestones=(2, 3), schedule=schedule, decay_steps=decay))
    run = open_trained_run("tiny", root=tmp_path)
    second, third, last = (load_weights(run, step).model.state_dict() for step in (2, 3, 4))
    assert all(torch.equal(third[name], second[name]) for name in last)
    assert any(not torch.equal(last[name], third[name]) for name in last)


def test_losses_are_smoothed(
    trained_run: TrainedRun, make_arguments: MakeArguments, tmp_path: Path
) -> None:
    main(make_arguments(tmp_path, steps=1, milestones=(), label_smoothing=0.0))
    sharp, smooth = (
        run.metrics() for run in (open_trained_run("tiny", root=tmp_path), trained_run)
    )
    assert sharp[0]["train_loss"] != smooth[1]["train_loss"]


def test_training_learns(trained_run: TrainedRun) -> None:
    losses = [row["train_loss"] for row in trained_run.metrics() if "train_loss" in row]
    assert losses[-1] < losses[0] - 0.5
    valid = [row["valid_loss"] for row in trained_run.metrics() if "valid_loss" in row]
    assert valid == sorted(valid, reverse=True)


def test_batches_add_up_to_one(make_arguments: MakeArguments, tmp_path: Path) -> None:
    """Two batches take the step that one of all their pairs takes: each token counts alike."""
    file = tmp_path / "data.jsonl"
    rows = [{"en": "a cat", "es": "un gato" + " y" * n} for n in range(6)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    steps = []
    for accumulate, tokens in ((1, 1000), (2, 27)):
        arguments = make_arguments(
            tmp_path / str(accumulate), steps=1, accumulate=accumulate, batch_tokens=tokens
        )
        model = replace(arguments.model, dropout=0.0)
        main(replace(arguments, train=str(file), valid=str(file), model=model))
        steps.append(open_trained_run("tiny", root=tmp_path / str(accumulate)).metrics()[1])
    one, two = steps
    assert one["tokens"] == two["tokens"]
    for name in ("train_loss", "gradient_norm"):  # both are rounded to four digits
        bound = 0.0001 + rounding(torch.float32, one[name])
        assert one[name] == pytest.approx(two[name], rel=0, abs=bound)


@pytest.mark.parametrize("step", [0, 3, 5, 8])
def test_milestones_are_measured(trained_run: TrainedRun, data_folder: Path, step: int) -> None:
    valid = load_corpus(str(data_folder / "valid.jsonl"), source="en", target="es")
    figures = evaluate(load_weights(trained_run, step).model, trained_run.tokenizers, valid.pairs)
    train = load_corpus(str(data_folder / "train.jsonl"), source="en", target="es")
    assert len(train.pairs) < MOST_PAIRS  # the sample is all of them
    of_train = evaluate(load_weights(trained_run, step).model, trained_run.tokenizers, train.pairs)
    [row] = [row for row in trained_run.metrics() if "valid_loss" in row and row["step"] == step]
    assert row == {
        "step": step,
        "valid_loss": round(figures.loss, 4),
        "bleu": round(figures.bleu, 2),
        "chrf": round(figures.chrf, 2),
        "exact": round(figures.exact, 4),
        "train_sample_loss": logged(of_train.loss),
    }


def test_every_milestone_measures_the_same_training_pairs(
    make_arguments: MakeArguments,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Drawn from the corpus as it is, though its pairs are joined and replaced; also resumed."""
    measured = []

    def remember(model: Transformer, *sample: Any) -> Any:
        assert not model.training
        measured.append(sample)
        return mean_loss(model, *sample)

    monkeypatch.setattr(train_sample, "MOST_PAIRS", 7)
    monkeypatch.setattr(training, "mean_loss", remember)
    arguments = make_arguments(tmp_path, join=0.5, replace=0.5)
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 11, interrupt)
        with pytest.raises(SystemExit, match="--resume"):
            main(arguments)
    assert len(measured) == 3
    main(resumed(arguments))
    assert len(measured) == 4
    assert all(sample == measured[0] for sample in measured)

    run = open_trained_run("tiny", root=tmp_path)
    corpus = load_corpus(str(data_folder / "train.jsonl"), source="en", target="es")
    examples = encode_pairs(corpus.pairs, run.tokenizers, max_tokens=100)
    pairs = list(zip(examples.sources, examples.targets, strict=True))
    sampled = list(zip(*measured[0], strict=True))
    assert len(sampled) == 7
    assert all(pair in pairs for pair in sampled)
    last = load_weights(run, 8).model
    assert run.metrics()[-1]["train_sample_loss"] == round(mean_loss(last, *measured[0])[0], 4)


def test_milestones_measure_the_weights_as_written(
    make_arguments: MakeArguments,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def save_other(folder: Path, model: Transformer, *, run: str, step: int) -> str:
        torch.manual_seed(99)
        return save_weights(folder, Transformer(model.config), run=run, step=step)

    monkeypatch.setattr("headwise.model.training.loop.save_weights", save_other)
    main(make_arguments(tmp_path, steps=1, milestones=()))

    run = open_trained_run("tiny", root=tmp_path)
    valid = load_corpus(str(data_folder / "valid.jsonl"), source="en", target="es")
    figures = evaluate(load_weights(run, 1).model, run.tokenizers, valid.pairs)
    assert run.metrics()[-1]["valid_loss"] == round(figures.loss, 4)
    train = load_corpus(str(data_folder / "train.jsonl"), source="en", target="es")
    of_train = evaluate(load_weights(run, 1).model, run.tokenizers, train.pairs)
    assert run.metrics()[-1]["train_sample_loss"] == logged(of_train.loss)


def test_the_first_validation_sentences_are_samples(
    trained_run: TrainedRun, data_folder: Path
) -> None:
    valid = load_corpus(str(data_folder / "valid.jsonl"), source="en", target="es").pairs
    rows = trained_run.samples()
    assert [row["step"] for row in rows] == [step for step in (0, 3, 5, 8) for _ in range(12)]
    assert [(row["source"], row["reference"]) for row in rows[-12:]] == valid[:12]


def test_samples_may_be_given(
    make_arguments: MakeArguments, tmp_path: Path, trained_run: TrainedRun
) -> None:
    samples = tmp_path / "samples.jsonl"
    rows = [{"source": "No.", "reference": "No.", "shows": "negation"}] * 2
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(replace(make_arguments(tmp_path, steps=1, milestones=(0,)), samples=samples))
    written = open_trained_run("tiny", root=tmp_path).samples()
    assert [(row["step"], row["shows"]) for row in written] == [
        (0, "negation"),
        (0, "negation"),
        (1, "negation"),
        (1, "negation"),
    ]
    assert all(isinstance(row["translation"], str) for row in written)


@pytest.mark.parametrize(
    "line",
    [
        *("oops", "[]", "[" * 100_000),
        *('{"source": "a"}', '{"sauce": "a"}', '{"source": 1, "reference": "a"}'),
    ],
    ids=lambda line: line[:30],
)
def test_broken_samples_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"source": "a", "reference": "b"}\n')
    assert load_samples(path) == [Sample("a", "b", "")]
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"samples\.jsonl, line 2: expected an object with source"):
        load_samples(path)


# Again and again


def test_the_same_seed_ends_bit_equal(
    make_arguments: MakeArguments, trained_root: Path, tmp_path: Path
) -> None:
    main(make_arguments(tmp_path))
    assert contents(tmp_path) == contents(trained_root)


def test_another_seed_gives_other_weights(
    make_arguments: MakeArguments, trained_run: TrainedRun, tmp_path: Path
) -> None:
    main(make_arguments(tmp_path, steps=1, milestones=(0,), seed=6))
    other = open_trained_run("tiny", root=tmp_path)
    assert load_weights(other, 0).sha256 != load_weights(trained_run, 0).sha256


def test_a_run_is_never_overwritten(make_arguments: MakeArguments, trained_root: Path) -> None:
    before = contents(trained_root)
    with pytest.raises(CheckpointError, match="there is a run already"):
        main(make_arguments(trained_root, steps=1))
    assert contents(trained_root) == before


# Stopping and going on


def after(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: int, act: Callable[[], object]
) -> None:
    """Run an action right after the given call of a function."""
    original, calls = getattr(owner, name), itertools.count(1)

    def function(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if next(calls) == call:
            act()
        return result

    monkeypatch.setattr(owner, name, function)


def interrupt() -> None:
    """Send this process SIGINT, as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def interrupt_twice() -> None:
    interrupt()
    interrupt()


def kill() -> None:
    raise SystemError("killed")


def resumed(arguments: TrainArguments) -> TrainArguments:
    return replace(arguments, resume=True)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        pytest.param(training, "cross_entropy", 1, id="in the first step"),
        pytest.param(training, "cross_entropy", 11, id="in the middle of the sixth step"),
        pytest.param(
            AcceleratedOptimizer,
            "zero_grad",
            6,
            id="after the update of the sixth step",
        ),
        pytest.param(training, "save_weights", 3, id="in a milestone"),
        pytest.param(training, "evaluate", 3, id="while a milestone is measured"),
        pytest.param(training, "append_log", 6, id="between metrics and samples"),
        pytest.param(
            training,
            "save_weights",
            1,
            id="in the milestone before the first step",
        ),
    ],
)
def test_an_interrupted_training_ends_as_if_never_interrupted(
    make_arguments: MakeArguments,
    trained_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    call: int,
) -> None:
    """Dropout on, two batches a step, stopped within an epoch: the same bits, and the same logs."""
    arguments = make_arguments(tmp_path)
    with monkeypatch.context() as patch:
        after(patch, owner, name, call, interrupt)
        with pytest.raises(SystemExit, match=r"the state is saved: go on with .* --resume"):
            main(arguments)
    main(resumed(arguments))
    assert contents(tmp_path) == contents(trained_root)


@pytest.mark.parametrize("step", [5, 6, 8])
def test_a_killed_training_resumes_from_its_last_state(
    make_arguments: MakeArguments,
    trained_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    """Logs and the milestone of step 5 are removed back to step 4 and written again."""
    arguments = make_arguments(tmp_path)
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 2 * step, kill)
        with pytest.raises(SystemError, match="killed"):
            main(arguments)
    run = open_trained_run("tiny", root=tmp_path)
    assert latest_resume_step(run.folder) == 4
    assert run.steps() == [0, 3, 5][: 3 if step > 5 else 2]
    main(resumed(arguments))
    assert contents(tmp_path) == contents(trained_root)


@pytest.mark.parametrize("stop", [interrupt, kill])
def test_a_stop_between_two_lines_of_the_log_leaves_no_trace_in_it(
    make_arguments: MakeArguments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: Callable[[], None],
) -> None:
    """Lines are due at steps 3 and 6; the training goes on after step 5, or 4 if it was killed."""
    whole, stopped = (make_arguments(tmp_path / name, log_every=3) for name in ("whole", "stopped"))
    main(whole)
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 10, stop)
        with pytest.raises((SystemExit, SystemError)):
            main(stopped)
    assert latest_resume_step(tmp_path / "stopped" / "tiny") == (5 if stop is interrupt else 4)
    main(resumed(stopped))
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_joined_and_replaced_pairs_are_the_same_after_a_stop(
    make_arguments: MakeArguments,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped in the second epoch. The model is measured on the validation pairs as they are."""
    measured = []

    def remember(model: Transformer, tokenizers: Any, pairs: list[Any]) -> Any:
        measured.append(pairs)
        return evaluate(model, tokenizers, pairs)

    changes = {"join": 0.5, "replace": 0.5, "accumulate": 3}
    roots = [tmp_path / name for name in ("whole", "stopped", "without")]
    main(make_arguments(roots[0], **changes))
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 17, interrupt)
        patch.setattr(training, "evaluate", remember)
        with pytest.raises(SystemExit, match="--resume"):
            main(make_arguments(roots[1], **changes))
    main(resumed(make_arguments(roots[1], **changes)))
    assert contents(roots[1]) == contents(roots[0])
    main(make_arguments(roots[2], accumulate=3))
    assert contents(roots[2]) != contents(roots[0])
    valid = load_corpus(str(data_folder / "valid.jsonl"), source="en", target="es").pairs
    assert measured
    assert all(pairs == valid for pairs in measured)


def test_a_second_interrupt_stops_at_once(
    make_arguments: MakeArguments,
    trained_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, before = make_arguments(tmp_path), signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 11, interrupt_twice)
        with pytest.raises(SystemExit, match="stopped at once; --resume goes on from the state"):
            main(arguments)
    assert latest_resume_step(tmp_path / "tiny") == 4
    assert signal.getsignal(signal.SIGINT) == before
    main(resumed(arguments))
    assert contents(tmp_path) == contents(trained_root)


def test_resuming_cuts_logs_and_later_milestones_first(
    make_arguments: MakeArguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = make_arguments(tmp_path)
    for call in (2 * 7, 1):  # in the seventh step; in the first after resuming
        with monkeypatch.context() as patch:
            after(patch, training, "cross_entropy", call, kill)
            with pytest.raises(SystemError, match="killed"):
                main(replace(arguments, resume=call == 1))
    run = open_trained_run("tiny", root=tmp_path)
    assert run.steps() == [0, 3]
    assert max(row["step"] for row in run.metrics()) == 4
    assert max(row["step"] for row in run.samples()) == 3


def test_resuming_a_finished_run_changes_nothing(
    make_arguments: MakeArguments, trained_root: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    main(resumed(make_arguments(tmp_path)))
    assert contents(tmp_path) == contents(trained_root)


def test_a_run_without_a_saved_state_cannot_be_resumed(
    make_arguments: MakeArguments, trained_root: Path, tmp_path: Path
) -> None:
    """Its weights are not removed to begin again."""
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "tiny" / "resume")
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="no resume state"):
        main(resumed(make_arguments(tmp_path)))
    assert contents(tmp_path) == before


def test_resume_without_a_run_begins_a_run(
    make_arguments: MakeArguments, trained_root: Path, tmp_path: Path
) -> None:
    main(resumed(make_arguments(tmp_path)))
    assert contents(tmp_path) == contents(trained_root)


def test_measuring_leaves_the_training_as_it_is(
    make_arguments: MakeArguments, trained_run: TrainedRun, tmp_path: Path
) -> None:
    """Dropout is on: a draw more or less at a milestone would change all that follows."""
    main(make_arguments(tmp_path, milestones=()))
    other = open_trained_run("tiny", root=tmp_path)
    assert load_weights(other, 8).sha256 == load_weights(trained_run, 8).sha256


def test_a_run_has_one_training_at_a_time(
    make_arguments: MakeArguments, trained_root: Path
) -> None:
    before = contents(trained_root)
    with (
        only_writer(trained_root / "tiny"),
        pytest.raises(CheckpointError, match="another training writes into this run; wait"),
    ):
        main(resumed(make_arguments(trained_root)))
    assert contents(trained_root) == before


@pytest.mark.parametrize("write", [4, 6, 7, 9, 12])
def test_a_full_disk_leaves_the_last_state(
    make_arguments: MakeArguments,
    trained_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: int,
) -> None:
    """The file is that of the first state, a milestone, half a state, or the last state."""
    calls = itertools.count(1)

    def fsync(_: int) -> None:
        if next(calls) >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = make_arguments(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        message = r"tiny/.*: cannot be written \(No space left on device\); what was .* is intact"
        with pytest.raises(CheckpointError, match=message):
            main(arguments)
    assert not list(tmp_path.rglob("*.unfinished"))
    main(resumed(arguments))
    assert contents(tmp_path) == contents(trained_root)


def test_a_training_can_be_followed_with_tensorboard(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    main(replace(make_arguments(tmp_path), tensorboard=True))

    run = open_trained_run("tiny", root=tmp_path)
    written = EventAccumulator(str(run.folder / "tensorboard"))
    written.Reload()
    for name in (
        *("train_loss", "learning_rate", "gradient_norm"),
        *("valid_loss", "bleu", "chrf", "exact", "train_sample_loss"),
    ):
        expected = [(row["step"], row[name]) for row in run.metrics() if name in row]
        events = [(event.step, event.value) for event in written.Scalars(name)]
        assert [step for step, _ in events] == [step for step, _ in expected]
        values = [value for _, value in expected]
        assert [value for _, value in events] == near(values, dtype=torch.float32, operations=1)


def test_a_trapezoid_may_be_made_longer_before_it_falls(
    make_arguments: MakeArguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as the longer one would have, trained in one go."""
    short = make_arguments(tmp_path / "a", schedule="trapezoid", decay_steps=3)
    long = make_arguments(tmp_path / "b", schedule="trapezoid", decay_steps=2, steps=11)
    with monkeypatch.context() as patch:
        after(patch, training, "cross_entropy", 9, interrupt)
        with pytest.raises(SystemExit):
            main(short)

    main(replace(resumed(short), training=long.training))
    main(long)

    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert open_trained_run("tiny", root=tmp_path / "a").info.training.steps == 11


def test_a_training_that_diverges_ends_with_advice(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    arguments = make_arguments(tmp_path, learning_rate=1e30, schedule="constant", milestones=())
    message = r"step 2: loss .*: the training diverged\. The state of step 0 is kept; .* lower"
    with pytest.raises(DivergenceError, match=message):
        main(arguments)
    assert latest_resume_step(tmp_path / "tiny") == 0


def test_a_gradient_that_is_no_number_never_reaches_the_weights(
    make_arguments: MakeArguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        return Infinite.apply(losses.cross_entropy(*args, **kwargs))

    monkeypatch.setattr(training, "cross_entropy", cross_entropy)
    with pytest.raises(DivergenceError, match=r"step 1: loss \d.*, gradient norm (nan|inf)"):
        main(make_arguments(tmp_path, milestones=(), resume_every=1))
    assert latest_resume_step(tmp_path / "tiny") == 0
