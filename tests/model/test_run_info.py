from __future__ import annotations

import json
from typing import Any

import pytest

from headwise.model.checkpoint import TrainedRun
from headwise.model.run_info import FORMAT_VERSION, RunInfo


def as_file(run: TrainedRun) -> dict[str, Any]:
    """Return the contents of run.json."""
    values: dict[str, Any] = json.loads(json.dumps(run.info.to_json()))
    return values


def test_a_run_s_description_survives_json(trained_run: TrainedRun) -> None:
    values = as_file(trained_run)
    assert next(iter(values.items())) == ("format_version", FORMAT_VERSION)
    assert RunInfo.from_json(values) == trained_run.info


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, str(FORMAT_VERSION)])
def test_another_format_is_refused(trained_run: TrainedRun, version: object) -> None:
    with pytest.raises(ValueError, match=r"format version .*; this program reads 1, use the ver"):
        RunInfo.from_json(as_file(trained_run) | {"format_version": version})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "model: expected an object, got None"),
        ({"training": []}, r"training: expected an object, got \[\]"),
        ({"parameters": "many"}, "parameters: expected a valid integer, got 'many'"),
        ({"parameters": -1}, "parameters: expected greater than or equal to 0, got -1"),
        ({"parameters": 10**400}, r"parameters: expected less than 9223\d{15}, got 10{39}$"),
        ({"tokenizer_sha256": ["a"]}, r"tokenizer_sha256: expected an object, got \['a'\]"),
    ],
)
def test_an_invalid_value_is_named(
    trained_run: TrainedRun, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RunInfo.from_json(as_file(trained_run) | change)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("licence", None, r"data\.licence: expected a valid string, got None"),
        ("longest_source", 2.5, "longest_source: expected a valid integer, got 2.5"),
        ("longest_source", -1, "longest_source: expected greater than or equal to 0, got -1"),
        ("train_pairs", 2**63, "train_pairs: expected less than 9223"),
    ],
)
def test_an_invalid_data_source_is_named(
    trained_run: TrainedRun, key: str, value: object, message: str
) -> None:
    values = as_file(trained_run)
    values["data"][key] = value
    with pytest.raises(ValueError, match=message):
        RunInfo.from_json(values)


@pytest.mark.parametrize(
    "name",
    ["n_encoder_layers", "n_decoder_layers", "n_heads", "d_k", "d_model", "d_ff", "max_length"],
)
@pytest.mark.parametrize("size", [2_000_000_000, 10**400])
def test_sizes_beyond_the_limits_are_refused(trained_run: TrainedRun, name: str, size: int) -> None:
    """They are refused before anything of such a size is made."""
    values = as_file(trained_run)
    values["model"] |= {"d_k": 7, name: size}
    with pytest.raises(
        ValueError, match=rf"{name}: expected at most [\d,]+, got {str(size)[:20]}$"
    ):
        RunInfo.from_json(values)
