"""Models on a device, and with weights of a type, that a person chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.model.checkpoint import TrainedRun
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.translation import sample
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, attention_path
from headwise.model.interventions import head_costs
from headwise.model.placement import DEFAULT_PLACEMENT, Placement, in_float32
from headwise.model.runs import load_checkpoint
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.tiny import DATA

Command = Callable[..., str]
SHORT: Any = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
SENTENCE = "The book is on the table."


def test_a_gpu_is_taken_where_there_is_one_and_required_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given in ({"device": "other"}, {"dtype": "other"}):
        with pytest.raises(ValueError, match=r"(device|dtype): expected one of .*; got 'other'"):
            Placement(**given)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert DEFAULT_PLACEMENT.torch_device == Placement("cuda").torch_device == torch.device("cuda")
    assert Placement("cpu").torch_device == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert DEFAULT_PLACEMENT.torch_device == torch.device("cpu")
    with pytest.raises(ValueError, match="no GPU that it can use here; expected auto or cpu"):
        Placement("cuda")


def test_short_types_take_half_the_memory_and_float64_is_not_shortened() -> None:
    assert [Placement(dtype=t).bytes_of(10) for t in ("float32", "bfloat16")] == [40, 20]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        expected = torch.float64 if dtype == torch.float64 else torch.float32
        assert in_float32(torch.ones(1, dtype=dtype)).dtype == expected


@SHORT
def test_short_weights_give_the_maps_of_float32_but_for_rounding_and_can_decode(
    trained_run: TrainedRun, dtype: Any
) -> None:
    source = trained_run.tokenizers.encode_source(SENTENCE)
    names = [f"{attention_path(kind, 0)}.weights" for kind in KINDS]
    maps = []
    for placement in (DEFAULT_PLACEMENT, Placement(dtype=dtype)):
        model = load_checkpoint(trained_run, 8, placement).model
        assert {p.dtype for _, p in model.named_parameters()} == {placement.torch_dtype}
        with capture(model, names) as seen, torch.inference_mode():
            memory, mask = model.encode(torch.tensor([source]))
            model.decode(torch.tensor([[1, *source[:-1]]]), memory, mask)
        maps.append([seen[name][0] for name in names])
    for whole, short in zip(*maps, strict=True):
        assert short.dtype == torch.float32
        assert_near(short.sum(-1), torch.ones(short.shape[:-1]))
        assert_near(short, whole, dtype=Placement(dtype=dtype).torch_dtype, size=1, operations=8)

    [beam] = beam_search(model, [source], size=3)
    [drawn] = sample(model, [source], seeds=[1])
    assert len(beam.hypotheses[0].target) > 1
    assert len(drawn) > 1
    costs = head_costs(model, source, beam.hypotheses[0].target)
    assert {cost.dtype for cost in costs.values()} == {torch.float32}


def test_commands_translate_and_evaluate_where_and_how_they_are_told(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[tuple[torch.device, torch.dtype]] = []
    encode = torch.nn.Module.__call__

    def noted(module: torch.nn.Module, *args: Any, **settings: Any) -> Any:
        weight = getattr(module, "weight", None)
        if weight is not None:
            used.append((weight.device, weight.dtype))
        return encode(module, *args, **settings)

    monkeypatch.setattr(torch.nn.Module, "__call__", noted)
    text = tmp_path / "text.txt"
    text.write_text(SENTENCE)
    data = ["--data", DATA / "valid.jsonl"]
    for program, rest in (("translate", [text]), ("evaluate", data)):
        used.clear()
        assert tiny(program, "--device", "cpu", "--dtype", "bfloat16", *rest)
        assert set(used) == {(torch.device("cpu"), torch.bfloat16)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_commands_say_that_there_is_no_gpu(tiny: Command) -> None:
    with pytest.raises(SystemExit, match="error: device: PyTorch finds no GPU"):
        tiny("translate", "--device", "cuda")


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU, or HEADWISE_GPU_TESTS is not set"
)
def test_maps_on_a_gpu_are_those_of_the_cpu(trained_run: TrainedRun) -> None:
    traces = [
        run_trace(
            load_checkpoint(trained_run, 8, placement).model,
            trained_run.tokenizers,
            SENTENCE,
            "El libro está en la mesa.",
        )
        for placement in (Placement("cpu"), Placement("cuda"))
    ]
    for kind in KINDS:
        cpu, gpu = (trace.attention[kind] for trace in traces)
        assert_near(gpu, cpu, size=1, operations=PASS)
