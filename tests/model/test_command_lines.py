"""Test what the command lines have in common."""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from collections.abc import Callable, Iterator

import pytest

Command = Callable[..., str]


def options(kind: type, prefix: str = "") -> Iterator[str]:
    for name, hint in typing.get_type_hints(kind).items():
        option = prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            # The ways of decoding, device and type stand among the other options.
            inner = "" if name in ("decoding", "placement") else f"{option}."
            yield from options(typing.cast(type, hint), inner)
        else:
            yield option


@pytest.mark.parametrize("program", ["train", "translate", "evaluate"])
def test_help_names_every_option(
    command: Command,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit) as ended:
        command(program, "--help")
    assert ended.value.code == 0
    text = capfd.readouterr().out
    module = importlib.import_module(f"model.{program}")
    for option in options(getattr(module, f"{program.title()}Arguments")):
        wanted = "Text in UTF-8" if option == "file" else rf"--{re.escape(option)}[ ,│\n]"
        assert re.search(wanted, text), option
