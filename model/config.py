"""Configurations of the model and of its training: frozen, validated, rebuildable from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of ``<pad> <unk> <s> </s>``, the same in every vocabulary of the project."""

MOST_STEPS = 9_999_999
"""File names have seven digits for a step."""

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that decides the shape and the arithmetic of a model."""

    source_vocab_size: int
    """Number of source pieces, special ones included."""
    target_vocab_size: int
    """Number of target pieces, special ones included."""
    n_layers: int = 3
    """N: layers of the encoder, and of the decoder."""
    n_heads: int = 4
    """h: attention heads in every layer."""
    d_model: int = 192
    """D: width of the stream that runs through the layers."""
    d_ff: int = 768
    """Width of the feed-forward's hidden layer."""
    d_k: int | None = None
    """Width of a head's queries, keys and values; None stands for d_model / n_heads."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer (pre), or after each residual sum as in the paper (post)."""
    final_norm: bool = True
    """A last layer norm on top of each stack (of use with norm before the sublayers)."""
    attention_bias: bool = True
    """Biases in the query, key, value and output projections."""
    output_bias: bool = False
    """A bias on the logits."""
    tied: Literal["none", "output", "all"] = "all"
    """Shared weights: target embedding with output, or both embeddings with output (the paper)."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of d_model, as in section 3.4 of the paper."""
    dropout: float = 0.1
    """On the output of each sublayer, and on the sum of embeddings and positions."""
    hidden_dropout: float = 0.0
    """Between the feed-forward's two layers (not in the paper)."""
    max_length: int = 1024
    """Longest source or target, in pieces."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("source_vocab_size", "target_vocab_size"):
            if getattr(self, name) <= EOS:
                raise ValueError(
                    f"{name}: expected at least {EOS + 1} (four special pieces), "
                    f"got {getattr(self, name)}"
                )
        for name in ("n_layers", "n_heads", "d_model", "d_ff", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.d_k is not None and self.d_k < 1:
            raise ValueError(f"d_k: expected at least 1, got {self.d_k}; leave it out for D / h")
        if self.d_k is None and self.d_model % self.n_heads:
            raise ValueError(
                f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}; "
                "choose another or set d_k"
            )
        if self.d_model % 2:
            raise ValueError(
                f"d_model: expected an even number (sine and cosine pairs), got {self.d_model}"
            )
        for name in ("dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 0 <= p < 1, got {getattr(self, name)}")
        if self.tied == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "tied='all' needs one vocabulary for both languages, got "
                f"{self.source_vocab_size} source and {self.target_vocab_size} target pieces; "
                "use tied='output' or 'none'"
            )

    @property
    def head_width(self) -> int:
        """d_k, given or derived."""
        return self.d_k if self.d_k is not None else self.d_model // self.n_heads


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides how a model is trained, apart from the data."""

    steps: int = 10_000
    """Optimiser steps in all."""
    batch_tokens: int = 2_048
    """Target tokens of a batch, padding included, whatever the number of processes."""
    batch_pairs: int | None = None
    """Pairs of a batch, drawn at random; takes the place of batch_tokens and its batches of similar
    length."""
    accumulate: int = 1
    """Batches added up for one step."""
    schedule: Literal["cosine", "noam", "trapezoid", "constant"] = "cosine"
    """Learning rate: cosine to zero, the paper's inverse square root, flat then linear to zero, or
    flat. All but constant begin with a linear warm-up."""
    learning_rate: float = 1.2e-3
    """Peak rate (for noam: the rate at the end of the warm-up)."""
    warmup_steps: int = 1_000
    """Steps from zero to the peak rate."""
    decay_steps: int = 0
    """Last steps, in which the trapezoid falls to zero."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Decay rates of Adam's two moments."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    label_smoothing: float = 0.1
    """Probability spread evenly over the vocabulary instead of on the true piece."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    precision: Literal["no", "bf16"] = "bf16"
    """Mixed precision of forward and backward; weights stay float32."""
    max_pieces: int = 100
    """Pairs with a longer side are dropped; special pieces count."""
    milestones: tuple[int, ...] = (0, 100, 200, 500, 1_000, 2_000, 5_000)
    """Steps at which weights are kept and measured; the last step is always one."""
    log_every: int = 50
    """Steps between two lines of metrics."""
    resume_every: int = 500
    """Steps between two saves of the state from which a training can go on."""
    seed: int = 0
    """Of initialisation, dropout and the order of the data."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (
            "steps",
            "batch_tokens",
            "accumulate",
            "max_pieces",
            "log_every",
            "resume_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.batch_pairs is not None and self.batch_pairs < 1:
            raise ValueError(f"batch_pairs: expected at least 1, got {self.batch_pairs}")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps: expected at most {MOST_STEPS:,}, got {self.steps:,}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: expected two numbers from 0 to below 1, got {self.betas}")
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate: expected more than 0, got {self.learning_rate}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: expected 0 to {2**32 - 1}, got {self.seed}")
        if self.warmup_steps < 0 or self.decay_steps < 0:
            raise ValueError(
                "warmup_steps and decay_steps: expected 0 or more, got "
                f"{self.warmup_steps} and {self.decay_steps}"
            )
        if self.decay_steps and self.schedule != "trapezoid":
            raise ValueError(
                f"decay_steps belongs to schedule 'trapezoid', got '{self.schedule}'; leave it out"
            )
        if self.warmup_steps + self.decay_steps > self.steps and self.schedule == "trapezoid":
            raise ValueError(
                f"warmup_steps {self.warmup_steps} + decay_steps {self.decay_steps} do not fit in "
                f"{self.steps} steps"
            )
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing: expected 0 <= x < 1, got {self.label_smoothing}")
        if self.clip_norm < 0 or self.weight_decay < 0:
            raise ValueError(
                "clip_norm and weight_decay: expected 0 or more, got "
                f"{self.clip_norm} and {self.weight_decay}"
            )
        if any(step < 0 for step in self.milestones):
            raise ValueError(f"milestones: expected steps from 0 on, got {self.milestones}")

    @property
    def all_milestones(self) -> tuple[int, ...]:
        """The milestones up to the last step, in order, the last step among them."""
        return tuple(sorted({step for step in self.milestones if step < self.steps} | {self.steps}))


def check_kinds(config: Any) -> None:
    """Refuse values of another kind than the field's: they may come from a file."""
    for name, kind in _kinds(config.__class__).items():
        value = getattr(config, name)
        if not _is_of(kind, value):
            expected = "a whole number" if kind is int else str(getattr(kind, "__name__", kind))
            if get_origin(kind) is Literal:
                expected = f"one of {', '.join(get_args(kind))}"
            raise ValueError(f"{name}: expected {expected}, got {value!r}")


@cache
def _kinds(config: Any) -> dict[str, Any]:
    return get_type_hints(config)


def _is_of(kind: Any, value: object) -> bool:
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return value in parts
    if get_origin(kind) is Mapping:
        return isinstance(value, Mapping)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_of(parts[0], item) for item in value)
    if parts:  # a union
        return any(_is_of(part, value) for part in parts)
    return type(value) in ((int, float) if kind is float else (kind,))


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(config).items()
    }


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Rebuild a configuration from what ``to_dict`` gave.

    Raises:
        ValueError: on unknown or missing keys, or on values the configuration refuses.
    """
    known = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"{kind.__name__}: unknown keys {unknown}; known are {sorted(known)}")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error
