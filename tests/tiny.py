"""Tiny models, trainings and runs; ``tests/conftest.py`` gives the same to tests as fixtures.

Dimensions are prime, so that a transposed axis cannot pass by luck.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch
from torch import Tensor

from headwise.model.config import EOS, TrainingConfig, TransformerConfig
from headwise.model.masks import pad
from headwise.model.transformer import Transformer
from tests.imports import ROOT

if TYPE_CHECKING:  # they take seconds to import, and few tests need them
    from headwise.model.checkpoint import TrainedRun
    from headwise.model.config import Counts, DataSource
    from headwise.model.tokenizer import TokenizerPair
    from headwise.model.training.options import TrainArguments

DATA = Path(__file__).parent / "data"
"""Has ``train.jsonl`` (flat schema) and ``valid.jsonl`` (nested), English and Spanish."""


def tiny_config(**changes: Any) -> TransformerConfig:
    """Return a tiny configuration, with the given fields changed."""
    values: dict[str, Any] = {
        "source_vocab_size": 37,
        "target_vocab_size": 41,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "n_heads": 3,
        "d_k": 5,
        "d_model": 14,
        "d_ff": 23,
        "tied": "output",
        "max_length": 31,
    }
    return TransformerConfig(**(values | changes))


def tiny_model(*, noise: float = 0.1, **changes: Any) -> Transformer:
    """Build an untrained model in eval mode, always of the same weights.

    Without noise, all biases would be 0 and all gains of norms 1.
    """
    torch.manual_seed(7)
    model = Transformer(tiny_config(**changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    return model.eval()


def tiny_ids(lengths: Sequence[int], vocab_size: int, *, seed: int = 11) -> Tensor:
    """Random tokens of so many rows: ids (B, longest), padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(EOS + 1, vocab_size, (n,), generator=generator) for n in lengths]
    return pad([row.tolist() for row in rows])


def write_run(
    folder: Path,
    models: dict[int, Transformer],
    tokenizers: TokenizerPair,
    *,
    counts: Counts | None = None,
    data: DataSource | None = None,
    languages: tuple[str, str] = ("en", "es"),
) -> TrainedRun:
    """Write a run of these checkpoints, by step, into a folder named after it, and open it."""
    from headwise.model.checkpoint import (
        create_run,
        open_trained_run,
        save_weights,
        tokenizer_sha256,
    )
    from headwise.model.config import Counts, RunInfo

    model = next(iter(models.values()))
    info = RunInfo(
        name=folder.name,
        source_language=languages[0],
        target_language=languages[1],
        model=model.config,
        training=TrainingConfig(steps=max(models)) if max(models) else None,
        data=data,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tokenizer_sha256=tokenizer_sha256(tokenizers),
        source_start=tokenizers.source_start,
    )
    sizes = model.config.source_vocab_size, model.config.target_vocab_size
    create_run(folder, info, tokenizers, counts or Counts(*([1] * size for size in sizes)))
    for step, each in models.items():
        save_weights(folder, each, run=folder.name, step=step)
    return open_trained_run(folder.name, root=folder.parent)


def tiny_training(root: Path, **changes: Any) -> TrainArguments:
    """Return the arguments of a training into a folder; takes changes of its ``TrainingConfig``.

    An epoch has 9 batches and a step takes 2 of them: the first epoch ends within the fifth step.
    """
    from headwise.model.training.options import TrainArguments

    training = TrainingConfig(
        steps=8,
        batch_tokens=97,
        accumulate=2,
        learning_rate=0.02,
        warmup_steps=2,
        precision="no",
        milestones=(0, 3, 5),
        log_every=1,
        resume_every=4,
        seed=5,
    )
    shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "n_heads": 2, "d_model": 14, "d_ff": 23}
    return TrainArguments(
        run="tiny",
        train=str(DATA / "train.jsonl"),
        valid=str(DATA / "valid.jsonl"),
        licence="CC0-1.0",
        checkpoints=root,
        model=TransformerConfig(420, 420, max_length=61, **shape),
        training=replace(training, **changes),
    )


def flags_of(arguments: TrainArguments) -> list[str]:
    """Return a training as its command line says it."""
    given = ["--run", arguments.run, "--train", arguments.train, "--valid", arguments.valid]
    given += ["--licence", arguments.licence, "--checkpoints", str(arguments.checkpoints)]
    for group in ("model", "training"):
        for name, value in asdict(getattr(arguments, group)).items():
            flag = f"--{group}.{name.replace('_', '-')}"
            if isinstance(value, bool):
                given.append(flag if value else f"--{group}.no-{name.replace('_', '-')}")
            else:
                values = value if isinstance(value, tuple) else (value,)
                given += [flag, *map(str, values)]
    return given


def start_training(
    arguments: TrainArguments, more: Sequence[str] = (), *, log: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Begin a training in a process of its own; what it says goes into the log."""
    cache = arguments.checkpoints.parent / "datasets"
    return subprocess.Popen(
        [sys.executable, "-m", "headwise.model.train", *flags_of(arguments), *more],
        cwd=ROOT,
        env=os.environ | {"HF_DATASETS_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
