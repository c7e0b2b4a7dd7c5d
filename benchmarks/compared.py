"""Our model beside its peers in this process: a pass, attention, a trace, decoding, training.

All have the same random weights and get a mask of padding although nothing is padded. What they
compute is compared before the clock starts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.models import Sentences, ids_of, model_of
from benchmarks.peers.marian import attention_of, generate, logits_of, marian_of
from benchmarks.peers.torch_nn import TorchTransformer
from benchmarks.report import Findings, Seconds, in_rounds, ratio
from headwise.model.checkpoint import open_trained_run
from headwise.model.decoding.greedy import greedy as decode
from headwise.model.hooks import capture as recording
from headwise.model.hooks import hook_names
from headwise.model.transformer import Transformer
from headwise.viz_app.trace.sentence import run_trace

Calls = dict[str, Callable[..., Any]]


def _milliseconds(seconds: Seconds) -> list[float]:
    return [1e3 * median(each) for each in seconds.values()]


@torch.inference_mode()
def forward(found: Findings, rounds: int) -> None:
    """One teacher-forced pass, from ids to logits, without anything recorded."""
    ours = model_of()
    marian, torch_nn = marian_of(ours), TorchTransformer(ours)
    rows = []
    for batch, length in ((1, 20), (1, 200), (32, 20), (32, 200)):
        case = f"batch {batch}, {length} tokens"
        given = ids_of(batch, length, seed=1), ids_of(batch, length, seed=2)
        calls = {
            "ours": partial(ours, *given),
            "Marian": partial(logits_of, marian, *given),
            "torch.nn": partial(torch_nn, *given),
        }
        for other in ("Marian", "torch.nn"):
            torch.testing.assert_close(calls["ours"](), calls[other](), rtol=1e-4, atol=1e-4)
        seconds = in_rounds(calls, rounds)
        to_marian, to_torch = (ratio(seconds["ours"], seconds[o]) for o in ("Marian", "torch.nn"))
        rows.append((case, *_milliseconds(seconds), to_marian, to_torch))
        if batch == 1:
            found.rule(f"forward, {case}: time of Marian", to_marian, 0.8)
        else:
            worse = max(to_marian, to_torch)
            found.rule(f"forward, {case}: time of the better peer", worse, 1.05)
    columns = ("", "ours (ms)", "Marian (ms)", "torch.nn (ms)", "of Marian", "of torch.nn")
    found.table("Forward pass", columns, rows)


@torch.inference_mode()
def capture(found: Findings, rounds: int) -> None:
    """The same pass, batch 1, with the weights of every head of every attention recorded."""
    from benchmarks.peers.transformer_lens import bridge_of, patterns_of

    ours = model_of()
    names = [name for name in hook_names(ours) if name.endswith(".weights")]
    marian = marian_of(ours, attention="eager")
    bridge = bridge_of(marian)
    rows = []

    def recorded(source: Tensor, target: Tensor) -> list[Tensor]:
        with recording(ours, names) as seen:
            ours(source, target)
        return [weights for [weights] in seen.values()]

    for length in (20, 200):
        case = f"{length} tokens"
        given = ids_of(1, length, seed=1), ids_of(1, length, seed=2)
        calls = {
            "ours": partial(recorded, *given),
            "Marian": partial(attention_of, marian, *given),
            "TransformerLens": partial(patterns_of, bridge, *given),
        }
        for name in ("Marian", "TransformerLens"):
            for mine, other in zip(calls["ours"](), calls[name](), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5, msg=f"{name} differs")
        seconds = in_rounds(calls | {"off": partial(ours, *given)}, rounds)
        ratios = [
            ratio(seconds["ours"], seconds[of]) for of in ("Marian", "TransformerLens", "off")
        ]
        rows.append((case, *_milliseconds(seconds), *ratios))
        found.rule(f"attention recorded, {case}: time of Marian", ratios[0], 0.8)
    of = ("of Marian", "of TransformerLens", "recorded / not")
    ms = ("ours (ms)", "Marian (ms)", "TransformerLens (ms)", "ours, nothing recorded (ms)")
    found.table("All attention recorded", ("", *ms, *of), rows)
    found.notes.append(
        "TransformerLens is its bridge around the same Marian, recording the same maps."
    )


def trace(found: Findings, rounds: int) -> None:
    """A forced target, so that both run one teacher-forced pass; and with the translation too.

    BertViz's part is Marian's pass with ``output_attentions`` and the HTML of its ``model_view``.
    """
    from benchmarks.peers.bertviz import prepared

    tokenizers = open_trained_run("en-es").tokenizers
    rows = []
    for length in (20, 50, 100, 200):
        ours = model_of(max_length=length, endless=True)
        text = Sentences(tokenizers, seed=1).of(length)
        own = run_trace(ours, tokenizers, text)
        if (len(own.source), len(own.consumed)) != (length, length):
            raise ValueError(f"expected {length} tokens a side, got {own.source}, {own.consumed}")
        if failed := [check for check in own.checks if not check.passed]:
            raise ValueError(f"the trace's own checks failed: {failed}")
        forced = partial(run_trace, ours, tokenizers, text, own.target_ids)
        calls: Calls = {
            "forced": forced,
            "own": partial(run_trace, ours, tokenizers, text),
            "BertViz": partial(prepared, marian_of(ours, attention="eager"), own),
        }
        for kind, weights in forced().attention.items():
            torch.testing.assert_close(torch.tensor(weights), torch.tensor(own.attention[kind]))
        seconds = in_rounds(calls, rounds)
        times = _milliseconds(seconds)
        rows.append((f"{length} tokens", *times, ratio(seconds["forced"], seconds["BertViz"])))
        if length == 20:
            found.rule("trace of 20 tokens, target given (ms)", times[0], 25.0)
    columns = ("", "target given (ms)", "translation too (ms)", "BertViz (ms)", "of BertViz")
    found.table("Trace", columns, rows)
    found.notes.append(
        "A trace also holds queries, keys, values, streams, embeddings, predictions and the lens "
        "of each layer; BertViz' part holds the weights of attention only."
    )


def greedy(found: Findings, rounds: int) -> None:
    """20 new tokens from 20, in float32; CTranslate2 is the limit."""
    from benchmarks.peers.ctranslate2 import convert, translator

    tokens = 20
    ours = model_of(max_length=tokens, endless=True)  # else it goes on to twice the source
    marian = marian_of(ours)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        convert(marian, folder)
        with translator(folder, threads=torch.get_num_threads()) as limit:
            for batch, wanted in ((1, 2.5), (64, 1.5)):
                source = ids_of(batch, tokens, seed=1)
                calls: Calls = {
                    "ours": partial(decode, ours, source.tolist()),
                    "Marian": partial(generate, marian, source, tokens),
                    "CTranslate2": partial(limit, source.tolist(), tokens),
                }
                targets = [calls["ours"](), calls["Marian"]().tolist(), calls["CTranslate2"]()]
                if targets != [targets[0]] * 3 or len(targets[0][0]) != tokens + 1:
                    raise ValueError("a peer decodes something else than ours")
                seconds = in_rounds(calls, rounds)
                speeds = [tokens * batch / median(values) for values in seconds.values()]
                times = [ratio(seconds[o], seconds["ours"]) for o in ("Marian", "CTranslate2")]
                rows.append((f"batch {batch}", *speeds, *times))
                what = f"greedy, batch {batch}: times Marian's speed"
                found.rule(what, times[0], wanted, at_least=True)
    speeds_of = ("ours (tokens/s)", "Marian (tokens/s)", "CTranslate2 (tokens/s)")
    found.table("Greedy decoding", ("", *speeds_of, "times Marian", "times CTranslate2"), rows)


def training(found: Findings, rounds: int) -> None:
    """Forward, backward, clipping and AdamW on 128 pairs of 16 tokens, in float32 and bf16."""
    pairs, tokens = 128, 16
    source, target = ids_of(pairs, tokens, seed=1), ids_of(pairs, tokens + 1, seed=2)
    rows = []
    for precision, rounding in (("float32", 1e-4), ("bf16", 1e-2)):
        ours = model_of()
        marian, torch_nn = marian_of(ours), TorchTransformer(ours)
        # As a training has it: a loaded checkpoint keeps its matrices in another layout.
        fresh = Transformer(ours.config)
        fresh.load_state_dict(ours.state_dict())
        given = {"source": source, "target": target, "bf16": precision == "bf16"}
        calls: Calls = {
            "ours": _stepping(fresh, fresh, **given),
            "Marian": _stepping(marian, partial(logits_of, marian), **given),
            "torch.nn": _stepping(torch_nn, torch_nn, **given),
        }
        losses = {name: call() for name, call in calls.items()}
        if any(abs(loss / losses["ours"] - 1) > rounding for loss in losses.values()):
            raise ValueError(f"the first losses differ: {losses}")
        seconds = in_rounds(calls, rounds)
        better = [min(pair) for pair in zip(seconds["Marian"], seconds["torch.nn"], strict=True)]
        times = ratio(better, seconds["ours"])
        speeds = (pairs * tokens / median(values) for values in seconds.values())
        rows.append((precision, *speeds, times))
        what = f"training step, {precision}: times the better peer"
        found.rule(what, times, 1.0, at_least=True)
    speeds_of = ("ours (tokens/s)", "Marian (tokens/s)", "torch.nn (tokens/s)")
    found.table("Training step, 128 × 16 tokens", ("", *speeds_of, "times the better"), rows)


def _stepping(
    module: nn.Module, passed: Callable[..., Tensor], *, source: Tensor, target: Tensor, bf16: bool
) -> Callable[[], float]:
    """A call that takes a step, the same but for the model."""
    module.train()
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = passed(source, target[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits.float(), target[:, 1:].flatten(), label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step
