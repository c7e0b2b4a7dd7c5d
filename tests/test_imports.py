"""Who may import whom. Files are parsed, not run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.imports import FILES, ROOT, all_imports, imports_of


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
        ("from . import b", "viz_app/y/x.py", {"headwise.viz_app.y", "headwise.viz_app.y.b"}),
        (
            "from .b import c",
            "viz_app/y/__init__.py",
            {"headwise.viz_app.y.b", "headwise.viz_app.y.b.c"},
        ),
        ("from ..b import c", "viz_app/y/x.py", {"headwise.viz_app.b", "headwise.viz_app.b.c"}),
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
                "viz_app/trace/",
                "viz_app/measuring/",
            ],
        ),
        ("plotly", ["viz_app/figures/", "viz_app/export.py"]),
        ("transformers", ["model/pretrained/"]),
        ("streamlit", ["viz_app/app.py", "viz_app/views/", "viz_app/components/"]),
        ("headwise.viz_app.views", ["viz_app/app.py", "viz_app/views/"]),
        (
            "headwise.viz_app.components",
            ["viz_app/app.py", "viz_app/views/", "viz_app/components/"],
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
        ("viz_app/records/", ["torch", "streamlit", "plotly"]),
        ("viz_app/trace/", ["headwise.viz_app.analysis", "headwise.viz_app.figures"]),
        ("viz_app/measure.py", ["headwise.viz_app.analysis", "headwise.viz_app.figures"]),
        ("viz_app/measuring/", ["headwise.viz_app.analysis", "headwise.viz_app.figures"]),
    ],
)
def test_a_place_imports_none_of_some_modules(place: str, modules: list[str]) -> None:
    assert {
        module: files for module in modules if (files := within(importers(module), place))
    } == {}


def test_records_analysis_and_figures_know_only_the_interface_of_models() -> None:
    """And in which order near numbers go, which is NumPy only."""
    places = within(set(FILES), "viz_app/records/", "viz_app/analysis/", "viz_app/figures/")
    names = {
        name
        for file in places
        for name in all_imports()[file]
        if re.match(r"headwise\.model\b", name)
    }
    assert {
        name for name in names if not re.match(r"headwise\.model\.(interface|ties)\b", name)
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
    assert within(importers(module), "viz_app/views/") <= {"viz_app/views/caches.py"}


def test_no_page_imports_another_page() -> None:
    folder = ROOT / "viz_app" / "views"
    pages = {path.parent.name for path in folder.glob("*/__init__.py")} - {"shared"}
    assert len(pages) >= 6
    for page in pages:
        others = set(FILES) - within(set(FILES), f"viz_app/views/{page}/")
        assert importers(f"headwise.viz_app.views.{page}") & others <= {
            "viz_app/app.py",
            "viz_app/views/state.py",
        }
        assert importers(f"headwise.viz_app.views.{page}.page") == {"viz_app/app.py"}


def test_records_need_only_records() -> None:
    names = {
        name
        for file in within(set(FILES), "viz_app/records/")
        for name in all_imports()[file]
        if name.startswith("headwise.viz_app")
    }
    assert {name for name in names if not name.startswith("headwise.viz_app.records")} == set()


@pytest.mark.parametrize(
    "module", ["torch", "plotly", "streamlit", "headwise.model", "headwise.viz_app.views"]
)
def test_these_modules_are_imported_somewhere(module: str) -> None:
    """Else the tests above would look for names that nobody uses."""
    assert importers(module)


@pytest.mark.parametrize("package", ["analysis", "figures", "lessons"])
def test_these_packages_load_without_torch_and_streamlit(package: str) -> None:
    folder = f"viz_app/{package}/"
    modules = [
        f"headwise.{file[:-3].replace('/', '.')}" for file in FILES if file.startswith(folder)
    ]
    assert len(modules) > 3
    code = (
        f"import sys, {', '.join(modules)}\n"
        "print(sorted({'torch', 'streamlit'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_app_starts_without_what_only_training_needs() -> None:
    code = (
        "import sys, headwise.viz_app.views.embeddings, headwise.viz_app.views.translate.page\n"
        "heavy = {'accelerate', 'datasets', 'pyarrow', 'sacrebleu', 'tensorboard', 'tyro'}\n"
        "heavy |= {'transformers'}  # only models of others need it\n"
        "heavy |= {'numba', 'scipy', 'sklearn', 'umap'}  # only some analyses need these\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
