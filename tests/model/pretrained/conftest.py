"""Tiny models of each family, and folders of them, made once a session."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.model.pretrained.folders import quiet
from tests.model.pretrained import tiny
from tests.tiny import DATA


@pytest.fixture(scope="session")
def make_twins() -> Callable[[str], tiny.Twins]:
    """Return a function that makes a family's float64 twins, once. Read them; change your own."""
    return functools.cache(functools.partial(tiny.build, dtype=torch.float64))


@pytest.fixture(params=tiny.FAMILY_NAMES)
def twins(request: pytest.FixtureRequest, make_twins: Callable[[str], tiny.Twins]) -> tiny.Twins:
    """Twins of every family, one after the other."""
    return make_twins(request.param)


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> tiny.MakeFolder:
    """Return a function that makes a folder of ``FOLDERS``, once. Read it, or change a copy."""
    rows = [json.loads(line) for line in (DATA / "train.jsonl").read_text().splitlines()]
    sentences: tiny.Texts = {language: [row[language] for row in rows] for language in ("en", "es")}

    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with quiet():
            tiny.FOLDERS[name](folder, sentences)
        return folder

    return functools.cache(make)


@pytest.fixture
def folder(make_folder: tiny.MakeFolder, tmp_path: Path) -> Path:
    """A T5's folder that a test may damage."""
    return shutil.copytree(make_folder("t5"), tmp_path / "t5")


@pytest.fixture
def training(make_folder: tiny.MakeFolder, tmp_path: Path) -> Path:
    """A Trainer's folder of a Marian with two checkpoints; the tokenizer only at the top."""
    top = tmp_path / "out"
    model = ("config.json", "generation_config.json", tiny.WEIGHTS)
    shutil.copytree(make_folder("marian"), top)
    for step in (20, 100):
        place = top / f"checkpoint-{step}"
        place.mkdir()
        for name in model:
            shutil.copy(top / name, place / name)
        (place / "trainer_state.json").write_text(tiny.trainer_state(step))
        (place / "training_args.bin").write_bytes(b"a pickle")
    weights = load_file(top / tiny.WEIGHTS)
    weights["model.decoder.layers.0.fc1.weight"] *= 2
    save_file(weights, top / "checkpoint-100" / tiny.WEIGHTS, {"format": "pt"})
    for name in model:
        (top / name).unlink()
    return top
