"""A model in memory becomes a checkpoint, and is left as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise
from headwise.model import budget
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding import greedy
from headwise.model.files import CheckpointError
from headwise.model.interface import Languages
from headwise.model.memory import sha256_of, wrap_model
from headwise.model.pretrained.folders import quiet
from headwise.model.runs import open_run
from headwise.viz_app import export, measure
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.trace.attention import run_attention
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.model.pretrained.conftest import make_folder as make_folder
from tests.model.pretrained.tiny import MakeFolder
from tests.tiny import DATA

TEXT = "The cat sleeps."


def load(folder: Path) -> tuple[Any, Any]:
    """Load model and tokenizer as a person does, for a training."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    with quiet():
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager")
        return model.train(), AutoTokenizer.from_pretrained(folder)


def state_of(model: Any) -> dict[str, Any]:
    """All of a model that wrapping could change, and none of its values."""
    return {
        "modes": [module.training for module in model.modules()],
        "gradients": [
            (name, p.requires_grad, p.grad is None) for name, p in model.named_parameters()
        ],
        "memory": [(p.data_ptr(), p.stride(), p.device) for p in model.parameters()],
        "hooks": Counter(
            name
            for module in model.modules()
            for name, value in vars(module).items()
            if "_hooks" in name and isinstance(value, dict)
            for _ in value
        ),
        "attention": model.config._attn_implementation,
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "sha256": sha256_of(model),
    }


@pytest.mark.parametrize("name", ["marian", "marian_separate", "bart", "mbart", "nllb", "t5"])
def test_a_model_in_memory_gives_what_its_folder_gives_and_is_left_as_it_was(
    name: str, make_folder: MakeFolder
) -> None:
    run = open_run(str(make_folder(name)))
    languages = Languages("eng_Latn", "spa_Latn") if name == "nllb" else Languages()
    expected = run_trace(run.load(0).model, run.for_languages(languages).tokenizers, TEXT)
    theirs, tokenizer = load(make_folder(name))
    called: list[object] = []
    theirs.get_encoder().register_forward_hook(lambda *given: called.append(given))
    first = next(theirs.parameters())
    first.grad = torch.ones_like(first)
    before, text = state_of(theirs), tokenizer(TEXT)["input_ids"]
    wrapped = wrap_model(theirs, tokenizer, name="mine", step=7, languages=languages)
    trace = run_trace(wrapped.checkpoint.model, wrapped.tokenizers, TEXT)
    assert state_of(theirs) == before
    assert tokenizer(TEXT)["input_ids"] == text
    assert called == []
    assert (trace.run, trace.step, trace.sha256) == ("mine", 7, sha256_of(theirs))
    assert trace.target_ids == expected.target_ids
    for kind, maps in trace.attention.items():
        assert_near(maps, expected.attention[kind], operations=PASS)
    source, target = torch.tensor([text]), torch.tensor([[0]])
    theirs(input_ids=source, decoder_input_ids=target).logits.sum().backward()
    assert len(called) == 1


def test_a_wrapped_model_is_a_snapshot(make_folder: MakeFolder) -> None:
    """What its owner trains afterwards does not change it, and gives another sha256."""
    theirs, tokenizer = load(make_folder("marian"))
    wrapped = wrap_model(theirs, tokenizer)
    model, sha256 = wrapped.checkpoint.model, wrapped.checkpoint.sha256
    ids = wrapped.tokenizers.encode_source(TEXT), [*wrapped.tokenizers.prefix, 5, 6]
    first = run_attention(model, *ids)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5)
    again = run_attention(model, *ids)
    for kind, maps in first.attention.items():
        assert_near(again.attention[kind], maps, operations=1)
    assert sha256_of(theirs) != sha256
    assert wrap_model(theirs, tokenizer).checkpoint.sha256 == sha256_of(theirs)


def test_a_model_of_ours_is_wrapped_too(trained_run: TrainedRun) -> None:
    theirs = load_weights(trained_run, 8).model.train().requires_grad_(True)
    wrapped = wrap_model(theirs, trained_run.tokenizers, name="mine", step=3)
    assert theirs.training
    assert all(parameter.requires_grad for parameter in theirs.parameters())
    assert theirs.origin.run == "tiny"
    trace = run_trace(wrapped.checkpoint.model, wrapped.tokenizers, TEXT, "El gato duerme.")
    assert (trace.run, trace.step) == ("mine", 3)
    model = load_weights(trained_run, 8).model
    expected = run_trace(model, trained_run.tokenizers, TEXT, trace.target_ids)
    assert_near(trace.attention["cross"], expected.attention["cross"], operations=PASS)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m, t: (m.model, t), ValueError, "an encoder-decoder .* got MarianModel"),
        (lambda m, t: (torch.nn.Linear(2, 2), t), ValueError, "got Linear"),
        (lambda m, t: (m.to("meta"), t), ValueError, "weights are in memory"),
        (lambda m, t: (_of_unknown_family(m), t), CheckpointError, "rag"),
        (lambda m, t: (m, None), ValueError, "tokenizer: expected one of transformers.*NoneType"),
    ],
    ids=["without output layer", "no transformers", "on no device", "unknown", "no tokenizer"],
)
def test_what_cannot_be_wrapped_is_refused(
    change: Callable[..., tuple[Any, Any]],
    error: type[Exception],
    message: str,
    make_folder: MakeFolder,
) -> None:
    with pytest.raises(error, match=message):
        wrap_model(*change(*load(make_folder("marian"))))


def _of_unknown_family(model: Any) -> Any:
    model.config.model_type = "rag"
    return model


# Every door asks for memory before it traces or measures

QUESTION = "Where is the old dog?"
DOORS: dict[str, Callable[[Path, Path, Path], object]] = {
    "trace": lambda root, data, out: headwise.open("tiny", root=root)[-1].trace(QUESTION),
    "logits and tensors": lambda root, data, out: headwise.open("tiny", root=root)[
        -1
    ].run_with_cache(QUESTION),
    "export": lambda root, data, out: export.main(
        export.ExportArguments(
            out=out / "a.npz", sentence=SentenceOptions(run="tiny", text=QUESTION, checkpoints=root)
        )
    ),
    "measures in Python": lambda root, data, out: headwise.measure(
        headwise.open("tiny", root=root)[-1], [(QUESTION, QUESTION)], ours="entropy"
    ),
    "measures from the shell": lambda root, data, out: measure.main(
        measure.MeasureArguments(run="tiny", data=str(data), only="resamples", checkpoints=root)
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_refuses_what_memory_has_no_room_for(
    trained_run: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    def decode(*_: object, **__: object) -> None:
        raise AssertionError("it was decoded before memory was asked for")

    monkeypatch.setattr(greedy, "decode_step_by_step", decode)
    monkeypatch.setattr(budget, "used", lambda: 700 * 2**20)
    monkeypatch.setenv(budget.MEMORY, str(700 * 2**20 + 1_000))
    expected = r"takes some \d+ MiB of memory, and 0 are free here; give a shorter text, or more"
    with pytest.raises(ValueError, match=expected):
        DOORS[door](trained_run.folder.parent, DATA / "valid.jsonl", tmp_path)
