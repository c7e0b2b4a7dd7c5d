from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from headwise.model.config import TrainingConfig, TransformerConfig, from_dict, to_dict


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_vocab_size": 3}, r"source_vocab_size: expected at least 4 .*, got 3"),
        ({"target_vocab_size": 3}, r"target_vocab_size: expected at least 4 .*, got 3"),
        ({"n_encoder_layers": 0}, "n_encoder_layers: expected at least 1, got 0"),
        ({"n_heads": 0}, "n_heads: expected at least 1, got 0"),
        ({"d_model": 0}, "d_model: expected at least 1, got 0"),
        ({"d_ff": -1}, "d_ff: expected at least 1, got -1"),
        ({"max_length": 0}, "max_length: expected at least 1, got 0"),
        ({"d_k": 0}, "d_k: expected at least 1, got 0; leave it out for D / h"),
        ({"d_k": None}, "d_model 14 is not a multiple of n_heads 3; choose another or set d_k"),
        ({"d_model": 13}, r"d_model: expected an even number .*, got 13"),
        ({"dropout": 1.0}, "dropout: expected 0 <= p < 1, got 1.0"),
        ({"dropout": -0.1}, "dropout: expected 0 <= p < 1, got -0.1"),
        ({"hidden_dropout": 1.5}, "hidden_dropout: expected 0 <= p < 1, got 1.5"),
        ({"tied": "all"}, "got 37 source and 41 target tokens; use tied='output' or 'none'"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused(
    make_config: Callable[..., TransformerConfig], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps: expected at least 1, got 0"),
        ({"steps": 10_000_000}, "steps: expected at most 9,999,999, got 10,000,000"),
        ({"batch_tokens": 0}, "batch_tokens: expected at least 1, got 0"),
        ({"accumulate": 0}, "accumulate: expected at least 1, got 0"),
        ({"max_tokens": 0}, "max_tokens: expected at least 1, got 0"),
        ({"log_every": 0}, "log_every: expected at least 1, got 0"),
        ({"resume_every": 0}, "resume_every: expected at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate: expected more than 0, got 0.0"),
        ({"learning_rate": float("inf")}, "learning_rate: expected more than 0, got inf"),
        ({"batch_pairs": 0}, "batch_pairs: expected at least 1, got 0"),
        ({"betas": (0.9, 1.0)}, r"betas: expected two numbers from 0 to below 1, got \(0.9, 1.0\)"),
        ({"seed": 2**32}, "seed: expected 0 to 4294967295, got 4294967296"),
        ({"seed": -1}, "seed: expected 0 to 4294967295, got -1"),
        ({"warmup_steps": -1}, "warmup_steps and decay_steps: expected 0 or more"),
        ({"decay_steps": -1}, "warmup_steps and decay_steps: expected 0 or more"),
        ({"decay_steps": 7}, "decay_steps belongs to schedule 'trapezoid', got 'cosine'; leave"),
        (
            {"schedule": "trapezoid", "steps": 11, "warmup_steps": 5, "decay_steps": 7},
            r"warmup_steps 5 \+ decay_steps 7 do not fit in 11 steps",
        ),
        ({"label_smoothing": 1.0}, "label_smoothing: expected 0 <= x < 1, got 1.0"),
        ({"clip_norm": -1.0}, "clip_norm and weight_decay: expected 0 or more"),
        ({"weight_decay": -1.0}, "clip_norm and weight_decay: expected 0 or more"),
        ({"milestones": (0, -5)}, r"milestones: expected steps from 0 on, got \(0, -5\)"),
    ],
)
def test_a_training_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**changes)


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(
            source_vocab_size=37, target_vocab_size=41, n_heads=3, d_k=5, tied="none"
        ),
        TransformerConfig(source_vocab_size=37, target_vocab_size=37),
        TrainingConfig(milestones=(0, 3, 7), betas=(0.5, 0.75), schedule="noam"),
    ],
)
def test_a_config_survives_json(config: TransformerConfig | TrainingConfig) -> None:
    assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def test_unknown_keys_are_rejected() -> None:
    values = to_dict(TrainingConfig()) | {"step": 7, "beta": 1}
    with pytest.raises(ValueError, match=r"^step: Unexpected keyword argument, got 7$"):
        from_dict(TrainingConfig, values)


def test_missing_keys_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^target_vocab_size: Field required"):
        from_dict(TransformerConfig, {"source_vocab_size": 37})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "fp8"}, "precision: expected 'no' or 'bf16', got 'fp8'"),
        ({"join": "0.5"}, "join: expected a valid number, got '0.5'"),
        ({"batch_pairs": [7]}, r"batch_pairs: expected a valid integer, got \[7\]"),
        ({"betas": [0.5]}, r"betas\[1\]: Field required, got \[0.5\]"),
        ({"milestones": [0, None]}, r"milestones\[1\]: expected a valid integer, got None"),
    ],
)
def test_values_of_another_type_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        from_dict(TrainingConfig, change)


def test_names_of_earlier_versions_are_read() -> None:
    assert from_dict(TrainingConfig, {"max_pieces": 7}) == TrainingConfig(max_tokens=7)


def test_invalid_values_are_rejected_when_read() -> None:
    with pytest.raises(ValueError, match="n_encoder_layers: expected at least 1, got 0"):
        from_dict(
            TransformerConfig, {"source_vocab_size": 37, "target_vocab_size": 37, "n_layers": 0}
        )


def test_a_config_is_frozen(make_config: Callable[..., TransformerConfig]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config().d_ff = 29


def test_the_width_of_a_head_is_given_or_derived(
    make_config: Callable[..., TransformerConfig],
) -> None:
    assert make_config(d_k=5).head_width == 5
    assert make_config(d_k=None, n_heads=7).head_width == 2


@pytest.mark.parametrize(
    ("milestones", "expected"),
    [
        ((), (300,)),
        ((0, 100, 500), (0, 100, 300)),
        ((100, 0, 100), (0, 100, 300)),
        ((300, 301), (300,)),
    ],
)
def test_milestones_end_with_the_last_step(
    milestones: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert TrainingConfig(steps=300, milestones=milestones).all_milestones == expected
