"""The shipped run: complete, unaltered, and decoding the same way however it is asked."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from model.checkpoint import Checkpoint, Run, load_weights, open_run, weights_path
from model.config import BOS, EOS
from model.decoding import greedy
from model.generation import longest_target

SUBJECTS = ("My brother", "The old teacher", "She", "That tall man", "Nobody")
VERBS = ("bought", "forgot", "never found", "is looking for", "wants to sell")
OBJECTS = ("the blue car", "his keys", "an expensive book", "two small dogs")
ENDINGS = (".", " at the station yesterday.")


@pytest.fixture(scope="module")
def run() -> Run:
    return open_run("en-es")


@pytest.fixture(scope="module")
def newest(run: Run) -> Checkpoint:
    return load_weights(run, run.steps()[-1])


@pytest.fixture(scope="module")
def sources(run: Run) -> list[list[int]]:
    """Two hundred sentences of several lengths, encoded."""
    texts = [f"{a} {b} {c}{end}" for a, b, c, end in product(SUBJECTS, VERBS, OBJECTS, ENDINGS)]
    assert len(set(texts)) == 200
    return [run.tokenizers.encode_source(text) for text in texts]


@pytest.fixture(scope="module")
def one_by_one(newest: Checkpoint, sources: list[list[int]]) -> list[list[int]]:
    return [greedy(newest.model, [source])[0] for source in sources]


def test_batched_decoding_equals_one_by_one(
    newest: Checkpoint, sources: list[list[int]], one_by_one: list[list[int]]
) -> None:
    assert greedy(newest.model, sources) == one_by_one


@torch.inference_mode()
def test_cached_decoding_equals_uncached(
    newest: Checkpoint, sources: list[list[int]], one_by_one: list[list[int]]
) -> None:
    for source, expected in zip(sources, one_by_one, strict=True):
        target = [BOS]
        while target[-1] != EOS and len(target) <= longest_target(len(source), 1024):
            logits = newest.model(torch.tensor([source]), torch.tensor([target]))
            target.append(int(logits[0, -1].argmax()))
        assert target == expected


def test_every_milestone_is_there_small_and_unaltered(run: Run) -> None:
    steps = run.steps()
    assert steps == list(run.info.training.all_milestones)
    assert 12 <= len(steps) <= 14
    assert steps[0] == 0
    for step in steps:
        assert weights_path(run.folder, step).stat().st_size <= 10_000_000
        load_weights(run, step)  # verifies all hashes


def test_logs_are_complete(run: Run) -> None:
    measured = [row for row in run.metrics() if "bleu" in row]
    assert [row["step"] for row in measured] == run.steps()
    assert {"valid_loss", "bleu", "chrf"} <= measured[-1].keys()
    logged = {row["step"] for row in run.metrics() if "train_loss" in row}
    every = run.info.training.log_every
    assert logged == set(range(every, run.info.training.steps + 1, every))


def test_samples_are_complete_and_reproduced(run: Run, newest: Checkpoint) -> None:
    samples = run.samples()
    sentences = {row["source"] for row in samples}
    assert len(sentences) >= 12
    assert {(row["step"], row["source"]) for row in samples} == set(product(run.steps(), sentences))
    for row in samples:
        if row["step"] == newest.step:
            target = greedy(newest.model, [run.tokenizers.encode_source(row["source"])])[0]
            assert run.tokenizers.target.decode(target) == row["translation"]


def test_counts_fit_the_data(run: Run) -> None:
    assert run.counts.source[EOS] == run.counts.target[EOS] == run.info.data.train_pairs
