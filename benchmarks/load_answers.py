"""What a session shows for a sentence, what it ought to show, and how they are compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from headwise.model.checkpoint import Checkpoint, TrainedRun, load_weights, open_trained_run
from headwise.model.files import lines_of
from headwise.model.interface import KINDS, Head
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.sentence import run_trace

SENTENCES = Path(__file__).parents[1] / "viz_app" / "sentences"
NOTHING = "(no text: the model ended the sentence at once)"
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Answer:
    """What one session shows when its script has finished."""

    session: int
    head: Head
    """Whose map is open, layer and head from 0."""
    sentence: str
    """Of the address, as the server has written it."""
    translation: str | None
    weights: Floats | None
    """The large map, (rows, columns)."""
    problems: tuple[str, ...] = ()
    """What is wrong whatever the sentence: exceptions and error messages."""


class Expected:
    """Traces of a run's newest checkpoint, computed here."""

    def __init__(self, run: str) -> None:
        self.run: TrainedRun = open_trained_run(run)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """With the weights, read once."""
        return load_weights(self.run, self.run.steps()[-1])

    def head(self, session: int) -> Head:
        """That a session looks at: neighbours look at other kinds and heads."""
        config = self.run.info.model
        return (
            KINDS[session % 3],
            session // 3 % config.n_decoder_layers,
            session % config.n_heads,
        )

    def answer(self, session: int, head: Head, sentence: str) -> Answer:
        """What a session ought to show."""
        trace = run_trace(self.checkpoint.model, self.run.tokenizers, sentence)
        kind, layer, number = head
        weights = make_grid(trace, kind).apply(trace.attention[kind])[layer, number]
        return Answer(session, head, sentence, trace.target_text or NOTHING, weights)


def faults_of(answer: Answer, expected: Answer) -> list[str]:
    """What is wrong with an answer; nothing if it is that of its sentence and head."""
    faults = list(answer.problems)
    if answer.translation != expected.translation:
        faults.append(f"translation {answer.translation!r} instead of {expected.translation!r}")
    if answer.weights is None or expected.weights is None:
        faults.append("no map")
    elif answer.weights.shape != expected.weights.shape:
        faults.append(f"a map of {answer.weights.shape} instead of {expected.weights.shape}")
    else:
        off = float(np.abs(answer.weights - expected.weights).max())
        if not off <= TOLERANCE:
            faults.append(f"another map, off by {off:.2g}")
    return [f"session {answer.session}, {answer.sentence!r}: {fault}" for fault in faults]


def address_of(run: str, head: Head, sentence: str, **choices: str) -> str:
    """The query of a link that opens a head on a sentence, with further choices."""
    kind, layer, number = head
    chosen = {"run": run, "q": sentence, "kind": kind, "layer": layer + 1, "head": number + 1}
    return urlencode(chosen | choices)


def sentences_of(run: str) -> Iterator[str]:
    """Sentences without end, none of them twice: those that the app measures with, then pairs."""
    lines = lines_of((SENTENCES / f"{run}.jsonl").read_bytes())
    singles = list(dict.fromkeys(str(json.loads(line)["source"]) for line in lines))
    yield from singles
    yield from pairs_of(singles)


def pairs_of(singles: Sequence[str]) -> Iterator[str]:
    """Every two different sentences in a row, the first changing fastest."""
    for apart in range(1, len(singles)):
        for at, first in enumerate(singles):
            yield f"{first} {singles[(at + apart) % len(singles)]}"


def cells_of(spec: str) -> Floats:
    """The cells of a figure's first trace, (rows, columns), as the browser decodes them."""
    cells: Any = json.loads(spec)["data"][0]["z"]
    if isinstance(cells, list):
        return np.array(cells, dtype=np.float32)
    flat = np.frombuffer(base64.b64decode(cells["bdata"]), dtype=cells["dtype"])
    shape = cells["shape"]
    sides = map(int, shape.split(",") if isinstance(shape, str) else shape)
    return flat.reshape(tuple(sides)).astype(np.float32)
