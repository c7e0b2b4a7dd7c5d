"""Who may import whom. Files are parsed, not run."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("model", "viz_app")
    for path in (ROOT / package).rglob("*.py")
)


def imports_of(source: str, file: str) -> Iterator[str]:
    """Full names that a file imports: of modules, and of what it takes from them."""
    package = file.removesuffix("/__init__.py").removesuffix(".py").split("/")
    package = package if file.endswith("__init__.py") else package[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def all_imports() -> dict[str, set[str]]:
    """File → what it imports."""
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in FILES}
    return {file: set(imports_of(source, file)) for file, source in sources.items()}


def importers(module: str) -> set[str]:
    """Files that import a module or something inside it."""
    return {
        file
        for file, names in all_imports().items()
        for name in names
        if name == module or name.startswith(f"{module}.")
    }


def within(files: set[str], *places: str) -> set[str]:
    """Those of the files that are one of some files, or inside one of some folders/."""
    return {
        file
        for file in files
        if any(file == place or (place[-1] == "/" and file.startswith(place)) for place in places)
    }


@pytest.mark.parametrize(
    ("line", "file", "expected"),
    [
        ("import a.b", "viz_app/x.py", {"a.b"}),
        ("import a as b, c", "viz_app/x.py", {"a", "c"}),
        ("from a import b", "viz_app/x.py", {"a", "a.b"}),
        ("from . import b", "viz_app/y/x.py", {"viz_app.y", "viz_app.y.b"}),
        ("from .b import c", "viz_app/y/__init__.py", {"viz_app.y.b", "viz_app.y.b.c"}),
        ("from ..b import c", "viz_app/y/x.py", {"viz_app.b", "viz_app.b.c"}),
        ("def f():\n    import a", "viz_app/x.py", {"a"}),
        ("if TYPE_CHECKING:\n    import a", "viz_app/x.py", {"a"}),
    ],
)
def test_imports_are_found(line: str, file: str, expected: set[str]) -> None:
    assert set(imports_of(line, file)) == expected


@pytest.mark.parametrize(
    ("module", "places"),
    [
        (
            "torch",
            [
                "model/",
                "viz_app/trace.py",
                "viz_app/layer_trace.py",
                "viz_app/attention_trace.py",
                "viz_app/measure.py",
                "viz_app/measuring/",
                "viz_app/views/_session.py",
            ],
        ),
        ("plotly", ["viz_app/figures/", "viz_app/export.py"]),
        ("streamlit", ["viz_app/app.py", "viz_app/views/", "viz_app/components/"]),
        ("viz_app.views", ["viz_app/app.py", "viz_app/views/"]),
        ("viz_app.components", ["viz_app/app.py", "viz_app/views/", "viz_app/components/"]),
    ],
)
def test_a_module_is_imported_in_its_places_only(module: str, places: list[str]) -> None:
    found = importers(module)
    assert found - within(found, *places) == set()


@pytest.mark.parametrize(
    ("place", "modules"),
    [
        ("model/", ["viz_app", "plotly", "streamlit"]),
        (
            "viz_app/analysis/",
            [
                "viz_app.figures",
                "viz_app.trace",
                "viz_app.layer_trace",
                "viz_app.attention_trace",
                "model",
                "torch",
                "streamlit",
                "plotly",
            ],
        ),
        (
            "viz_app/figures/",
            [
                "viz_app.analysis",
                "viz_app.trace",
                "viz_app.layer_trace",
                "viz_app.attention_trace",
                "model",
                "torch",
                "streamlit",
            ],
        ),
        ("viz_app/records.py", ["viz_app", "model", "torch", "streamlit", "plotly"]),
        ("viz_app/layer_records.py", ["model", "torch", "streamlit", "plotly"]),
        ("viz_app/measure_records.py", ["model", "torch", "streamlit", "plotly"]),
        ("viz_app/trace.py", ["viz_app.analysis", "viz_app.figures"]),
        ("viz_app/layer_trace.py", ["viz_app.analysis", "viz_app.figures"]),
        ("viz_app/measure.py", ["viz_app.analysis", "viz_app.figures"]),
        ("viz_app/measuring/", ["viz_app.analysis", "viz_app.figures"]),
    ],
)
def test_a_place_imports_none_of_some_modules(place: str, modules: list[str]) -> None:
    assert {
        module: files for module in modules if (files := within(importers(module), place))
    } == {}


def test_records_of_a_layer_need_only_the_records_of_a_trace() -> None:
    names = all_imports()["viz_app/layer_records.py"]
    ours = {name for name in names if name.split(".")[0] == "viz_app"}
    assert "viz_app.records" in ours
    assert {name for name in ours if not f"{name}.".startswith("viz_app.records.")} == set()


@pytest.mark.parametrize("module", ["torch", "plotly", "streamlit", "model", "viz_app.views"])
def test_these_modules_are_imported_somewhere(module: str) -> None:
    """Else the tests above would look for names that nobody uses."""
    assert importers(module)


@pytest.mark.parametrize("package", ["analysis", "figures"])
def test_analysis_and_figures_load_without_torch_and_streamlit(package: str) -> None:
    folder = f"viz_app/{package}/"
    modules = [file[:-3].replace("/", ".") for file in FILES if file.startswith(folder)]
    assert len(modules) > 3
    code = (
        f"import sys, {', '.join(modules)}\n"
        "print(sorted({'torch', 'streamlit', 'model'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_app_starts_without_what_only_training_needs() -> None:
    code = (
        "import sys, viz_app.views.embeddings, viz_app.views.translate.page\n"
        "heavy = {'accelerate', 'datasets', 'pyarrow', 'sacrebleu', 'tensorboard', 'tyro'}\n"
        "heavy |= {'numba', 'sklearn', 'umap'}  # only a projection needs these\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
