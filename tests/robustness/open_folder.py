"""Healthy folders of every kind, and functions that open all that is in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from headwise.model.files import CheckpointError
from headwise.model.runs import open_run
from tests.model.pretrained.tiny import FOLDERS as PRETRAINED
from tests.model.pretrained.tiny import trainer_state
from tests.robustness.read_run import read_run
from tests.robustness.tiny_run import PAIRS, make_run

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


FOLDERS: dict[str, tuple[Callable[[Path], object], Read]] = {
    "bpe": (lambda folder: make_run(folder.parent, "bpe"), _read_ours),
} | {
    name: (partial(_make_pretrained, name), _read_pretrained)
    for name in ("t5", "bart", "marian_separate", "m2m_100", "bert2bert")
}
