"""Sessions share what is computed: nobody may change it under another."""

from __future__ import annotations

import pkgutil
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, cast

import viz_app.analysis


def test_what_analysis_gives_back_cannot_be_changed() -> None:
    records = {
        value
        for module in pkgutil.iter_modules(viz_app.analysis.__path__, "viz_app.analysis.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and is_dataclass(value)
    }
    assert len(records) > 15
    changeable = [each for each in records if not cast(Any, each).__dataclass_params__.frozen]
    assert changeable == []
