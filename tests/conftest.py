"""Tiny models for every test: prime dimensions, so that a transposed axis cannot pass by luck.

And a tiny run, trained once for a few steps on the sentences in ``tests/data``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from headwise.model.config import EOS, TrainingConfig, TransformerConfig
from headwise.model.transformer import Transformer

pytest.register_assert_rewrite("tests.browser.driver")

if TYPE_CHECKING:  # they take seconds to import, and few tests need them
    from headwise.model.checkpoint import TrainedRun
    from headwise.model.training.options import TrainArguments

os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

DATA = Path(__file__).parent / "data"

settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, max_examples=25
)
settings.load_profile("project")


def _config(**changes: Any) -> TransformerConfig:
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


def _model(**changes: Any) -> Transformer:
    torch.manual_seed(7)
    model = Transformer(_config(**changes))
    with torch.no_grad():
        for parameter in model.parameters():  # else biases are all 0 and norms all 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def _ids(lengths: Sequence[int], vocab_size: int, *, seed: int = 11) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(EOS + 1, vocab_size, (n,), generator=generator) for n in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Computes each result in one thread: several may share it out in another way each time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_config() -> Callable[..., TransformerConfig]:
    """A tiny configuration, with the given fields changed."""
    return _config


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Transformer]:
    """A tiny model in eval mode, always of the same weights; takes changes of its configuration."""
    return _model


@pytest.fixture(scope="session")
def make_ids() -> Callable[..., Tensor]:
    """Random tokens: lengths and vocabulary size → ids (B, longest), padded on the right."""
    return _ids


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where ``train.jsonl`` (flat schema) and ``valid.jsonl`` (nested) are, English and Spanish."""
    return DATA


@pytest.fixture(scope="session")
def datasets_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keeps what ``datasets`` caches out of the home folder."""
    import datasets

    folder = tmp_path_factory.mktemp("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
        yield folder


@pytest.fixture(scope="session")
def make_arguments(datasets_cache: Path) -> Callable[..., TrainArguments]:
    """Arguments of a tiny training in a folder; takes changes of its ``TrainingConfig``.

    An epoch has 9 batches and a step takes 2 of them: the first epoch ends within the fifth step.
    """
    from headwise.model.training.options import TrainArguments

    model = TransformerConfig(
        420,
        420,
        n_encoder_layers=1,
        n_decoder_layers=1,
        n_heads=2,
        d_model=14,
        d_ff=23,
        max_length=61,
    )
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

    def make(root: Path, **changes: Any) -> TrainArguments:
        return TrainArguments(
            run="tiny",
            train=str(DATA / "train.jsonl"),
            valid=str(DATA / "valid.jsonl"),
            licence="CC0-1.0",
            checkpoints=root,
            model=model,
            training=replace(training, **changes),
        )

    return make


@pytest.fixture(scope="session")
def to_flags() -> Callable[[TrainArguments], list[str]]:
    """A training as its command line says it."""

    def flags(arguments: TrainArguments) -> list[str]:
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

    return flags


@pytest.fixture(scope="session")
def trained_root(
    make_arguments: Callable[..., TrainArguments], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs that holds one, ``tiny``, trained to the end. Read it; change a copy."""
    from headwise.model.train import main

    root = tmp_path_factory.mktemp("runs")
    main(make_arguments(root))
    return root


@pytest.fixture(scope="session")
def trained_run(trained_root: Path) -> TrainedRun:
    """The run in ``trained_root``."""
    from headwise.model.checkpoint import open_trained_run

    return open_trained_run("tiny", root=trained_root)
