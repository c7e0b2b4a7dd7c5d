"""Many sessions at once; ``benchmarks.load`` says what is driven and what counts as a fault."""

from __future__ import annotations

import torch

from benchmarks.load import MOST_MEMORY, LoadArguments, run_stages, table
from benchmarks.load_session import apart
from benchmarks.report import Findings


def measure(found: Findings, rounds: int) -> None:
    """1, 5 and 20 sessions over the WebSocket, five minutes each in ten rounds or more."""
    arguments = LoadArguments(minutes=min(rounds / 2, 5.0))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        stages = apart(run_stages(arguments))
    finally:
        torch.set_num_threads(threads)
    found.tables.append(table(stages, arguments.minutes))
    found.notes += (faults := [fault for stage in stages for fault in stage.faults])[:5]
    found.rule("load: faults", len(faults), 0)
    if memory := [stage.memory for stage in stages if stage.memory is not None]:
        found.rule("load: most memory (MiB)", max(memory), MOST_MEMORY)
