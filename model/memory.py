"""A model that is in memory, such as one's own in a notebook, as a checkpoint.

It is copied as it is now: what its owner goes on to do with it changes nothing here, so that what
is recorded belongs to the sha256 that it names, and nothing here changes the owner's model.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.model.hooks import copy_without_hooks
from headwise.model.interface import (
    DEFAULT_LANGUAGES,
    Choices,
    Description,
    Languages,
    Origin,
    Tokenizers,
)
from headwise.model.weights import Checkpoint


@dataclass(frozen=True)
class MemoryRun:
    """A run of one checkpoint, which is in memory; ``Run`` in ``model/runs.py`` describes it."""

    checkpoint: Checkpoint
    tokenizers: Tokenizers
    languages: Languages = DEFAULT_LANGUAGES
    # Nothing is known of how the weights came about.
    data = training = config = counts = planned_steps = None
    choices, adapter, remarks = Choices(), "", ()

    @property
    def folder(self) -> Path:
        """Return a path that is no folder: it has no files."""
        return Path(f"<{self.name}>")

    @property
    def name(self) -> str:
        return self.checkpoint.run

    @property
    def source_language(self) -> str:
        return self.languages.source or ""

    @property
    def target_language(self) -> str:
        return self.languages.target or ""

    @property
    def parameters(self) -> int:
        return sum(weights.numel() for _, weights in self.checkpoint.model.named_parameters())

    @property
    def description(self) -> Description:
        return self.checkpoint.model.description

    @property
    def tokenizers_sha256(self) -> str:
        """Return a text that no tokenizers on disk have as their hash, since these have no file."""
        return f"in memory {id(self.tokenizers)}"

    @property
    def ignored_settings(self) -> dict[str, Any]:
        return {}

    def for_languages(self, languages: Languages) -> MemoryRun:
        """Refuse another choice: it is made when the model is wrapped."""
        if languages != self.languages:
            raise ValueError("languages: expected those with which the model was wrapped")
        return self

    def steps(self) -> list[int]:
        return [self.checkpoint.step]

    def weights_path(self, step: int) -> Path:
        return self.folder

    def load(self, step: int, dtype: torch.dtype = torch.float32) -> Checkpoint:
        """Return the checkpoint as it is, in the type that its weights have."""
        if step != self.checkpoint.step:
            raise ValueError(f"expected step {self.checkpoint.step:,}, the only one, got {step:,}")
        return self.checkpoint

    def sha256(self, step: int) -> str:
        return self.load(step).sha256

    def metrics(self) -> list[dict[str, Any]]:
        return []


def wrap_model(
    model: nn.Module,
    tokenizer: Any,
    *,
    name: str = "in memory",
    step: int = 0,
    languages: Languages = DEFAULT_LANGUAGES,
    target_tokenizer: Any = None,
) -> MemoryRun:
    """Copy a ``Seq2SeqModel``, or a model of ``transformers``, into a run of one checkpoint.

    Its owner's model keeps its mode, gradients, hooks and attention; the copy, of the same size,
    has no hooks. ``tokenizer`` is that of ``transformers``, or the ``Tokenizers`` of a model of
    ours; ``target_tokenizer`` is only for the target. An unknown family, or a tokenizer with more
    tokens than the model, is a CheckpointError; no encoder-decoder with an output layer, one that
    cannot be copied, or an unknown language is a ValueError.
    """
    ours = hasattr(model, "new_cache") and hasattr(model, "unembed")
    if not ours:
        from headwise.model.pretrained.model import wrap_pretrained

    copied = copy_without_hooks(model)
    origin = Origin(name, step, sha256_of(copied))
    if not ours:
        wrapped, tokenizers = wrap_pretrained(
            copied, tokenizer, languages=languages, target_tokenizer=target_tokenizer
        )
        wrapped.origin = origin
        return MemoryRun(Checkpoint(wrapped), tokenizers, languages)
    if not hasattr(tokenizer, "encode_source"):
        raise ValueError(
            "tokenizer: expected the tokenizers of a run, such as headwise.open(…).tokenizers, got "
            f"{type(tokenizer).__name__}"
        )
    inner: Any = copied.requires_grad_(False).eval()
    inner.origin = origin
    return MemoryRun(Checkpoint(inner), tokenizer, languages)


def sha256_of(model: nn.Module) -> str:
    """Return a hash of the weights and buffers in memory: of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
