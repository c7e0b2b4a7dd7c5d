"""What the code imports is declared, and what is declared is imported."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import pairwise

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports import ROOT, all_imports

USED_BY_OTHERS = {"tensorboard", "sentencepiece"}
"""Declared, but imported only by a library of ours: accelerate writes with the first for
--tensorboard, transformers reads Marian's tokenizers with the second."""
NO_DISTRIBUTION = {"headwise", "_typeshed"}
"""Our own packages, and one that exists for type checkers only."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def by_name(requirements: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, requirements)}


DECLARED = by_name(PROJECT["dependencies"])
OPTIONAL = by_name([r for group in PROJECT["optional-dependencies"].values() for r in group])


def pins(file: str) -> dict[str, Requirement]:
    """What a file of requirements pins; other files that it includes are not followed."""
    return by_name(re.findall(r"^\w[^;\\\n]*", (ROOT / file).read_text(encoding="utf-8"), re.M))


def imported_distributions() -> set[str]:
    modules = {name.split(".")[0] for names in all_imports().values() for name in names}
    distributions = packages_distributions()
    return {
        canonicalize_name(distribution)
        for module in modules - sys.stdlib_module_names - NO_DISTRIBUTION
        for distribution in distributions.get(module, [module])
    }


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    assert imported_distributions() | USED_BY_OTHERS == {*DECLARED, *OPTIONAL}
    assert set(DECLARED).isdisjoint(OPTIONAL)


def test_requirements_pin_what_is_declared() -> None:
    """Those for development also pin the extras, which the tests need; eflomal is compiled."""
    assert set(pins("requirements.txt")) == set(DECLARED)
    assert set(pins("requirements-dev.txt")) >= set(OPTIONAL) - {"eflomal"}
    for file in ("requirements.txt", "requirements-dev.txt"):
        for name, requirement in pins(file).items():
            [pin] = requirement.specifier
            assert pin.operator == "=="
            if declared := (DECLARED | OPTIONAL).get(name):
                assert declared.specifier.contains(pin.version), name


def test_the_lock_file_has_the_same_pins_and_hashes_of_all() -> None:
    locked = pins("requirements-lock.txt")
    for file in ("requirements.txt", "requirements-dev.txt"):
        for name, requirement in pins(file).items():
            assert locked[name].specifier == requirement.specifier, name
    lines = (ROOT / "requirements-lock.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    assert all(re.match(r"[a-z0-9].*==|    --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    hashed = [after for line, after in pairwise(lines) if not line.startswith(" ")]
    assert len(hashed) == len(locked)
    assert all(line.startswith("    --hash=") for line in hashed)
