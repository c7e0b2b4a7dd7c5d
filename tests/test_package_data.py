"""Files beside the code, such as the app's settings, are installed with it."""

from __future__ import annotations

import tomllib

import pytest

from tests.imports import ROOT

PATTERNS: dict[str, list[str]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["setuptools"]["package-data"]


@pytest.mark.parametrize("package", ["model", "viz_app"])
def test_each_file_that_is_no_code_is_installed(package: str) -> None:
    folder = ROOT / package
    beside = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"}
    there = {path for path in beside if "__pycache__" not in path.parts}
    installed = {
        path for pattern in PATTERNS[f"headwise.{package}"] for path in folder.glob(pattern)
    }
    assert there - installed == set()
    assert all(any(folder.glob(pattern)) for pattern in PATTERNS[f"headwise.{package}"])


def test_the_settings_are_among_them() -> None:
    assert ".streamlit/config.toml" in PATTERNS["headwise.viz_app"]
