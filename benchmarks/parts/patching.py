"""All patches of one sentence by another, and their approximation by one backward pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.parts.pretrained import VOCABULARY, opus_mt
from benchmarks.report import Cell, Findings, Rule, Table, Tick
from benchmarks.rounds import median
from benchmarks.sizes import model_of, tokenizers_of
from headwise.model.interface import Seq2SeqModel
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.tokenizer import TokenizerPair
from headwise.model.work import A_SECOND
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.patches import run_attribution, run_patching
from headwise.viz_app.why.sentences.patching import Patching

TOKENS = 12
MODELS: dict[str, tuple[Callable[[], tuple[Seq2SeqModel, TokenizerPair]], float]] = {
    "3 + 3 layers, D = 128": (lambda: (model_of(endless=True), tokenizers_of()), 2.0),
    "opus-mt's shape: 6 + 6 layers, 8 heads, D = 512": (
        lambda: (PretrainedModel(opus_mt(ATTENTION)), tokenizers_of(VOCABULARY)),
        15.0,
    ),
}
"""Name → what makes the model, and the seconds within which all maps must be there."""
THREADS = (1, 2)
STEPS = len(MODELS) * len(THREADS)


def measure(*, rounds: int, tick: Tick) -> Findings:
    """All three maps of restored shares at the last of 12 target tokens, for 12 source tokens.

    Seconds are those of the clock and of the processor, with one thread, as the app has, and two.
    """
    rows: list[tuple[Cell, ...]] = []
    rules: list[Rule] = []
    raw: dict[str, list[float]] = {}
    before = torch.get_num_threads()
    try:
        for name, (make, limit) in MODELS.items():
            exact, quick = asked(*make())
            for threads in THREADS:
                torch.set_num_threads(threads)
                case = f"{name}, {threads} thread{'s' * (threads > 1)}"
                clock, processor = timed(exact, rounds)
                near, _ = timed(quick, rounds)
                passes = len(list(exact().named()))
                rows.append((case, passes, median(clock), median(processor), median(near)))
                rules.append(Rule(f"patching: seconds, {case}", median(clock), limit))
                raw |= {
                    f"patching, {case} (s)": clock,
                    f"patching, {case} (s of the processor)": processor,
                    f"attribution patching, {case} (s)": near,
                }
                tick(case)
    finally:
        torch.set_num_threads(before)
    columns = ("", "patches", "s", "s of the processor", "one backward pass (s)")
    note = (
        f"What exact passes take is estimated beforehand with {A_SECOND / 1e9:.0f} billion "
        "multiply-adds a second."
    )
    table = Table(f"Patching, {TOKENS} tokens", columns, tuple(rows))
    return Findings((table,), tuple(rules), (note,), raw=raw)


def asked(
    model: Seq2SeqModel, tokenizers: TokenizerPair
) -> tuple[Callable[[], Patching], Callable[[], Patching]]:
    """What computes all patches of one sentence by one that differs in a word, and the quick way.

    Tokens are words; the model's own translation is cut where it has enough of them.
    """
    words = [tokenizers.source.decode([100 + 7 * place]) for place in range(TOKENS - 1)]
    texts = " ".join(words), " ".join([*words[:4], tokenizers.source.decode([99]), *words[5:]])
    target = run_trace(model, tokenizers, texts[0]).target_ids[: TOKENS + 1]
    a, b = (run_trace(model, tokenizers, text, target) for text in texts)
    if (len(a.source), len(a.consumed)) != (TOKENS, TOKENS):
        raise ValueError(f"expected {TOKENS} tokens a side, got {a.source}, {a.consumed}")
    given = model, a, b.source, TOKENS - 1, (100, 200)
    return partial(run_patching, *given), partial(run_attribution, *given)


def timed(compute: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the clock and of the processor, after a warm-up."""
    compute()
    clock, processor = [], []
    for _ in range(rounds):
        began = time.perf_counter(), time.process_time()
        compute()
        clock.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return clock, processor
