"""Many sessions at once; ``benchmarks.load`` says what is driven and what counts as a fault."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch

from benchmarks.load import MOST_MEMORY, LoadArguments, run_stages, table
from benchmarks.report import Findings, Rule, Tick

STEPS = 4


def measure(*, rounds: int, tick: Tick) -> Findings:
    """1, 5 and 20 sessions over the WebSocket and 5 pages in Chromium, five minutes each."""
    arguments = LoadArguments(minutes=min(rounds / 2, 5.0))  # ten rounds are the usual number
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(1) as pool:  # a loop of events may be running in this thread
            stages = pool.submit(lambda: asyncio.run(run_stages(arguments, tick))).result()
    finally:
        torch.set_num_threads(threads)
    faults = [fault for stage in stages for fault in stage.faults]
    rules = [Rule("load: faults", len(faults), 0)]
    if memory := [stage.memory for stage in stages if stage.memory is not None]:
        rules.append(Rule("load: most memory (MiB)", max(memory), MOST_MEMORY))
    return Findings((table(stages, arguments.minutes),), tuple(rules), tuple(faults[:5]))
