from __future__ import annotations

import json
from typing import Any

import pytest

from model.checkpoint import Run
from model.run_info import FORMAT_VERSION, RunInfo


def as_file(run: Run) -> dict[str, Any]:
    """What stands in run.json."""
    values: dict[str, Any] = json.loads(json.dumps(run.info.to_json()))
    return values


def test_a_run_s_description_survives_json(trained_run: Run) -> None:
    values = as_file(trained_run)
    assert next(iter(values.items())) == ("format_version", FORMAT_VERSION)
    assert RunInfo.from_json(values) == trained_run.info


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, str(FORMAT_VERSION), None])
def test_another_format_is_refused(trained_run: Run, version: object) -> None:
    with pytest.raises(ValueError, match=r"format version .*; this program reads 1, use the ver"):
        RunInfo.from_json(as_file(trained_run) | {"format_version": version})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "expected an object under 'model'"),
        ({"training": []}, "expected an object under 'training'"),
        ({"colour": "red"}, r"RunInfo: unknown keys \['colour'\]"),
        ({"name": 5}, "name: expected str, got 5"),
        ({"parameters": "many"}, "parameters: expected a whole number, got 'many'"),
        ({"parameters": -1}, "parameters: expected a number from 0 to 9,223,"),
        ({"parameters": 10**400}, "parameters: expected a number from 0 to 9,223,"),
        ({"tokenizer_sha256": ["a"]}, "tokenizer_sha256: expected"),
    ],
)
def test_what_does_not_fit_is_named(trained_run: Run, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunInfo.from_json(as_file(trained_run) | change)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("licence", None, "licence: expected str, got None"),
        ("longest_source", 2.5, "longest_source: expected a whole number, got 2.5"),
        ("longest_source", -1, "longest_source: expected a number from 0 to"),
        ("train_pairs", 2**63, "train_pairs: expected a number from 0 to"),
    ],
)
def test_a_source_of_data_that_does_not_fit_is_named(
    trained_run: Run, key: str, value: object, message: str
) -> None:
    values = as_file(trained_run)
    values["data"][key] = value
    with pytest.raises(ValueError, match=message):
        RunInfo.from_json(values)


@pytest.mark.parametrize("name", ["n_layers", "n_heads", "d_k", "d_model", "d_ff", "max_length"])
@pytest.mark.parametrize("size", [2_000_000_000, 10**400])
def test_sizes_that_no_model_has_are_refused(trained_run: Run, name: str, size: int) -> None:
    """Before anything of such a size is made."""
    values = as_file(trained_run)
    values["model"] |= {"d_k": 7, name: size}
    with pytest.raises(
        ValueError, match=rf"{name}: expected at most [\d,]+, got {str(size)[:20]}$"
    ):
        RunInfo.from_json(values)
