"""One teacher-forced pass, from ids to logits, without anything recorded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.peers.marian import marian_of
from benchmarks.peers.torch_nn import TorchTransformer
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, model_of
from headwise.model.transformer import Transformer

_CASES = ((1, 20), (1, 200), (32, 20), (32, 200))
STEPS = len(_CASES)


@torch.inference_mode()
def measure(*, rounds: int, tick: Tick) -> Findings:
    """Ours beside Marian (sdpa) and ``torch.nn.Transformer``; no padding, but all get its mask."""
    ours = model_of()
    models = ours, marian_of(ours), TorchTransformer(ours)
    rows, rules, raw = [], [], {}
    for batch, length in _CASES:
        case = f"batch {batch}, {length} tokens"
        calls = _calls(models, ids_of(batch, length, seed=1), ids_of(batch, length, seed=2))
        logits = {name: call() for name, call in calls.items()}
        for other in ("Marian", "torch.nn"):
            torch.testing.assert_close(logits["ours"], logits[other], rtol=1e-4, atol=1e-4)
        seconds = in_rounds(calls, rounds)
        to_marian = ratio(seconds["ours"], seconds["Marian"])
        to_torch = ratio(seconds["ours"], seconds["torch.nn"])
        times = (1e3 * median(values) for values in seconds.values())
        rows.append((case, *times, to_marian, to_torch))
        if batch == 1:
            rules.append(Rule(f"forward, {case}: time of Marian", to_marian, 0.8))
        else:
            worse = max(to_marian, to_torch)
            rules.append(Rule(f"forward, {case}: time of the better peer", worse, 1.05))
        raw |= {f"forward, {case}, {name} (s)": values for name, values in seconds.items()}
        tick(case)
    columns = ("", "ours (ms)", "Marian (ms)", "torch.nn (ms)", "of Marian", "of torch.nn")
    return Findings((Table("Forward pass", columns, tuple(rows)),), tuple(rules), raw=raw)


def _calls(
    models: tuple[Transformer, MarianMTModel, TorchTransformer], source: Tensor, target: Tensor
) -> dict[str, Callable[[], Tensor]]:
    ours, marian, torch_nn = models
    inputs = {
        "input_ids": source,
        "attention_mask": torch.ones_like(source),
        "decoder_input_ids": target,
        "use_cache": False,
    }
    return {
        "ours": lambda: ours(source, target),
        "Marian": lambda: marian(**inputs).logits,
        "torch.nn": lambda: torch_nn(source, target),
    }
