"""Configurations of the model and of its training, and what else ``run.json`` has.

They are frozen, validated, and rebuildable from JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from headwise.model.interface import Description
from headwise.model.validation import validate_json

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of ``<pad> <unk> <s> </s>``, the same in every vocabulary of the project."""

MOST_STEPS = 9_999_999
"""Largest step: file names have seven digits for it."""

FORMER_NAMES = {"max_pieces": ("max_tokens",), "n_layers": ("n_encoder_layers", "n_decoder_layers")}
"""Keys in files of earlier versions, and the keys that replace them."""

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


def _check(
    config: object, names: tuple[str, ...], fits: Callable[[Any], bool], expected: str
) -> None:
    """Raise a ValueError that names the first field whose value does not fit."""
    for name in names:
        if not fits(value := getattr(config, name)):
            raise ValueError(f"{name}: expected {expected}, got {value}")


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that decides the shape and the arithmetic of a model."""

    source_vocab_size: int
    """Number of source tokens, special ones included."""
    target_vocab_size: int
    """Number of target tokens, special ones included."""
    n_encoder_layers: int = 3
    """N: layers of the encoder."""
    n_decoder_layers: int = 3
    """Layers of the decoder; the paper has as many as in the encoder."""
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
    """Whether each stack ends in a layer norm (useful with pre-norm)."""
    attention_bias: bool = True
    """Whether the query, key, value and output projections have biases."""
    output_bias: bool = False
    """Whether the logits have a bias."""
    tied: Literal["none", "output", "all"] = "all"
    """Which weights are shared: none, target embedding with output, or both embeddings with output
    (as in the paper)."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of d_model, as in section 3.4 of the paper."""
    dropout: float = 0.1
    """Dropout on the output of each sublayer, and on the sum of embeddings and positions."""
    hidden_dropout: float = 0.0
    """Dropout between the feed-forward's two layers (not in the paper)."""
    max_length: int = 1024
    """Longest source or target, in tokens."""

    def __post_init__(self) -> None:
        vocabularies = ("source_vocab_size", "target_vocab_size")
        _check(self, vocabularies, lambda n: n > EOS, f"at least {EOS + 1} (four special tokens)")
        counts = ("n_encoder_layers", "n_decoder_layers", "n_heads", "d_model", "d_ff")
        _check(self, (*counts, "max_length"), lambda n: n >= 1, "at least 1")
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
        _check(self, ("dropout", "hidden_dropout"), lambda p: 0 <= p < 1, "0 <= p < 1")
        if self.tied == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "tied='all' needs one vocabulary for both languages, got "
                f"{self.source_vocab_size} source and {self.target_vocab_size} target tokens; "
                "use tied='output' or 'none'"
            )

    @property
    def head_width(self) -> int:
        """Return d_k, given or derived."""
        return self.d_k if self.d_k is not None else self.d_model // self.n_heads

    @cached_property
    def description(self) -> Description:
        """Return the properties of the model that pages and analyses use."""
        shared = {each.name for each in dataclasses.fields(Description)}
        return Description(
            n_encoder_heads=self.n_heads,
            n_decoder_heads=self.n_heads,
            encoder_d_k=self.head_width,
            decoder_d_k=self.head_width,
            encoder_d_ff=self.d_ff,
            decoder_d_ff=self.d_ff,
            **{name: value for name, value in vars(self).items() if name in shared},
        )


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides how a model is trained, apart from the data."""

    steps: int = 10_000
    """Optimiser steps in all."""
    batch_tokens: int = 2_048
    """Target tokens of a batch, padding included, whatever the number of processes."""
    batch_pairs: int | None = None
    """Pairs of a batch, drawn at random; used instead of batch_tokens, whose batches have pairs of
    similar length."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    schedule: Literal["cosine", "noam", "trapezoid", "constant"] = "cosine"
    """Learning rate: cosine to zero, the paper's inverse square root, flat then linear to zero, or
    flat. All but constant begin with a linear warm-up."""
    learning_rate: float = 1.2e-3
    """Peak rate (for noam: the rate at the end of the warm-up)."""
    warmup_steps: int = 1_000
    """Steps from zero to the peak rate."""
    decay_steps: int = 0
    """Last steps, in which the trapezoid falls; it is zero one step after the last."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Decay rates of Adam's two moments."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    label_smoothing: float = 0.1
    """Probability spread evenly over the vocabulary instead of on the true token."""
    clip_norm: float = 1.0
    """Largest norm of the gradient, which is scaled down to it; 0 for no limit."""
    precision: Literal["no", "bf16"] = "bf16"
    """Mixed precision of forward and backward; weights stay float32."""
    max_tokens: int = 100
    """Longest source or target, special tokens included; pairs with a longer one are dropped."""
    join: float = 0.0
    """Probability that 2 to 8 pairs, drawn at random, become one pair of at most max_tokens a side,
    so that the model learns long inputs; 0 joins none."""
    replace: float = 0.0
    """Probability that the names and numbers that both sentences of a pair contain are replaced by
    others in both, so that the model learns to copy; 0 replaces none."""
    address: float = 0.0
    """Probability that both sentences of a pair without names begin by addressing somebody, whose
    name is then in a frame of its own ("Okafor, where are the keys?"); 0 changes none."""
    bpe_dropout: float = 0.0
    """Probability that a merge of the byte-pair encoding is left out when a training pair is split
    into tokens, anew in every epoch (BPE-dropout, Provilkov et al. 2020, who take 0.1), so that the
    model sees words in many splits; 0 leaves out none. Translations are split as ever."""
    plain_epochs: int = 0
    """Epochs, from the first, in which pairs stay as they are, not joined or replaced or split in
    other ways: the model learns its corpus before it learns what the corpus rarely has."""
    milestones: tuple[int, ...] = (0, 100, 200, 500, 1_000, 2_000, 5_000)
    """Steps at which weights are saved and evaluated; the last step is always one."""
    log_every: int = 50
    """Steps between two lines of metrics."""
    resume_every: int = 500
    """Steps between two saves of the training state, from which a stopped training resumes."""
    seed: int = 0
    """Seed of initialisation, dropout and the order of the data."""

    def __post_init__(self) -> None:
        counts = ("steps", "batch_tokens", "accumulate", "max_tokens", "log_every", "resume_every")
        _check(self, counts, lambda n: n >= 1, "at least 1")
        _check(self, ("batch_pairs",), lambda n: n is None or n >= 1, "at least 1")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps: expected at most {MOST_STEPS:,}, got {self.steps:,}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: expected two numbers from 0 to below 1, got {self.betas}")
        _check(self, ("join", "replace", "address"), lambda p: 0 <= p <= 1, "0 <= p <= 1")
        _check(self, ("bpe_dropout",), lambda p: 0 <= p < 1, "0 <= p < 1")
        _check(self, ("learning_rate",), lambda rate: 0 < rate < float("inf"), "more than 0")
        _check(self, ("seed",), lambda seed: 0 <= seed < 2**32, f"0 to {2**32 - 1}")
        _check(self, ("plain_epochs",), lambda n: n >= 0, "0 or more")
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
        _check(self, ("label_smoothing",), lambda x: 0 <= x < 1, "0 <= x < 1")
        if self.clip_norm < 0 or self.weight_decay < 0:
            raise ValueError(
                "clip_norm and weight_decay: expected 0 or more, got "
                f"{self.clip_norm} and {self.weight_decay}"
            )
        if any(step < 0 for step in self.milestones):
            raise ValueError(f"milestones: expected steps from 0 on, got {self.milestones}")

    @property
    def changes_texts(self) -> bool:
        """Return whether training pairs are encoded anew in every epoch, from their texts."""
        return bool(self.replace or self.address or self.bpe_dropout)

    @property
    def all_milestones(self) -> tuple[int, ...]:
        """Return the milestones up to the last step, in order; the last step is included."""
        return tuple(sorted({step for step in self.milestones if step < self.steps} | {self.steps}))


def to_dict(config: Any) -> dict[str, Any]:
    """Convert a configuration to plain JSON values."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(config).items()
    }


