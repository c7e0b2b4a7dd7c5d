"""Healthy folders of every kind, and functions that open all that is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import peft
from transformers import AutoModelForSeq2SeqLM

from headwise.model.files import CheckpointError
from headwise.model.from_torch import convert_from_torch
from headwise.model.pretrained.folders import quiet
from headwise.model.runs import open_run
from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.model.pretrained.tiny import FOLDERS as PRETRAINED
from tests.model.pretrained.tiny import trainer_state
from tests.model.tutorials import from_torch, tutorial_model
from tests.robustness.read_run import read_run
from tests.robustness.tiny_run import PAIRS, make_run, model_of

Read = Callable[[Path], dict[str, str]]
"""Opens all parts of a folder; says by part why it is refused, "" where it is not."""


def _refusals(parts: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Say by part why it is refused."""
    found = {}
    for name, part in parts.items():
        try:
            part()
        except (CheckpointError, ValueError) as error:
            found[name] = str(error) or "without a word"
        else:
            found[name] = ""
    return found


def _read_ours(folder: Path) -> dict[str, str]:
    found = read_run(folder.parent, folder.name)
    return {n: "refused" if v is CheckpointError else "" for n, v in found.items()}


def _read_pretrained(folder: Path) -> dict[str, str]:
    run = open_run(str(folder))

    def last() -> int:
        return run.steps()[-1]

    return _refusals(
        {
            "steps": run.steps,
            "description": lambda: run.description,
            "parameters": lambda: run.parameters,
            "settings": lambda: run.ignored_settings,
            "tokenizers": lambda: run.tokenizers.source.encode("the dog"),
            "texts": lambda: run.tokenizers.target.tokens(range(3)),
            "their hash": lambda: run.tokenizers_sha256,
            "choices": lambda: run.choices,
            "metrics": run.metrics,
            "planned": lambda: run.planned_steps,
            "hash": lambda: run.sha256(last()),
            "weights": lambda: run.load(last()),
        }
    )


def _make_pretrained(name: str, folder: Path) -> None:
    folder.mkdir()
    texts = {"en": [s for s, _ in PAIRS] * 3, "es": [t for _, t in PAIRS] * 3}
    PRETRAINED[name](folder, texts)
    (folder / "trainer_state.json").write_text(trainer_state(20))


def _make_adapter(folder: Path) -> None:
    _make_pretrained("t5", folder)
    base = folder / "base"
    base.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(base / path.name)
    with quiet():
        model = AutoModelForSeq2SeqLM.from_pretrained(base)
        config = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=3, target_modules=["q"])
        peft.get_peft_model(model, config).save_pretrained(folder)
    path = folder / "adapter_config.json"
    values = json.loads(path.read_text()) | {"base_model_name_or_path": "base"}
    path.write_text(json.dumps(values))


def _make_tutorial(folder: Path) -> None:
    folder.mkdir()
    from_torch(folder, tutorial_model().state_dict())


def _read_tutorial(folder: Path) -> dict[str, str]:
    with TemporaryDirectory() as runs:
        arguments = from_torch(folder, None, checkpoints=Path(runs))
        return _refusals({"converted": lambda: convert_from_torch(arguments)})


def _make_traces(folder: Path) -> None:
    folder.mkdir()
    tokenizers = TokenizerPair.train(PAIRS * 2, kind="bpe", vocab_sizes=(400, 420), shared=False)
    trace = run_trace(model_of(tokenizers).eval(), tokenizers, PAIRS[0][0])
    (folder / "trace.npz").write_bytes(to_npz(trace))
    (folder / "trace.json").write_bytes(to_json(trace))


def _read_traces(folder: Path) -> dict[str, str]:
    return _refusals({p.name: partial(read_trace, p) for p in sorted(folder.iterdir())})


FOLDERS: dict[str, tuple[Callable[[Path], object], Read]] = {
    "bpe": (lambda folder: make_run(folder.parent, "bpe"), _read_ours)
} | {
    name: (partial(_make_pretrained, name), _read_pretrained)
    for name in ("t5", "bart", "marian_separate", "m2m_100", "bert2bert")
}
FOLDERS |= {
    "adapter": (_make_adapter, _read_pretrained),
    "tutorial": (_make_tutorial, _read_tutorial),
    "traces": (_make_traces, _read_traces),
}
