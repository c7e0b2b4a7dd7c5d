"""What is installed has one name and all its files, and works beside files of the same names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.imports import ROOT

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
STARTED = """
import os, sys
from pathlib import Path
import headwise
print(headwise.__version__)
import headwise.viz_app
from headwise.viz_app.first_document import first_document
from streamlit.testing.v1 import AppTest

app = AppTest.from_file(Path(headwise.viz_app.__file__).with_name("script.py"), default_timeout=600)
app.run()
app.text_area[0].set_value("I am hungry.").run()
assert ".stMainBlockContainer {" in first_document()
loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
files = [os.path.realpath(file) for name, file in loaded.items() if file and "headwise" in name]
assert len(files) > 100 and len(files) == len(set(files))
assert not {"model", "viz_app"} & set(loaded)
print(headwise.open("copy")[-1].translate("c a f e"))
print(headwise.open("en-es").steps, headwise.open("en-es")[-1].translate("I am hungry."))
print([each.value for each in (*app.exception, *app.error)], app.query_params["q"])
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed, for setuptools writes beside it."""
    folder = tmp_path_factory.mktemp("clone")
    without = shutil.ignore_patterns("__pycache__")
    for name in ("headwise", "model", "viz_app"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=without)
    between = shutil.ignore_patterns(*(f"step-{zeros}[1-9]*" for zeros in ("000", "0000", "00000")))
    for run, left_out in (("copy", None), ("en-es", between)):
        path = Path("checkpoints", run)
        shutil.copytree(ROOT / path, folder / path, ignore=left_out)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def pip(*arguments: str | Path) -> None:
    """Have pip build or install with the setuptools of these tests, without a network."""
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", *map(str, arguments), *offline, "-q"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", clone, "--wheel-dir", folder)
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def clone_without_links(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy as Git makes it where there are no links: files that say where they lead."""
    folder = tmp_path_factory.mktemp("without") / "links"
    shutil.copytree(clone, folder, symlinks=True)
    links = [path for path in (folder / "headwise").iterdir() if path.is_symlink()]
    assert {path.name for path in links} == {"model", "viz_app", "checkpoints"}
    for path in links:
        leads_to = path.readlink().as_posix()
        path.unlink()
        path.write_text(leads_to)
    return folder


@pytest.fixture(scope="module", params=["wheel", "clone", "clone_without_links"])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of an environment are that has Headwise, and all else from this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    others = packages / "others.pth"
    # A line of it adds a folder, whose own .pth files, of the Headwise here, are not read.
    path = sysconfig.get_path("purelib")
    source = request.getfixturevalue(request.param)
    if request.param == "wheel":
        # Before, or pip would find that Headwise.
        pip("--python", folder / "bin" / "python", "install", source)
        others.write_text(path)
        (folder / "bin" / "wheel").touch()
    else:
        others.write_text(path)  # setuptools is there
        pip("--python", folder / "bin" / "python", "install", "-e", source)
    return folder / "bin"


def test_it_works_in_a_folder_with_files_of_the_same_names(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("model.py", "viz_app.py", "tests/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('this is another project')\n")
    said = "0.1.0\nc a f e\n[0, 15000] Tengo hambre.\n[] I am hungry.\n"
    commands = {("python", "-c", STARTED): said}
    if (programs / "wheel").exists():  # the program is the same, however it was installed
        commands["headwise", "--help"] = "usage: headwise"
    for (program, *arguments), expected in commands.items():
        done = subprocess.run(
            [programs / program, *arguments],
            cwd=tmp_path,
            env=ENVIRONMENT | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_a_wheel_has_all_files_below_one_name(clone: Path, wheel: Path) -> None:
    """The app's settings, scripts, lessons, sentences and runs to begin with among them."""
    names = set(zipfile.ZipFile(wheel).namelist())
    [about] = {name.split("/")[0] for name in names} - {"headwise"}
    assert about.startswith("headwise-")
    assert about.endswith(".dist-info")
    files = [path for path in clone.rglob("*.*") if path.is_file() and path.suffix != ".pyc"]
    written = [path.relative_to(clone).as_posix() for path in files]
    expected = {
        name if name.startswith("headwise/") else f"headwise/{name}"
        for name in written
        if name.startswith(("headwise/", "model/", "viz_app/", "checkpoints/"))
    }
    assert "headwise/viz_app/.streamlit/config.toml" in expected
    assert wheel.stat().st_size < 30e6
    assert {name for name in names if name.startswith("headwise/")} == expected
