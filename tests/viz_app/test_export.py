"""Traces exported: from a run or a saved trace, as a page or for programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import CheckpointError, TrainedRun
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import load_checkpoint
from headwise.model.turned import Turned
from headwise.viz_app.export import ExportArguments, main
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace

TEXT = "Where is the old dog?"


def export(out: Path, *line: str) -> None:
    main(tyro.cli(ExportArguments, args=[str(out), *line]))


def of_run(root: Path, *rest: str) -> list[str]:
    return ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), *rest]


def traced(run: TrainedRun, placement: Placement = DEFAULT_PLACEMENT) -> Trace:
    checkpoint = load_checkpoint(run, 60, placement)
    return run_trace(checkpoint.model, run.tokenizers, TEXT)


@pytest.mark.parametrize("name", ["out.npz", "out.json"])
def test_last_checkpoint_is_exported(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    export(tmp_path / name, *of_run(run_root))
    expected, read = traced(run), read_trace(tmp_path / name)
    assert (read.run, read.step, read.sha256) == ("tiny", 60, expected.sha256)
    assert read.forced is False
    np.testing.assert_array_equal(read.attention["cross"], expected.attention["cross"])
    assert capsys.readouterr().out == f"{tmp_path / name}: ¿Dónde está el perro viejo?\n"


def test_step_target_device_type_and_page(run_root: Path, run: TrainedRun, tmp_path: Path) -> None:
    given, short, page = (tmp_path / name for name in ("a.json", "b.npz", "c.html"))
    export(given, *of_run(run_root, "--step", "20", "--target", "El gato."))
    read = read_trace(given)
    assert (read.step, read.target_text, read.forced) == (20, "El gato.", True)
    export(short, *of_run(run_root, "--device", "cpu", "--dtype", "bfloat16"))
    expected = traced(run, Placement("cpu", "bfloat16")).attention["cross"]
    np.testing.assert_array_equal(read_trace(short).attention["cross"], expected)
    export(page, *of_run(run_root))
    assert page.read_bytes() == to_html(traced(run))


def test_heads_are_turned_and_rows_pinned(run_root: Path, run: TrainedRun, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    line = ["--turn", "cross.2.1", "cross.2.2:-0.5", "--pin", "cross.1.1:2:4", "cross.1.1:3:mean"]
    export(out, *of_run(run_root, *line))
    turned = Turned.of(
        {("cross", 1, 0): 0, ("cross", 1, 1): -0.5},
        [(("cross", 0, 0), 1, 3), (("cross", 0, 0), 2, None)],
    )
    read = read_trace(out)
    assert read.turned == turned
    expected = run_trace(
        load_checkpoint(run, 60, DEFAULT_PLACEMENT).model, run.tokenizers, TEXT, turned=turned
    )
    assert read.target_ids == expected.target_ids
    assert read.attention["cross"][0, 0, 1].tolist() == [0, 0, 0, 1, *[0] * (len(read.source) - 4)]
    with pytest.raises(ValueError, match="expected -1 to 3"):
        export(out, *of_run(run_root, "--turn", "cross.2.1:4"))


def test_saved_trace_is_written_in_every_format(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, page = (tmp_path / name for name in ("a.npz", "b.json", "c.html"))
    first.write_bytes(to_npz(trace))
    export(second, "--trace", str(first))
    assert second.read_bytes() == to_json(trace)
    export(page, "--trace", str(second))
    assert page.read_bytes() == to_html(trace)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{path}: {trace.target_text}" for path in (second, page)]


NEITHER = r"^expected --run and --text, or --trace with a saved trace$"
SUFFIX = r": expected a name that ends in .html, .npz or .json$"


@pytest.mark.parametrize(
    ("out", "line", "error", "message"),
    [
        ("out.npz", [], ValueError, NEITHER),
        ("out.npz", ["--run", "tiny"], ValueError, NEITHER),
        ("out.npz", ["--text", TEXT], ValueError, NEITHER),
        ("out", of_run(Path()), ValueError, f"out{SUFFIX}"),
        ("out.npz.gz", of_run(Path()), ValueError, rf"out\.npz\.gz{SUFFIX}"),
        ("no/out.npz", of_run(Path()), ValueError, r"no: no such folder; create it first$"),
        ("out.html", ["--trace", "broken.json"], ValueError, r"broken\.json: not a saved trace"),
        ("out.html", ["--trace", "nowhere.npz"], FileNotFoundError, "nowhere"),
        (
            "out.npz",
            of_run(Path(), "--step", "7"),
            CheckpointError,
            "no weights of step 7; .* 0, 20",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_no_file(
    run_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    out: str,
    line: list[str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{}")
    with pytest.raises(error, match=message):
        export(Path(out), *line, "--checkpoints", str(run_root))
    assert list(tmp_path.iterdir()) == [tmp_path / "broken.json"]
