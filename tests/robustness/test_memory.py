"""Estimates of memory hold, freed memory goes back, and waiting for it is fair."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from benchmarks.load_server import Server, serving
from benchmarks.load_session import Expected, connected
from headwise.model.budget import MEMORY
from tests.imports import ROOT

MOST_TOO_HIGH = 4.0
"""How many times more an estimate may be than what is taken."""
ROUNDING = 10 * 2**20
"""Bytes that a process takes beside arrays."""
MEASURED = """
import json, sys
from dataclasses import replace
from pathlib import Path
import torch
from headwise.model.config import BOS, EOS, TransformerConfig
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.interventions import head_costs
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.why.sentences.correspondence import corresponding
from headwise.viz_app.why.sentences import patches
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.measuring.contributions import contributions
from headwise.model import estimates
from headwise.viz_app.why.word.account import run_account
from headwise.viz_app.why.word.effects import run_source_effects, run_whole_effects
from headwise.viz_app.trace.attention import run_attention, target_log_probability
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.model.budget import used
from headwise.viz_app.session.memory import give_back, use_few_arenas

torch.set_num_threads(1)
use_few_arenas()
words = [f"w{i}" for i in range(3000)]
pair = TokenizerPair.train([(" ".join(words),) * 2], kind="word", vocab_sizes=(3004, 3004),
                           shared=True)
size = pair.source.vocab_size
torch.manual_seed(3)
model = Transformer(TransformerConfig(
    source_vocab_size=size, target_vocab_size=size, n_encoder_layers=2, n_decoder_layers=3,
    n_heads=4, d_k=16, d_model=64, d_ff=128, tied="all", max_length=1024)).eval()
status = Path("/proc/self/status")

def patch_of_one_stretch():
    patches.corresponding = lambda a, b: corresponding(a, b)[:1]
    return patches.run_patching(model, long, other.source, 20, (5, 9))

def peak():
    return next(int(line.split()[1]) for line in status.read_text().splitlines()
                if line.startswith("VmHWM")) * 1024

for n in (24, 600):  # what is taken but once is taken at first
    text = " ".join(["w1"] * n)
    ids = [BOS, *[7] * n, EOS]
    source = [*[7] * n, EOS]
    trace = run_trace(model, pair, "w1", "w2")
    long = run_trace(model, pair, text, text)
    other = run_trace(model, pair, "w2" + text[2:], text)
    nine_words = replace(long, source=replace(long.source, words=long.source.words[:9]))
    what = {
        "trace": (lambda: run_trace(model, pair, text, text),
                  estimates.trace_bytes(model.description, n + 1, n + 1)),
        "maps": (lambda: run_attention(model, source, ids),
                 estimates.maps_bytes(model.description, n + 1, n + 1)),
        "layer": (lambda: run_layer_trace(model, long, "cross", 1),
                  estimates.layer_bytes(model.description, n + 1, n + 1)),
        "costs": (lambda: head_costs(model, source, ids),
                  estimates.costs_bytes(model.description, n + 1, n + 1)),
        "beam": (lambda: beam_search(model, [source[-60:]], size=32, prefix=(BOS,)),
                 estimates.decoding_bytes(model.description, 60, 32)),
        "account": (lambda: run_account(model, long, n, 9),
                    estimates.account_bytes(model.description, n + 1, n + 1)),
        "whole effects": (lambda: run_whole_effects(model, long, 1, 9),
                          estimates.effects_bytes(model.description, n + 1, n + 1)),
        "source effects": (lambda: run_source_effects(model, nine_words, 1, 9),
                           estimates.source_effects_bytes(model.description, n + 1, n + 1)),
        "contributions": (lambda: contributions(model, PaddedIds.of([source], [ids], model)).source,
                          estimates.contributions_bytes(model.description, n + 1, n + 1)),
        "attribution": (lambda: patches.run_attribution(model, long, other.source, n, (5, 9)),
                        estimates.patching_bytes(model.description, n + 1, n + 1)),
        "patching": (patch_of_one_stretch,
                     estimates.patching_bytes(model.description, n + 1, 21)),
        "greedy": (lambda: greedy(model, [source[-60:]] * 32, (BOS,)),
                   estimates.decoding_bytes(model.description, 60, 32)),
        "log-probability": (lambda: target_log_probability(model, source, ids),
                            estimates.logits_bytes(model.description, n + 1, n + 1)),
    }
    found = {}
    for name, (compute, estimate) in what.items():
        give_back()
        before = used()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
        result = compute()
        taken = peak() - before
        del result
        give_back()
        found[name] = (estimate, taken, used() - before)
print(json.dumps(found))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux counts peaks")
def test_estimates_hold_and_freed_memory_goes_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    found: dict[str, tuple[int, int, int]] = json.loads(ran.stdout)
    print(found)
    for name, (estimate, taken, left) in found.items():
        assert taken <= estimate + ROUNDING, name
        assert estimate <= MOST_TOO_HIGH * taken + ROUNDING, name
        assert left < ROUNDING, name


PATIENT = 300.0
"""Seconds; spent only where something is broken."""
WORDS = 800
"""Of a long sentence, whose trace takes more than an eighth of a GiB."""
VAIN = WORDS + 100
"""Of one for which nobody waits any more when its turn comes."""
APART = 1.5
"""Seconds between two who ask, in which the first of them gets into the queue."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Others keep so many processors busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def long_sentence(words: int) -> str:
    return " ".join(["cats", "dogs"] * (words // 2))


async def drive(server: Server) -> tuple[list[int], int]:
    """Return in which order long sentences were answered, and how many short ones meanwhile."""
    head, order = Expected("en-es").head(0), list[int]()
    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(connected(number, head, server.address, PATIENT))
            for number in range(5)
        ]
        *longs, gone, short = sessions
        await short.open("en-es", "The dog sleeps.")

        async def ask(number: int) -> None:
            await asyncio.sleep(APART * number)
            # A translation that is given takes no time before the queue.
            await longs[number].open(
                "en-es", long_sentence(WORDS + 2 * number), target="Los gatos."
            )
            order.append(number)

        async def ask_in_vain() -> None:
            await asyncio.sleep(APART * len(longs))
            with suppress(TimeoutError):
                async with asyncio.timeout(APART / 2):
                    await gone.open("en-es", long_sentence(VAIN), target="Los gatos.")
            await gone.socket.close()

        async def ask_for_little() -> None:
            for number in count():
                await short.type(f"I see {number} cats.")

        little = asyncio.create_task(ask_for_little())
        await asyncio.gather(*map(ask, range(len(longs))), ask_in_vain())
        little.cancel()
        with suppress(asyncio.CancelledError):
            await little
        return order, len(short.seconds)


def test_waiting_is_fair_on_a_busy_machine() -> None:
    """Long sentences are answered as they came, short ones meanwhile, and nobody's not at all."""
    # In a thread of its own: the browser's tests may have left a running loop in this one.
    with serving(**{MEMORY: "1GiB"}) as server, busy(1), ThreadPoolExecutor(1) as apart:
        order, short = apart.submit(asyncio.run, drive(server)).result()
        assert server.faults() == []
        log = server._log.read_text()
    assert order == [0, 1, 2]
    assert short >= 3  # behind the long ones it would be one
    traced = [line for line in log.splitlines() if " trace: " in line]
    lengths = [int(line.partition("source ")[2].partition(",")[0]) for line in traced]
    assert [length for length in lengths if length > WORDS] == [WORDS + 1 + 2 * n for n in range(3)]
