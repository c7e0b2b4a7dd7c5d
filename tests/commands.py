"""Modules that are run as ``python -m`` runs them, in this process."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec

import pytest


def run_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a module, or the ``__main__`` of a package, that may have been imported before.

    The package itself stays: imported again, it would not have the modules that are in it.
    """
    found = find_spec(name)
    is_package = found is not None and found.submodule_search_locations is not None
    monkeypatch.delitem(sys.modules, f"{name}.__main__" if is_package else name, raising=False)
    runpy.run_module(name, run_name="__main__", alter_sys=True)
