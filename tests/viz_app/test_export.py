"""Traces exported: from a run or a saved trace, as a page or for programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tyro

from model.checkpoint import CheckpointError, Run, load_weights
from viz_app.export import Arguments, main
from viz_app.records import Trace
from viz_app.report import to_html
from viz_app.saved_trace import read_trace, to_json, to_npz
from viz_app.trace import run_trace

TEXT = "Where is the old dog?"


def arguments(root: Path, out: Path, *rest: str) -> Arguments:
    """Parsed from a command line."""
    line = ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), str(out), *rest]
    return tyro.cli(Arguments, args=line)


def of_file(out: Path, *rest: str) -> Arguments:
    """Likewise, without a run and a text."""
    return tyro.cli(Arguments, args=[str(out), *rest])


@pytest.mark.parametrize("name", ["out.npz", "out.json"])
def test_the_last_checkpoint_is_exported(
    run_root: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    main(arguments(run_root, tmp_path / name))

    checkpoint = load_weights(run, 60)
    expected = run_trace(checkpoint.model, run.tokenizers, TEXT)
    read = read_trace(tmp_path / name)
    assert (read.run, read.step, read.sha256) == ("tiny", 60, checkpoint.sha256)
    assert read.forced is False
    np.testing.assert_array_equal(read.attention["cross"], expected.attention["cross"])
    assert capsys.readouterr().out == f"{tmp_path / name}: ¿Dónde está el perro viejo?\n"


def test_a_step_and_a_target_can_be_given(run_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    main(arguments(run_root, out, "--step", "20", "--target", "El gato."))
    read = read_trace(out)
    assert (read.step, read.target_text, read.forced) == (20, "El gato.", True)


def test_a_page_is_exported(run_root: Path, run: Run, tmp_path: Path) -> None:
    main(arguments(run_root, tmp_path / "out.html"))
    checkpoint = load_weights(run, 60)
    sha256 = checkpoint.sha256
    trace = run_trace(checkpoint.model, run.tokenizers, TEXT, run="tiny", step=60, sha256=sha256)
    assert (tmp_path / "out.html").read_bytes() == to_html(trace)


def test_a_saved_trace_is_written_in_every_form(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, page = (tmp_path / name for name in ("a.npz", "b.json", "c.html"))
    first.write_bytes(to_npz(trace))
    main(of_file(second, "--trace", str(first)))
    assert second.read_bytes() == to_json(trace)
    main(of_file(page, "--trace", str(second)))
    assert page.read_bytes() == to_html(trace)
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: {trace.target_text}" for path in (second, page)
    ]


@pytest.mark.parametrize(
    "given", [[], ["--run", "tiny"], ["--text", TEXT]], ids=["neither", "run", "text"]
)
def test_a_run_and_a_text_or_a_trace_are_asked_for(
    run_root: Path, tmp_path: Path, given: list[str]
) -> None:
    asked = of_file(tmp_path / "out.npz", *given, "--checkpoints", str(run_root))
    message = r"^expected --run and --text, or --trace with a saved trace$"
    with pytest.raises(ValueError, match=message):
        main(asked)
    assert not list(tmp_path.iterdir())


def test_a_trace_that_is_none_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(ValueError, match=r"broken\.json: not a saved trace"):
        main(of_file(tmp_path / "out.html", "--trace", str(broken)))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        main(of_file(tmp_path / "out.html", "--trace", str(tmp_path / "nowhere.npz")))
    assert list(tmp_path.iterdir()) == [broken]


@pytest.mark.parametrize("name", ["out.txt", "out", "out.npz.gz"])
def test_other_suffixes_are_refused(run_root: Path, tmp_path: Path, name: str) -> None:
    message = rf"{name}: expected a name that ends in .html, .npz or .json$"
    with pytest.raises(ValueError, match=message):
        main(arguments(run_root, tmp_path / name))


def test_a_missing_folder_is_named(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: no such folder; create it first$"):
        main(arguments(run_root, tmp_path / "nowhere" / "out.npz"))


def test_a_step_without_weights_is_named(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no weights of step 7; .* 0, 20, 60$"):
        main(arguments(run_root, tmp_path / "out.npz", "--step", "7"))
    assert not list(tmp_path.iterdir())


def test_the_program_ends_with_what_is_wrong(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere.npz")
    line = [sys.executable, "-m", "viz_app.export", str(tmp_path / "out.html"), "--trace", nowhere]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert "nowhere.npz" in ended.stderr
    assert "Traceback" not in ended.stderr