def from_dict(type_: type[Config], values: Mapping[str, Any]) -> Config:
    """Rebuild what ``to_dict`` wrote, now or earlier; what is refused is a ValueError."""
    try:
        return validate_json(type_, json.dumps(_with_present_names(values)))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _with_present_names(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: _with_present_names(item)
        for key, item in value.items()
        for name in FORMER_NAMES.get(key, (key,))
    }


FORMAT_VERSION = 1
"""Version of the format of a run's folder; other versions are refused."""
_Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A count that fits into int64."""
_LARGEST = {
    "n_encoder_layers": 1_000,
    "n_decoder_layers": 1_000,
    "n_heads": 1_000,
    "d_k": 100_000,
    "d_model": 100_000,
    "d_ff": 1_000_000,
    "max_length": 1_000_000,
}
"""Largest sizes that are accepted; the app makes widgets and arrays of these sizes."""


@dataclass(frozen=True)
class DataSource:
    """The data that a run was trained on, with licence and attribution."""

    name: str
    licence: str
    attribution: str
    train_file: str
    train_sha256: str
    train_pairs: _Count
    valid_file: str
    valid_sha256: str
    longest_source: _Count
    """Most tokens of a training source, ``</s>`` included; of joined pairs, the most allowed."""
    held_back: _Count = 0
    """Number of pairs that were held back from the training file and are the validation file, which
    is then in the run's folder; 0 if that is another file."""
    left_out: _Count = 0
    """Number of pairs of the training file that were left out because a text of them is in data
    that the model must not have seen."""


@dataclass(frozen=True)
class RunInfo:
    """The contents of ``run.json``."""

    name: str
    source_language: str
    target_language: str
    model: TransformerConfig
    training: TrainingConfig | None
    """None if the run was converted from a file that does not say how it was trained."""
    data: DataSource | None
    """None if the run was converted from a file that does not say what it was trained on."""
    parameters: _Count
    tokenizer_sha256: Mapping[str, str]
    """sha256 of each tokenizer file, by name; one file if the languages share a tokenizer."""
    source_start: bool = False
    """Whether each source begins with ``<s>``."""

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            size = getattr(self.model, name)
            if size is not None and size > largest:
                raise ValueError(f"{name}: expected at most {largest:,}, got {size!r:.20}")

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON values, the format version first."""
        return {"format_version": FORMAT_VERSION, **to_dict(self)}

    @classmethod
    def from_json(cls, values: object) -> RunInfo:
        """Rebuild from the output of ``to_json``; what is refused is a ValueError."""
        if not isinstance(values, Mapping):
            raise ValueError(f"expected an object, got {type(values).__name__}")
        values = dict(values)
        if (version := values.pop("format_version", None)) != FORMAT_VERSION:
            raise ValueError(
                f"format version {version!r}; this program reads {FORMAT_VERSION}, "
                "use the version of it that wrote the run"
            )
        return from_dict(cls, values)


@dataclass(frozen=True)
class Counts:
    """Counts how often each id occurs in the training data, for each side."""

    source: list[_Count]
    target: list[_Count]
