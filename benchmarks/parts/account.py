"""The account of a word beside the trace, its whole effects, and clicks on the page Why."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.asked import CLICKS, clicked
from benchmarks.parts.patching import timed
from benchmarks.parts.pretrained import VOCABULARY, opus_mt
from benchmarks.report import Cell, Findings, Rule, Table, Tick
from benchmarks.rounds import median
from benchmarks.sizes import ids_of, tokenizers_of
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.model import PretrainedModel
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.word.account import run_account, word_to_compare
from headwise.viz_app.why.word.effects import run_whole_effects

TOKENS = 20
THREADS = (1, 2)
STEPS = len(THREADS) + 1
_LIMITS = {"account": 0.05, "whole effects": 3.0, "click": 0.3}
"""Seconds within which each must be there."""


def measure(*, rounds: int, tick: Tick) -> Findings:
    """The last of 20 tokens in opus-mt's shape (6 + 6 layers, 8 heads); then clicks on ``en-es``.

    The trace is there before an account is asked for, which takes a pass of its own.
    """
    model, tokenizers = PretrainedModel(opus_mt(ATTENTION)), tokenizers_of(VOCABULARY)
    text = tokenizers.source.decode(ids_of(1, TOKENS - 1, seed=1)[0].tolist())
    trace = run_trace(model, tokenizers, text)
    if (len(trace.source), len(trace.consumed)) != (TOKENS, TOKENS):
        raise ValueError(f"expected {TOKENS} tokens a side, got {trace.source}, {trace.consumed}")
    at = TOKENS - 1
    second = word_to_compare(tokenizers, trace, at, None)
    calls = {
        "trace": partial(run_trace, model, tokenizers, text),
        "account": partial(run_account, model, trace, at, second),
        "whole effects": partial(run_whole_effects, model, trace, at, second),
    }
    rows: list[tuple[Cell, ...]] = []
    rules, raw, before = [], {}, torch.get_num_threads()
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            case = f"{threads} thread{'s' * (threads > 1)}"
            for name, call in calls.items():
                clock, processor = timed(call, rounds)
                rows.append((f"{name}, {case}", 1e3 * median(clock), 1e3 * median(processor)))
                if name in _LIMITS:
                    limit = _LIMITS[name]
                    rules.append(Rule(f"account: seconds, {name}, {case}", median(clock), limit))
                raw[f"account, {name}, {case} (s)"] = clock
                raw[f"account, {name}, {case} (s of the processor)"] = processor
            tick(case)
    finally:
        torch.set_num_threads(before)
    parts = len(model.description.all_heads())
    seconds = clicked(rounds)
    bare = median(seconds.pop("a bare page"))
    drawn = [(name, median(each), median(each) / bare) for name, each in seconds.items()]
    rules += [
        Rule(f"account: seconds of a click, {name}", s, _LIMITS["click"]) for name, s, _ in drawn
    ]
    tick("clicks")
    return Findings(
        (
            Table(
                f"The account of the last of {TOKENS} tokens, opus-mt's shape",
                ("", "ms", "ms of the processor"),
                tuple(rows),
            ),
            Table(
                "A click on Why, en-es",
                ("", "median (s)", "times a bare page"),
                (*drawn, ("a button of Streamlit alone on its page", bare, 1.0)),
            ),
        ),
        tuple(rules),
        (
            f"Whole effects are those of all {parts} heads and of the feed-forwards.",
            "A click is counted until all is drawn that it asks for on the screen: "
            + "; ".join(f"{name}: {what}" for name, (what, _) in CLICKS.items())
            + ".",
        ),
        raw=raw | {f"account, click, {name} (s)": each for name, each in seconds.items()},
    )
