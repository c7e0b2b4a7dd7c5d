"""Trace, decoding and exports of sentences of several sizes, in this process."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from benchmarks.report import Tick
from benchmarks.runs import Figures, Sentences, Size
from benchmarks.sizes import model_of
from headwise.model.decoding.greedy import greedy
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace

_EXPORTS: Mapping[str, Callable[[Trace], bytes]] = {
    ".html": to_html,
    ".npz": to_npz,
    ".json": to_json,
}
Made = TypeVar("Made")


def run_steps(tokenizers: TokenizerPair, rounds: Mapping[Size, int], tick: Tick) -> Figures:
    """Run all steps on sentences of each size in turn.

    Args:
        tokenizers: of as many tokens as ``sizes.VOCABULARY``.
        rounds: size → how many sentences.
        tick: called after the last sentence of each size.

    Raises:
        RuntimeError: if something is not of its size, or a trace fails its own checks.
    """
    sentences = Sentences(tokenizers, seed=0)
    # Decoding goes on to the longest target that the model allows.
    models = {
        size: model_of(n_layers=size.layers, max_length=size.tokens, endless=True)
        for size in rounds
    }
    found: Figures = defaultdict(lambda: defaultdict(list))
    shortest = min(rounds, key=lambda size: size.tokens)
    _run(models[shortest], tokenizers, sentences, shortest.tokens)  # a warm-up
    for number in range(max(rounds.values())):
        for size, wanted in rounds.items():
            if number < wanted:
                for name, value in _run(models[size], tokenizers, sentences, size.tokens).items():
                    found[name][size].append(value)
            if number == wanted - 1:
                tick(f"trace and exports, {size}")
    return found


def _run(
    model: Transformer, tokenizers: TokenizerPair, sentences: Sentences, tokens: int
) -> dict[str, float]:
    source, target = sentences.of(tokens), sentences.of(tokens)
    ids = tokenizers.encode_source(source)
    seconds, trace = _timed(partial(run_trace, model, tokenizers, source, target))
    decoding, [decoded] = _timed(partial(greedy, model, [ids]))
    sizes = len(trace.source.ids), len(trace.consumed.ids), len(decoded) - 1
    if sizes != (tokens,) * 3 or not all(check.passed for check in trace.checks):
        raise RuntimeError(f"expected a true trace of {tokens} tokens, got {sizes}, {trace.checks}")
    found = {
        "trace (s)": seconds,
        "trace (MB)": sum(array.nbytes for _, array in trace.arrays()) / 1e6,
        "decoding (s)": decoding,
    }
    for ending, write in _EXPORTS.items():
        seconds, content = _timed(partial(write, trace))
        found |= {f"export {ending} (s)": seconds, f"export {ending} (MB)": len(content) / 1e6}
    return found


def _timed(call: Callable[[], Made]) -> tuple[float, Made]:
    began = time.perf_counter()
    made = call()
    return time.perf_counter() - began, made
