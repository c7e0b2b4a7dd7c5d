"""Greedy decoding of 20 new tokens from 20."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.peers.ctranslate2 import convert, translator
from benchmarks.peers.marian import marian_of
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, model_of
from headwise.model.decoding.greedy import greedy

_TOKENS = 20
_CASES = {1: 2.5, 64: 1.5}
"""Batch → how many times Marian's speed is wanted."""
STEPS = len(_CASES)


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Ours beside Marian's ``generate`` and, as the limit, CTranslate2, all in float32."""
    ours = model_of(max_length=_TOKENS, endless=True)  # else it goes on to twice the source
    marian = marian_of(ours)
    rows, rules, raw = [], [], {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()), "model")
        convert(marian, folder)
        limit = stack.enter_context(translator(folder, threads=torch.get_num_threads()))
        for batch, wanted in _CASES.items():
            case = f"batch {batch}"
            source = ids_of(batch, _TOKENS, seed=1)
            calls = {
                "ours": partial(greedy, ours, source.tolist()),
                "Marian": partial(_of_marian, marian, source),
                "CTranslate2": partial(limit, source.tolist(), _TOKENS),
            }
            found = {name: call() for name, call in calls.items()}
            for name, targets in found.items():
                if targets != found["ours"] or len(targets[0]) != _TOKENS + 1:
                    raise ValueError(f"{name} decodes something else than ours")
            seconds = in_rounds(calls, rounds)
            speeds = (_TOKENS * batch / median(values) for values in seconds.values())
            to_marian = ratio(seconds["Marian"], seconds["ours"])
            rows.append((case, *speeds, to_marian, ratio(seconds["CTranslate2"], seconds["ours"])))
            rules.append(Rule(f"greedy, {case}: times Marian's speed", to_marian, wanted, True))
            raw |= {f"greedy, {case}, {name} (s)": values for name, values in seconds.items()}
            tick(case)
    columns = (
        "",
        "ours (tokens/s)",
        "Marian (tokens/s)",
        "CTranslate2 (tokens/s)",
        "times Marian",
        "times CTranslate2",
    )
    return Findings((Table("Greedy decoding", columns, tuple(rows)),), tuple(rules), raw=raw)


def _of_marian(marian: MarianMTModel, source: Tensor) -> list[list[int]]:
    found: Any = marian.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        max_new_tokens=_TOKENS,
        num_beams=1,
        do_sample=False,
    )
    return found.tolist()
