"""Files that cannot be converted are refused, with what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headwise.model.conversion.from_torch import convert_from_torch
from headwise.model.conversion.layouts import Parts
from headwise.model.files import CheckpointError
from tests.model.conversion.tutorials import (
    ENGLISH,
    GERMAN,
    LONGEST,
    D,
    State,
    annotated_model,
    from_torch,
    tutorial_model,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer


def without(state: State, name: str) -> State:
    return {key: tensor for key, tensor in state.items() if key != name}


IN_PROJECTION = "transformer.encoder.layers.1.self_attn.in_proj_weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: without(s, IN_PROJECTION),
            rf"expected 51 tensors; 1 are missing: {re.escape(IN_PROJECTION)} \(42, 14\)",
        ),
        (
            lambda s: s | {"transformer.decoder.layers.0.norm4.weight": torch.ones(D)},
            r"1 have no place in the model: transformer\.decoder\.layers\.0\.norm4\.weight \(14,\)",
        ),
        (
            lambda s: s | {"pos_embedding": torch.randn(1, LONGEST, D)},
            r"no place in the model: pos_embedding \(1, 31, 14\); positions can only be the sinu",
        ),
        (
            lambda s: s | {IN_PROJECTION: torch.ones(D, D)},
            r"layers\.1\.self_attn\.in_proj_weight: expected shape \(42, 14\), got \(14, 14\)",
        ),
        (
            lambda s: s | {"src_tok_emb.weight": torch.ones(len(GERMAN), D + 2)},
            r"src_tok_emb\.weight: expected shape \(11, 14\), got \(11, 16\)",
        ),
        (
            lambda s: without(s, "src_tok_emb.weight"),
            r"source-embedding: expected one matrix \(V, D\) with a name such as src_embed\.weight"
            r", got none of tgt_tok_emb\.weight, generator\.weight; name it by --source-embedding",
        ),
        (
            lambda s: s | {"second_generator.weight": torch.ones(D, D)},
            r"generator: expected one matrix .* got generator\.weight, second_generator\.weight of",
        ),
        (
            lambda s: {n: t for n, t in s.items() if "decoder" not in n},
            r"expected the layers of one encoder, .* encoders .* and decoders \[\]; is --layout",
        ),
        (
            lambda s: s | {"generator.bias": torch.full((len(ENGLISH),), torch.nan)},
            r"generator\.bias: expected finite numbers, got others: the training diverged",
        ),
        (
            lambda s: s | {"ids": torch.arange(5)},
            r"ids: expected a tensor of floating-point numbers, got torch\.int64; leave it out",
        ),
        (lambda s: {**s, "epoch": 3}, r"epoch: expected a tensor .* got int"),
        (lambda s: list(s), r"expected a state dict, got list; write it by torch\.save\(model\.st"),
        (lambda s: {}, r"expected a state dict, got dict"),
    ],
)
def test_a_state_dict_of_another_model_is_refused(
    tmp_path: Path, change: Callable[[State], Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"model\.pt: .*{message}"):
        convert_from_torch(from_torch(tmp_path, change(tutorial_model().state_dict())))
    assert not (tmp_path / "runs").exists()


def test_a_norm_missing_in_the_annotated_transformer_is_named(tmp_path: Path) -> None:
    state = without(annotated_model(1).state_dict(), "encoder.norm.a_2")
    with pytest.raises(CheckpointError, match=r"1 are missing: encoder\.norm\.a_2 \(14,\)"):
        convert_from_torch(from_torch(tmp_path, state, layout="annotated-transformer"))


class Harmful:
    def __reduce__(self) -> Any:
        return (eval, ("open('harm', 'w')",))


@pytest.mark.parametrize("what", ["code", "model", "garbage", "cut"])
def test_a_file_with_code_or_damage_is_refused(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    if what == "garbage":
        arguments.file.write_bytes(bytes(range(256)) * 4)
    elif what == "cut":
        arguments.file.write_bytes(arguments.file.read_bytes()[:-900])
    else:
        torch.save({"a": Harmful()} if what == "code" else nn.Linear(2, 2), arguments.file)
    found = {"code": "one with eval", "model": "one with torch.nn"}
    got = re.escape(found.get(what, "another or a damaged file"))
    with pytest.raises(
        CheckpointError, match=rf"expected a file with tensors only, got {got}.*run"
    ):
        convert_from_torch(arguments)
    assert not (tmp_path / "harm").exists()
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(b"\x40" + bytes(20))
    with pytest.raises(CheckpointError, match=r"cut\.safetensors: truncated, or not safetensors"):
        convert_from_torch(replace(arguments, file=cut))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 4}, "heads: expected a divisor of d_model 14, got 4"),
        ({"heads": 0}, "heads: expected a divisor of d_model 14, got 0"),
        ({"step": -1}, "step: expected 0 to 9,999,999, got -1"),
        ({"run": "../x"}, r"run: expected the name of a folder, got '\.\./x'"),
        ({"max_length": 0}, "max_length: expected at least 1, got 0"),
        (
            {"layout": "annotated-transformer"},
            "one decoder, such as decoder.layers.0.src_attn; got",
        ),
        (
            {"parts": Parts(generator="generator.bias")},
            r"--generator: expected the name of a matrix \(V, D\), got 'generator\.bias'; there",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((CheckpointError, ValueError), match=message):
        convert_from_torch(from_torch(tmp_path, tutorial_model().state_dict(), **changes))
    assert not (tmp_path / "runs").exists()
