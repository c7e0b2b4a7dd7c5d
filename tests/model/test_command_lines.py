"""Test what the command lines have in common."""

from __future__ import annotations

import dataclasses
import importlib
import re
import runpy
import sys
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


@pytest.mark.parametrize(
    "module",
    [
        *(
            "headwise.model.train",
            "headwise.model.translate",
            "headwise.model.evaluate",
            "headwise.model.convert",
        ),
        *(
            "headwise.viz_app.measure",
            "headwise.viz_app.export",
            "headwise.viz_app.align",
            "headwise.viz_app.measuring.align",
        ),
    ],
)
def test_usage_is_what_a_person_types(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the path of a file, which cannot be run."""
    monkeypatch.setattr(sys, "argv", ["/a/path.py", "--help"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out.startswith(f"usage: python -m {module} ")
