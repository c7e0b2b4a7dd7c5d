"""What a researcher asks of the heads of a Marian, by Headwise, TransformerLens and inseq."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import by_headwise, by_inseq, by_transformer_lens
from benchmarks.report import Cell, Findings, Table, Tick
from benchmarks.rounds import median
from benchmarks.runs import write_run
from headwise.model.checkpoint import open_trained_run
from headwise.model.config import TransformerConfig
from headwise.model.pretrained.to_transformers import save_for_transformers
from headwise.model.transformer import Transformer

TOOLS = {"Headwise": by_headwise, "TransformerLens": by_transformer_lens, "inseq": by_inseq}
TASKS = {
    "cross_attention": "all cross-attention of a sentence",
    "without_a_head": "one head off: what the loss rises by",
    "gradient": "gradient of one token's logit by each source token",
    "ranked": "all 144 heads ranked by what the loss rises by without them",
}
SOURCE = "The old man reads a newspaper in the garden while his wife makes coffee."
TARGET = "El viejo lee un periódico en el jardín mientras su mujer hace café."
ROOT = Path(__file__).parents[2]
STEPS = len(TOOLS) * len(TASKS)


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Each task by each tool in a process of its own, with the same results.

    The Marian has the layers of opus-mt (6 + 6, 8 heads, D = 512), random weights and the tokens of
    ``en-es``. inseq does not agree with TransformerLens on versions: ``HEADWISE_INSEQ`` names the
    Python of an environment with ``benchmarks/requirements-inseq.txt``.
    """
    rows: list[tuple[Cell, ...]] = []
    loads: dict[str, list[dict[str, Any]]] = {name: [] for name in TOOLS}
    raw: dict[str, Sequence[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_marian(Path(temporary))
        for task, what in TASKS.items():
            row: list[Cell] = [what]
            expected: Any = None
            for name, module in TOOLS.items():
                found = _done(module.__name__.rpartition(".")[2], task, folder, rounds)
                tick(f"{name}: {what}")
                if found is None:
                    row += [None, None, None]
                    continue
                expected = found["result"] if expected is None else expected
                _check(name, task, found["result"], expected)
                loads[name].append(found)
                raw[f"research, {task}, {name} (s)"] = found["seconds"]
                lines = lines_of(Path(str(module.__file__)), task)
                row += [lines, median(found["seconds"]), found["most"] - found["loaded"]]
            rows.append(tuple(row))
    start: list[Cell] = ["importing and loading"]
    for name, module in TOOLS.items():
        every = loads[name]
        start += (
            [
                lines_of(Path(str(module.__file__)), "load"),
                median([each["loading"] for each in every]),
                median([each["loaded"] for each in every]),
            ]
            if every
            else [None, None, None]
        )
    columns = ("", *(f"{name}: {unit}" for name in TOOLS for unit in ("lines", "s", "MiB")))
    note = (
        "s: of the processor, one thread; MiB: after loading, and at most more than that in a task."
    )
    table = Table("Heads of a Marian, from Python", columns, (tuple(start), *rows))
    return Findings((table,), (), (note,), raw=raw)


def write_marian(root: Path, *, layers: int = 6, heads: int = 8, d_model: int = 512) -> Path:
    """Write a Marian of random weights with the tokenizer of ``en-es`` as transformers does."""
    tokenizers = open_trained_run("en-es").tokenizers
    size = tokenizers.source.vocab_size
    torch.manual_seed(0)
    config = TransformerConfig(
        size,
        size,
        n_encoder_layers=layers,
        n_decoder_layers=layers,
        n_heads=heads,
        d_model=d_model,
        d_ff=4 * d_model,
        norm="post",
        final_norm=False,
        output_bias=True,
        max_length=64,
    )
    write_run(root / "run", Transformer(config), tokenizers, source="en", target="es")
    save_for_transformers(open_trained_run("run", root=root), root / "marian")
    return root / "marian"


def _done(tool: str, task: str, folder: Path, rounds: int) -> dict[str, Any] | None:
    """What a task took, or None if the tool cannot do it or is not installed."""
    if not hasattr(sys.modules[f"benchmarks.peers.{tool}"], task):
        return None
    python = os.environ.get("HEADWISE_INSEQ", sys.executable) if "inseq" in tool else sys.executable
    times = max(1, rounds // 5) if task == "ranked" else rounds
    done = subprocess.run(
        [python, "-m", "benchmarks.peers.one_task", tool, task, folder, SOURCE, TARGET, str(times)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        raise RuntimeError(f"{tool}, {task}: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _check(name: str, task: str, found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        found, expected = [found[head] for head in expected], list(expected.values())
    if not np.allclose(np.array(found), np.array(expected), rtol=1e-3, atol=1e-4):
        raise ValueError(f"{name} has another result for {task}")


def lines_of(file: Path, name: str) -> int:
    """Lines of what a function does, and of the file's other functions that it calls."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    wanted, seen = [name], set[str]()
    while wanted:
        this = wanted.pop()
        if this in functions and this not in seen:
            seen.add(this)
            wanted += [node.id for node in ast.walk(functions[this]) if isinstance(node, ast.Name)]
    text = file.read_text(encoding="utf-8").splitlines()
    return sum(
        sum(bool(line.strip()) for line in text[each.body[0].lineno - 1 : each.end_lineno])
        + (each.name != name)  # of a helper its first line as well
        for each in map(functions.__getitem__, seen)
    )
