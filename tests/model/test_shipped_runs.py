"""Check that the shipped runs are complete and unaltered, and translate as README says."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from headwise.model import checkpoint
from headwise.model.config import EOS
from headwise.model.decoding.translation import translate
from tests.shipped import SHIPPED


@pytest.fixture(params=SHIPPED)
def run(request: pytest.FixtureRequest) -> checkpoint.TrainedRun:
    return checkpoint.open_trained_run(request.param)


@cache
def newest(name: str) -> checkpoint.Checkpoint:
    run = checkpoint.open_trained_run(name)
    return checkpoint.load_weights(run, run.steps()[-1])


# Files


def test_all_runs_are_known_and_small() -> None:
    assert set(SHIPPED) <= set(checkpoint.list_runs())
    weights = {name: (checkpoint.CHECKPOINTS / name).glob("*.safetensors") for name in SHIPPED}
    sizes = {name: [path.stat().st_size for path in paths] for name, paths in weights.items()}
    assert max(map(max, sizes.values())) <= 10_000_000
    assert sum(map(sum, sizes.values())) < 290_000_000
    assert sum(sizes["copy"]) <= 2_000_000


def test_every_milestone_is_there_and_unaltered(run: checkpoint.TrainedRun) -> None:
    assert run.steps() == list(run.info.training.all_milestones)
    for step in run.steps():
        checkpoint.load_weights(run, step)  # verifies all hashes


def test_run_info_and_counts_describe_the_run(run: checkpoint.TrainedRun) -> None:
    data = run.info.data
    assert all((data.name, data.licence, data.attribution))
    model = newest(run.info.name).model
    assert run.info.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert run.counts.source[EOS] == run.counts.target[EOS] == data.train_pairs


def test_logs_are_complete(run: checkpoint.TrainedRun) -> None:
    measured = [row for row in run.metrics() if "bleu" in row]
    assert [row["step"] for row in measured] == run.steps()
    for row in measured:
        assert {"valid_loss", "bleu", "chrf", "train_sample_loss"} <= row.keys()
    logged = {row["step"] for row in run.metrics() if "train_loss" in row}
    every = run.info.training.log_every
    assert logged == set(range(every, run.info.training.steps + 1, every))


def test_samples_are_complete_and_reproduced(run: checkpoint.TrainedRun) -> None:
    samples = run.samples()
    sentences = {row["source"] for row in samples}
    assert len(sentences) >= 8
    assert {(row["step"], row["source"]) for row in samples} == set(product(run.steps(), sentences))
    last = [row for row in samples if row["step"] == run.steps()[-1]]
    translations = translate(
        newest(run.info.name).model, run.tokenizers, [row["source"] for row in last]
    )
    assert translations == [row["translation"] for row in last]


# What each of them shows


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_ignores_runs_but_those_that_ship(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    shutil.copy(checkpoint.CHECKPOINTS.parent / ".gitignore", tmp_path)
    kept = [f"checkpoints/{name}/{file}" for name in SHIPPED for file in ("run.json", "measures/s")]
    for name in (*SHIPPED, "own"):
        for file in ("run.json", "measures/s", "resume/s", "training.lock"):
            path = tmp_path / "checkpoints" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    listed = ["git", "-C", tmp_path, "ls-files", "--others", "--exclude-standard", "checkpoints"]
    found = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(found) == sorted(kept)
