from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from model.checkpoint import CheckpointError, Run, load_weights
from viz_app.export import Arguments, main, to_json, to_npz
from viz_app.records import Trace
from viz_app.trace import run_trace

TEXT = "Where is the old dog?"


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a file says about a trace, and its arrays."""
    if path.suffix == ".json":
        values = json.loads(path.read_bytes())
        arrays = {k: np.array(v) for k, v in values.items() if k.startswith("attention_")}
        return values, arrays
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("about"))), arrays


def arguments(root: Path, out: Path, *rest: str) -> Arguments:
    """Parsed from a command line."""
    line = ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), str(out), *rest]
    return tyro.cli(Arguments, args=line)


# Round trips


def test_an_npz_file_holds_every_array_and_no_pickle(trace: Trace) -> None:
    with np.load(io.BytesIO(to_npz(trace)), allow_pickle=False) as file:
        names = {name for name, _ in trace.arrays()}
        assert set(file) == names | {"about"}
        for name, array in trace.arrays():
            np.testing.assert_array_equal(file[name], array, err_msg=name)
            assert file[name].dtype == array.dtype, name


def test_a_json_file_holds_every_array_to_the_last_bit(trace: Trace) -> None:
    values = json.loads(to_json(trace))
    for name, array in trace.arrays():
        np.testing.assert_array_equal(np.array(values[name], array.dtype), array, err_msg=name)


def test_both_files_say_the_same_about_the_trace(trace: Trace) -> None:
    with np.load(io.BytesIO(to_npz(trace)), allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
    values = json.loads(to_json(trace))
    assert {name: values[name] for name in about} == about
    assert set(values) - set(about) == {name for name, _ in trace.arrays()}


def test_what_a_file_says(trace: Trace) -> None:
    values = json.loads(to_json(trace))
    assert values["schema_version"] == 1
    assert (values["run"], values["step"], values["sha256"]) == ("tiny", 60, "5ha")
    assert values["source_text"] == "Don't worry, she sees him."
    assert values["target_text"] == "No te preocupes, ella lo ve."
    assert values["forced"] is True
    assert values["predicted"]["pieces"] == list(trace.predicted.pieces)
    assert values["consumed"]["words"][0] == {"text": "<s>", "start": 0, "stop": 1}
    assert values["source"]["ids"] == list(trace.source.ids)
    assert values["top_pieces"] == [list(row) for row in trace.top_pieces]
    assert values["lens_pieces"][1][2] == list(trace.lens_pieces[1][2])
    assert [check["passed"] for check in values["checks"]] == [True] * 4
    assert values["summary"][-1] == {
        "name": "logits",
        "shape": list(trace.summary[-1].shape),
        "mean": trace.summary[-1].mean,
        "standard_deviation": trace.summary[-1].standard_deviation,
        "norm": trace.summary[-1].norm,
    }


def test_infinities_are_null_in_json(trace: Trace) -> None:
    log_probability = trace.predictions.log_probability.copy()
    log_probability[1] = -np.inf
    predictions = replace(trace.predictions, log_probability=log_probability)
    values = json.loads(to_json(replace(trace, predictions=predictions)))
    assert values["log_probability"][1] is None
    assert values["log_probability"][0] == pytest.approx(float(log_probability[0]))


@pytest.mark.parametrize("write", [to_json, to_npz])
def test_numbers_that_json_lacks_are_null_in_what_a_file_says(trace: Trace, write: Any) -> None:
    summary = replace(trace.summary[0], mean=float("nan"), norm=float("inf"))
    content = write(replace(trace, summary=(summary,)))
    if write is to_npz:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            content = str(file["about"])
    written = json.loads(content)["summary"][0]
    assert (written["mean"], written["norm"]) == (None, None)


# Command line


@pytest.mark.parametrize("name", ["out.npz", "out.json"])
def test_the_last_checkpoint_is_exported(
    run_root: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    main(arguments(run_root, tmp_path / name))

    checkpoint = load_weights(run, 60)
    expected = run_trace(checkpoint.model, run.tokenizers, TEXT)
    about, arrays = read(tmp_path / name)
    assert (about["run"], about["step"], about["sha256"]) == ("tiny", 60, checkpoint.sha256)
    assert about["forced"] is False
    np.testing.assert_array_equal(
        arrays["attention_cross"].astype(np.float32), expected.attention["cross"]
    )
    assert capsys.readouterr().out == f"{tmp_path / name}: ¿Dónde está el perro viejo?\n"


def test_a_step_and_a_target_can_be_given(run_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    main(arguments(run_root, out, "--step", "20", "--target", "El gato."))
    about, _ = read(out)
    assert (about["step"], about["target_text"], about["forced"]) == (20, "El gato.", True)


@pytest.mark.parametrize("name", ["out.txt", "out", "out.npz.gz"])
def test_other_suffixes_are_refused(run_root: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: expected a name that ends in .npz or .json$"):
        main(arguments(run_root, tmp_path / name))


def test_a_missing_folder_is_named(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: no such folder; create it first$"):
        main(arguments(run_root, tmp_path / "nowhere" / "out.npz"))


def test_a_step_without_weights_is_named(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no weights of step 7; .* 0, 20, 60$"):
        main(arguments(run_root, tmp_path / "out.npz", "--step", "7"))
    assert not list(tmp_path.iterdir())
