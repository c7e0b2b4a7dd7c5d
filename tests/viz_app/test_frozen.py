"""Sessions share records and results of analyses, so that nobody may change them."""

from __future__ import annotations

import pkgutil
from dataclasses import is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import pytest

import headwise.viz_app.analysis
import headwise.viz_app.records


@pytest.mark.parametrize("package", [headwise.viz_app.analysis, headwise.viz_app.records])
def test_dataclasses_are_frozen(package: ModuleType) -> None:
    classes = {
        value
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and is_dataclass(value)
    }
    assert len(classes) > 15
    assert [each for each in classes if not cast(Any, each).__dataclass_params__.frozen] == []
