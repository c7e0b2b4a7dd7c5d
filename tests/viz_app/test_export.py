"""Traces exported: from a run or a saved trace, as a page or for programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import CheckpointError, TrainedRun, load_weights
from headwise.model.placement import Placement
from headwise.model.runs import load_checkpoint
from headwise.viz_app.export import ExportArguments, main
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.conftest import RunCommand

TEXT = "Where is the old dog?"


def arguments(root: Path, out: Path, *rest: str) -> ExportArguments:
    """Parsed from a command line."""
    line = ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), str(out), *rest]
    return tyro.cli(ExportArguments, args=line)


def of_file(out: Path, *rest: str) -> ExportArguments:
    """Likewise, without a run and a text."""
    return tyro.cli(ExportArguments, args=[str(out), *rest])


@pytest.mark.parametrize("name", ["out.npz", "out.json"])
def test_last_checkpoint_is_exported(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    main(arguments(run_root, tmp_path / name))

    checkpoint = load_weights(run, 60)
    expected = run_trace(checkpoint.model, run.tokenizers, TEXT)
    read = read_trace(tmp_path / name)
    assert (read.run, read.step, read.sha256) == ("tiny", 60, checkpoint.sha256)
    assert read.forced is False
    np.testing.assert_array_equal(read.attention["cross"], expected.attention["cross"])
    assert capsys.readouterr().out == f"{tmp_path / name}: ¿Dónde está el perro viejo?\n"


def test_step_and_target_options(run_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    main(arguments(run_root, out, "--step", "20", "--target", "El gato."))
    read = read_trace(out)
    assert (read.step, read.target_text, read.forced) == (20, "El gato.", True)


def test_device_and_type_are_those_that_are_asked_for(
    run_root: Path, run: TrainedRun, tmp_path: Path
) -> None:
    out = tmp_path / "out.npz"
    main(arguments(run_root, out, "--device", "cpu", "--dtype", "bfloat16"))
    model = load_checkpoint(run, 60, Placement("cpu", "bfloat16")).model
    expected = run_trace(model, run.tokenizers, TEXT)
    np.testing.assert_array_equal(read_trace(out).attention["cross"], expected.attention["cross"])


def test_html_page_is_exported(run_root: Path, run: TrainedRun, tmp_path: Path) -> None:
    main(arguments(run_root, tmp_path / "out.html"))
    checkpoint = load_weights(run, 60)
    sha256 = checkpoint.sha256
    trace = run_trace(checkpoint.model, run.tokenizers, TEXT, run="tiny", step=60, sha256=sha256)
    assert (tmp_path / "out.html").read_bytes() == to_html(trace)


def test_saved_trace_is_written_in_every_format(
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
def test_run_and_text_or_trace_are_required(
    run_root: Path, tmp_path: Path, given: list[str]
) -> None:
    asked = of_file(tmp_path / "out.npz", *given, "--checkpoints", str(run_root))
    message = r"^expected --run and --text, or --trace with a saved trace$"
    with pytest.raises(ValueError, match=message):
        main(asked)
    assert not list(tmp_path.iterdir())


def test_file_that_is_not_a_trace_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(ValueError, match=r"broken\.json: not a saved trace"):
        main(of_file(tmp_path / "out.html", "--trace", str(broken)))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        main(of_file(tmp_path / "out.html", "--trace", str(tmp_path / "nowhere.npz")))
    assert list(tmp_path.iterdir()) == [broken]


@pytest.mark.parametrize("name", ["out", "out.npz.gz"])
def test_unknown_suffix_is_refused(run_root: Path, tmp_path: Path, name: str) -> None:
    message = rf"{name}: expected a name that ends in .html, .npz or .json$"
    with pytest.raises(ValueError, match=message):
        main(arguments(run_root, tmp_path / name))


def test_missing_folder_is_refused(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: no such folder; create it first$"):
        main(arguments(run_root, tmp_path / "nowhere" / "out.npz"))


def test_step_without_weights_is_refused(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no weights of step 7; .* 0, 20, 60$"):
        main(arguments(run_root, tmp_path / "out.npz", "--step", "7"))
    assert not list(tmp_path.iterdir())


def test_command_exits_with_the_error(run_command: RunCommand, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere.npz")
    said = run_command("headwise.viz_app.export", str(tmp_path / "out.html"), "--trace", nowhere)
    assert said.startswith("error: ")
    assert "nowhere.npz" in said
