"""The same pass with the weights of every head of every attention recorded."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.peers.marian import bridge_of, marian_of
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, model_of
from headwise.model.hooks import capture, hook_names
from headwise.model.transformer import Transformer

_LENGTHS = (20, 200)
STEPS = len(_LENGTHS)


@torch.inference_mode()
def measure(*, rounds: int, tick: Tick) -> Findings:
    """Ours beside Marian's ``output_attentions`` and TransformerLens' bridge around it, batch 1."""
    ours = model_of()
    names = [name for name in hook_names(ours) if name.endswith(".weights")]
    marian = marian_of(ours, attention="eager")
    bridge = bridge_of(marian)
    rows, rules, raw = [], [], {}
    for length in _LENGTHS:
        case = f"{length} tokens"
        source, target = ids_of(1, length, seed=1), ids_of(1, length, seed=2)
        calls = {
            "ours": partial(_of_ours, ours, names, source, target),
            "Marian": partial(_of_marian, marian, source, target),
            "TransformerLens": partial(_of_bridge, bridge, source, target),
        }
        _check({name: call() for name, call in calls.items()})
        seconds = in_rounds(calls | {"off": partial(ours, source, target)}, rounds)
        to_marian, to_bridge, to_off = (
            ratio(seconds["ours"], seconds[other]) for other in ("Marian", "TransformerLens", "off")
        )
        times = (1e3 * median(values) for values in seconds.values())
        rows.append((case, *times, to_marian, to_bridge, to_off))
        rules.append(Rule(f"attention recorded, {case}: time of Marian", to_marian, 0.8))
        raw |= {f"capture, {case}, {name} (s)": values for name, values in seconds.items()}
        tick(case)
    columns = (
        "",
        "ours (ms)",
        "Marian (ms)",
        "TransformerLens (ms)",
        "ours, nothing recorded (ms)",
        "of Marian",
        "of TransformerLens",
        "recorded / not",
    )
    note = "TransformerLens is its bridge around the same Marian, recording the same maps."
    table = Table("All attention recorded", columns, tuple(rows))
    return Findings((table,), tuple(rules), (note,), raw=raw)


def _of_ours(ours: Transformer, names: list[str], source: Tensor, target: Tensor) -> list[Tensor]:
    with capture(ours, names) as seen:
        ours(source, target)
    return [weights for [weights] in seen.values()]


def _of_marian(marian: MarianMTModel, source: Tensor, target: Tensor) -> list[Tensor]:
    output: Any = marian(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        decoder_input_ids=target,
        use_cache=False,
        output_attentions=True,
    )
    decoder = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(kind for layer in decoder for kind in layer)]


def _of_bridge(bridge: Any, source: Tensor, target: Tensor) -> list[Tensor]:
    _, cache = bridge.run_with_cache(
        source,
        decoder_input=target,
        attention_mask=torch.ones_like(source),
        names_filter=lambda name: name.endswith("hook_pattern"),
    )
    return list(cache.values())


def _check(weights: dict[str, list[Tensor]]) -> None:
    for name, theirs in weights.items():
        if len(theirs) != len(weights["ours"]):
            raise ValueError(f"{name} records {len(theirs)} maps, ours {len(weights['ours'])}")
        for ours, other in zip(weights["ours"], theirs, strict=True):
            torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5, msg=f"{name} differs")
