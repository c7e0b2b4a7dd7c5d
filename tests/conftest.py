"""What tests of every folder use: tiny models and a tiny run, trained once for a few steps."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings

from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from tests.tiny import DATA, flags_of, tiny_config, tiny_model, tiny_training

pytest.register_assert_rewrite("tests.browser.driver")

if sys.version_info < (3, 11, 8):  # https://github.com/python/cpython/issues/106905
    _parse = ast.parse

    def _parse_undisturbed(*source: Any, **options: Any) -> Any:
        """A finalizer that formats a traceback, which parses too, would make it a SystemError."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            return _parse(*source, **options)
        finally:
            if was_on:
                gc.enable()

    ast.parse = _parse_undisturbed

if TYPE_CHECKING:  # they take seconds to import, and few tests need them
    from playwright.sync_api import Browser

    from headwise.model.checkpoint import TrainedRun
    from headwise.model.training.options import TrainArguments

os.environ["HF_HUB_OFFLINE"] = "1"
if "HEADWISE_GPU_TESTS" not in os.environ:  # else models of two tests would be on two devices
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

# With --hypothesis-profile=long there are more examples, and others each time;
# --hypothesis-seed repeats them.
settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, max_examples=25
)
settings.register_profile("long", deadline=None, database=None, max_examples=1_000)
settings.load_profile("project")


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
    return tiny_config


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Transformer]:
    """A tiny model in eval mode, always of the same weights; takes changes of its configuration."""
    return tiny_model


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
    """Arguments of a tiny training in a folder; takes changes of its ``TrainingConfig``."""
    return tiny_training


@pytest.fixture(scope="session")
def to_flags() -> Callable[[TrainArguments], list[str]]:
    """A training as its command line says it."""
    return flags_of


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


def _need(program: str | None, missing: str) -> str:
    """Skip a test whose program this machine lacks; where all must run, it fails."""
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    return program


@pytest.fixture(scope="session")
def haproxy() -> str:
    """Where HAProxy is."""
    from tests.deploy.replicas import MISSING, find_haproxy

    return _need(find_haproxy(), MISSING)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    from benchmarks.chromium import MISSING, chromium

    _need(shutil.which("chromium"), MISSING)
    with chromium("--process-per-site") as launch:  # where compiled scripts stay compiled
        browser = launch()
        yield browser
        browser.close()
