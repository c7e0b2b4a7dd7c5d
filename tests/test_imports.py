"""Who may import whom, and that what is imported is declared. Files are parsed, not run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from itertools import pairwise

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports import DRAWN, FILES, PAGES, ROOT, SECTIONS, all_imports, within


@pytest.mark.parametrize("name", ["model", "viz_app"])
def test_in_a_clone_modules_are_the_files_of_the_folders(name: str) -> None:
    """Not those behind the links: Streamlit watches what is in the folder of the app's script."""
    assert (ROOT / "headwise" / name).is_symlink()
    assert import_module(f"headwise.{name}").__file__ == str(ROOT / name / "__init__.py")


def importers(module: str) -> set[str]:
    """Files that import a module or something inside it."""
    return {
        file
        for file, names in all_imports().items()
        for name in names
        if name == module or name.startswith(f"{module}.")
    }


ABILITIES = within(
    set(FILES), *(f"{file.partition('/section')[0]}/" for file in SECTIONS if "/section" in file)
)
COMPUTE = ABILITIES - SECTIONS
"""Files of abilities: sections draw, and all others compute."""


@pytest.mark.parametrize(
    ("module", "places"),
    [
        ("torch", ["model/", "viz_app/trace/", "viz_app/measuring/", "viz_app/core/", *COMPUTE]),
        ("plotly", ["viz_app/figures/", "viz_app/export.py"]),
        ("transformers", ["model/pretrained/"]),
        ("pandas", ["viz_app/api/"]),
        ("headwise.viz_app.api", ["viz_app/api/", "headwise/__init__.py"]),
        (
            "streamlit",
            [
                *("viz_app/app.py", "viz_app/first_document.py", "viz_app/left_pages.py"),
                *("viz_app/script.py", "viz_app/components/", *DRAWN),
            ],
        ),
        (
            "headwise.viz_app.session",
            [
                "viz_app/frame/",
                "viz_app/session/",
                *SECTIONS,
                *(f"viz_app/{page}/choices.py" for page in PAGES),
            ],
        ),
        ("headwise.viz_app.frame", ["viz_app/script.py", "viz_app/frame/"]),
        (
            "headwise.viz_app.components",
            [*("viz_app/session/", "viz_app/components/", "viz_app/first_document.py"), *SECTIONS],
        ),
    ],
)
def test_a_module_is_imported_in_its_places_only(module: str, places: list[str]) -> None:
    found = importers(module)
    assert found - within(found, *places) == set()


@pytest.mark.parametrize(
    ("place", "modules"),
    [
        ("model/", ["headwise.viz_app", "plotly", "streamlit"]),
        (
            "viz_app/analysis/",
            ["headwise.viz_app.figures", "headwise.viz_app.trace", "torch", "streamlit", "plotly"],
        ),
        (
            "viz_app/figures/",
            ["headwise.viz_app.analysis", "headwise.viz_app.trace", "torch", "streamlit"],
        ),
        (
            "viz_app/lessons/",
            ["headwise.viz_app.figures", "headwise.viz_app.trace", "torch", "streamlit", "plotly"],
        ),
        ("viz_app/api/", ["headwise.viz_app.session", "torch", "streamlit", "plotly"]),
        (
            "viz_app/core/",
            [
                *("headwise.viz_app.heads", "headwise.viz_app.why", "headwise.viz_app.session"),
                *("streamlit", "plotly"),
            ],
        ),
        ("viz_app/records/", ["torch", "streamlit", "plotly"]),
        ("viz_app/trace/", ["headwise.viz_app.analysis", "headwise.viz_app.figures"]),
        ("viz_app/measure.py", ["headwise.viz_app.figures"]),
        ("viz_app/measuring/", ["headwise.viz_app.figures"]),
    ],
)
def test_a_place_imports_none_of_some_modules(place: str, modules: list[str]) -> None:
    assert {
        module: files for module in modules if (files := within(importers(module), place))
    } == {}


@pytest.mark.parametrize(
    ("places", "package", "known"),
    [
        # And in which order near numbers go, which is NumPy only, and what is turned: names only.
        (
            ("records", "analysis", "figures"),
            "headwise.model",
            "headwise.model.(interface|ties|turned)",
        ),
        (("records",), "headwise.viz_app", "headwise.viz_app.records"),
    ],
)
def test_places_know_only_some_modules(places: tuple[str, ...], package: str, known: str) -> None:
    files = within(set(FILES), *(f"viz_app/{place}/" for place in places))
    names = {name for file in files for name in all_imports()[file]}
    assert {
        name
        for name in names
        if re.match(rf"{package}\b", name) and not re.match(rf"{known}\b", name)
    } == set()


@pytest.mark.parametrize(
    "module",
    [
        "headwise.model.checkpoint",
        "headwise.model.decoding",
        "headwise.model.forced",
        "headwise.model.interventions",
        "headwise.model.stream",
        "headwise.model.transformer",
        "headwise.viz_app.trace.attention",
        "headwise.viz_app.trace.layer",
        "headwise.viz_app.trace.sentence",
    ],
)
def test_pages_run_models_through_the_caches_only(module: str) -> None:
    assert importers(module) & DRAWN <= {"viz_app/session/caches.py"}


def test_abilities_do_not_know_each_other() -> None:
    folders = {file.partition("/section")[0] for file in SECTIONS if "/section" in file}
    assert folders
    for folder in folders:
        found = importers(f"headwise.{folder.replace('/', '.')}") & ABILITIES
        assert found - within(found, f"{folder}/") == set()


def test_no_page_knows_another_page() -> None:
    """The session knows what can be chosen on each, and the frame opens it."""
    assert len(PAGES) >= 8
    for page in PAGES:
        package, own = f"headwise.viz_app.{page}", within(set(FILES), f"viz_app/{page}/")
        pages = within(set(FILES) - own, *(f"viz_app/{page}/" for page in PAGES))
        # "Heads by step" on one sentence asks about a word, as "Why" does.
        assert importers(package) & pages <= {"viz_app/training/direct.py"}
        assert importers(f"{package}.choices") - own <= {"viz_app/session/state.py"}
        session = within(importers(package), "viz_app/session/")
        assert session <= {"viz_app/session/state.py"}


@pytest.mark.parametrize(
    ("packages", "others"),
    [
        (["viz_app/analysis/", "viz_app/figures/", "viz_app/lessons/"], {"torch", "streamlit"}),
        (
            ["viz_app/model/", "viz_app/translate/"],
            {
                *("accelerate", "datasets", "pyarrow", "sacrebleu", "tensorboard", "tyro"),
                "transformers",  # only models of others need it
                *("numba", "scipy", "sklearn", "umap"),  # only some analyses need these
            },
        ),
    ],
    ids=["analyses and figures", "the app"],
)
def test_these_packages_load_without_others(packages: list[str], others: set[str]) -> None:
    files = within(set(FILES), *packages)
    assert len(files) > 3 * len(packages)
    modules = ", ".join(f"headwise.{file[:-3].replace('/', '.')}" for file in sorted(files))
    code = f"import sys, {modules}; print(sorted({others!r} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


# What is imported is declared


USED_BY_OTHERS = {"tensorboard", "sentencepiece", "uvloop"}
"""Declared, but imported only by a library of ours: accelerate writes with the first for
--tensorboard, transformers reads Marian's tokenizers with the second, Streamlit's server takes the
third."""
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
