"""The command ``python -m headwise.model.convert``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from headwise.model.checkpoint import open_trained_run
from headwise.model.conversion.from_torch import FromTorchArguments
from headwise.model.conversion.layouts import Parts
from headwise.model.conversion.reading import SpecialNames
from tests.model.conversion.tutorials import (
    from_torch,
    tutorial_model,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer


def test_the_command_converts_and_says_what_is_wrong(
    tmp_path: Path, command: Callable[..., str]
) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    given = ["from-torch", arguments.file, "--layout", "torch-nn", "--run", "tutorial"]
    given += ["--source-vocab", arguments.source_vocab, "--target-vocab", arguments.target_vocab]
    given += ["--step", 7, "--checkpoints", arguments.checkpoints, "--source-language", "de"]
    assert "step-0000007.safetensors" in command("convert", *given, "--heads", 2, "--pad", "<pad>")
    assert open_trained_run("tutorial", root=arguments.checkpoints).source_language == "de"
    with pytest.raises(SystemExit, match="error: heads: expected a divisor"):
        command("convert", *given, "--heads", 3)


def test_help_names_every_option(
    command: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit):
        command("convert", "from-torch", "--help")
    text = capfd.readouterr().out
    names = [field.name for kind in (SpecialNames, Parts) for field in fields(kind)]
    names += [field.name for field in fields(FromTorchArguments)]
    for name in set(names) - {"file", "special", "parts"}:
        assert re.search(rf"--{name.replace('_', '-')}[ ,]", text), name
