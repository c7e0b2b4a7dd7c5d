"""What does not pass through our hook points is refused when a model is opened."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from transformers.models.marian.modeling_marian import MarianAttention

from headwise.model.files import CheckpointError
from headwise.model.memory import wrap_model
from headwise.model.pretrained import families
from headwise.model.pretrained.families import SublayerPaths
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.run import PretrainedRun
from tests.model.pretrained.kinds import KINDS
from tests.model.pretrained.tiny import build

_TINY = {
    **{f"{stack}_{what}": 2 for stack in ("encoder", "decoder") for what in ("layers", "ffn_dim")},
    **{f"{stack}_attention_heads": 2 for stack in ("encoder", "decoder")},
    **{"d_model": 8, "vocab_size": 13, "max_position_embeddings": 11},
    **{"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2},
}


def _made(kind: str) -> Any:
    with quiet():
        config = AutoConfig.for_model(kind, **_TINY)
        return AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager")


@pytest.fixture(params=["mvp", "pegasus_x"])
def in_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A family that computes attention in place, with a record, as if it could be opened."""
    kind: str = request.param
    record = replace(families.FAMILIES["bart"], title=kind)
    monkeypatch.setitem(families.FAMILIES, kind, record)
    return kind


def test_attention_that_is_computed_in_place_is_refused(in_place: str, tmp_path: Path) -> None:
    expected = (
        f"model_type '{in_place}': nothing passes through encoder.layers.0.self_attention.query "
        "(6 hook points in all), as if computed in place; see docs/add-a-family.md"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        wrap_model(_made(in_place), KINDS["words"](tmp_path))
    _made(in_place).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{re.escape(expected)}"):
        PretrainedRun(tmp_path, "run").load(0)


def test_the_decoder_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = build("marian").ours.inner
    with pytest.raises(ValueError, match=r"through decoder\.layers\.0\.cross_attention\.query"):
        PretrainedModel(_without_points(inner, monkeypatch, "encoder_attn"))


def _without_points(inner: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Let one attention of a decoder's first layer give what it computes in place."""
    attention = inner.get_decoder().layers[0].get_submodule(name)

    def in_place(hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        return attention.out_proj(hidden_states), None

    monkeypatch.setattr(attention, "forward", in_place)
    return inner


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": "blocks"},
        {"self_attention": SublayerPaths("attention", "self_attn_layer_norm")},
        {"cross_attention": SublayerPaths("encoder_attn", "norm")},
        {"decoder_feed_forward": SublayerPaths("mlp", "final_layer_norm")},
        {"projections": ("q", "k", "v", "o")},
        {"expand": ("wi",)},
        {"contract": "wo"},
        {"final_norm": "norm", "transform": ("dense", "norm", "")},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_record_that_names_no_module_is_refused_in_words(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = replace(families.FAMILIES["marian"], **wrong)
    monkeypatch.setitem(families.FAMILIES, "marian", record)
    with pytest.raises(ValueError, match=r"^model_type 'marian': .*see docs/add-a-family\.md$"):
        build("marian")


def test_a_pass_that_fails_is_told_and_not_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("unexpected argument: prompt")

    monkeypatch.setattr(MarianAttention, "forward", fail)
    with pytest.raises(
        ValueError, match=r"^model_type 'marian': no token goes through its encoder \(unexpected"
    ):
        build("marian")


def test_a_model_in_memory_is_named_where_it_has_no_path(tmp_path: Path) -> None:
    told = r"^MvpForConditionalGeneration: model_type 'mvp' cannot be opened: its attention"
    with pytest.raises(CheckpointError, match=told):
        wrap_model(_made("mvp"), KINDS["words"](tmp_path))
