"""Configurations, and JSON that is read as values of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headwise.model.config import TrainingConfig, TransformerConfig, from_dict
from headwise.model.validation import format_version, validate_json
from tests.tiny import tiny_config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({f"{side}_vocab_size": 3}, rf"{side}_vocab_size: expected at least 4 .*, got 3")
            for side in ("source", "target")
        ),
        *(
            ({name: 0}, f"{name}: expected at least 1, got 0")
            for name in ("n_encoder_layers", "n_heads", "d_model", "d_ff", "max_length")
        ),
        ({"d_k": 0}, "d_k: expected at least 1, got 0; leave it out for D / h"),
        ({"d_k": None}, "d_model 14 is not a multiple of n_heads 3; choose another or set d_k"),
        ({"d_model": 13}, r"d_model: expected an even number .*, got 13"),
        ({"dropout": 1.0}, "dropout: expected 0 <= p < 1, got 1.0"),
        ({"hidden_dropout": 1.5}, "hidden_dropout: expected 0 <= p < 1, got 1.5"),
        ({"tied": "all"}, "got 37 source and 41 target tokens; use tied='output' or 'none'"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({name: 0}, f"{name}: expected at least 1, got 0")
            for name in (
                *("steps", "batch_tokens", "batch_pairs", "accumulate", "max_tokens"),
                *("log_every", "resume_every"),
            )
        ),
        ({"steps": 10_000_000}, "steps: expected at most 9,999,999, got 10,000,000"),
        ({"learning_rate": 0.0}, "learning_rate: expected more than 0, got 0.0"),
        ({"betas": (0.9, 1.0)}, r"betas: expected two numbers from 0 to below 1, got \(0.9, 1.0\)"),
        ({"join": 1.1}, "join: expected 0 <= p <= 1, got 1.1"),
        ({"bpe_dropout": 1.0}, "bpe_dropout: expected 0 <= p < 1, got 1.0"),
        ({"plain_epochs": -1}, "plain_epochs: expected 0 or more, got -1"),
        ({"seed": 2**32}, "seed: expected 0 to 4294967295, got 4294967296"),
        *(
            ({name: -1}, f"{both}: expected 0 or more")
            for both in ("warmup_steps and decay_steps", "clip_norm and weight_decay")
            for name in both.split(" and ")
        ),
        ({"decay_steps": 7}, "decay_steps belongs to schedule 'trapezoid', got 'cosine'; leave"),
        (
            {"schedule": "trapezoid", "steps": 11, "warmup_steps": 5, "decay_steps": 7},
            r"warmup_steps 5 \+ decay_steps 7 do not fit in 11 steps",
        ),
        ({"label_smoothing": 1.0}, "label_smoothing: expected 0 <= x < 1, got 1.0"),
        ({"milestones": (0, -5)}, r"milestones: expected steps from 0 on, got \(0, -5\)"),
    ],
)
def test_a_training_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**changes)


def test_names_of_earlier_versions_are_read() -> None:
    assert from_dict(TrainingConfig, {"max_pieces": 7}) == TrainingConfig(max_tokens=7)
    sizes = {"source_vocab_size": 37, "target_vocab_size": 37}
    expected = TransformerConfig(37, 37, n_encoder_layers=2, n_decoder_layers=2)
    assert from_dict(TransformerConfig, sizes | {"n_layers": 2}) == expected


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


# JSON


@dataclass(frozen=True)
class Rates:
    values: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Settings:
    name: str
    size: int = 1
    on: bool = False
    rates: Rates = Rates()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")


def test_json_becomes_the_value_of_a_type() -> None:
    content = '{"name": "a", "size": 3, "rates": {"values": [2, 0.5]}}'
    assert validate_json(Settings, content) == Settings("a", 3, rates=Rates((2.0, 0.5)))
    assert validate_json(dict[str, int], b'{"a": 1}') == {"a": 1}
    assert validate_json(Settings, '{"name": "a", "b": 7}', extra="ignore") == Settings("a")


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (Settings, '{"name": 5}', "name: expected a valid string, got 5"),
        (Settings, '{"name": "a", "size": "3"}', "size: expected a valid integer, got '3'"),
        (Settings, '{"name": "a", "size": true}', "size: expected a valid integer, got True"),
        (Settings, '{"size": 3}', r"name: Field required, got \{'size': 3\}"),
        (Settings, '{"name": "a", "b": 7}', "b: Unexpected keyword argument, got 7"),
        (Settings, '{"name": "a", "size": 0}', "size: expected at least 1, got 0"),
        (
            Settings,
            '{"name": "a", "rates": {"values": [1, null]}}',
            r"rates\.values\[1\]: expected a valid number, got None",
        ),
        (TrainingConfig, '{"precision": "fp8"}', "precision: expected 'no' or 'bf16', got 'fp8'"),
        (list[int], '[1, "2"]', r"\[1\]: expected a valid integer, got '2'"),
        (Settings, r'{"name": "a", "niña\u001b[2J": 7}', r"niña\\x1b\[2J: Unexpected keyword .* 7"),
        (list[int], "[1,", "content: Invalid JSON: EOF.*"),
        (list[int], f'["{"x" * 99}"]', rf"\[0\]: expected a valid integer, got '{'x' * 39}"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(kind: Any, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        validate_json(kind, content)


def test_the_format_version_is_read_whatever_else_there_is() -> None:
    assert format_version(b'{"format_version": 2, "a": [null]}') == 2
    assert format_version(b'{"format_version": null}') is None
    for content in (b"{}", b"[2]", b"{"):
        with pytest.raises(ValueError, match="got "):
            format_version(content)
