"""Many people at once: ``python -m benchmarks.load --sessions 20 --minutes 5 --pages 5``.

Starts the app, or with ``--replicas`` several behind HAProxy, and lets 1, 5, … sessions type
sentences over its WebSocket and then some pages in Chromium, for so many minutes each. No sentence
is sent twice, and every session looks at another head. Without ``--pause`` or ``--together`` each
sends its next sentence as soon as the last is drawn, which is more than people do, and every fifth
sentence is overtaken by the next while its page is being drawn. Afterwards each answer is compared
with a trace computed in this process. Only this machine is addressed. Ends with 1 if anything was
wrong, or a replica's memory (Linux only) went over 2 GiB or did not level off.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import tyro

from benchmarks.load_answers import Expected, sentences_of
from benchmarks.load_replicas import serving_replicas
from benchmarks.load_stages import WITHOUT_PAUSES, Rhythm, Stage, drive, show
from benchmarks.report import Table, Tick
from benchmarks.written import markdown

MOST_MEMORY = 2048.0
"""MiB."""
MOST_GROWTH = 0.05
LEVEL_AFTER = 3.0
"""Minutes; in less time caches still fill, and growth is shown but no fault."""
_SHOWN = 20
"""Faults that are printed."""


@dataclass(frozen=True)
class LoadArguments:
    """Drive the app with many sessions and check every answer."""

    sessions: int = 20
    """At once, in the last stage; smaller ones of 1 and 5 come first."""
    minutes: float = 5.0
    """A stage."""
    pages: int = 5
    """Pages in Chromium at once, in a stage of their own, without pauses; 0 for none."""
    replicas: int = 1
    """Servers of the app; several are behind HAProxy, as deploy/haproxy.cfg has it."""
    rhythm: Annotated[Rhythm, tyro.conf.arg(name="")] = WITHOUT_PAUSES
    """When sessions type."""
    run: str = "en-es"
    """A run that sentences are shipped for."""
    json: Path | None = None
    """File to write the results to."""


async def run_stages(arguments: LoadArguments, tick: Tick) -> list[Stage]:
    """All stages on the same servers; what the logs say counts for the last."""
    expected = Expected(arguments.run)
    sentences = sentences_of(arguments.run)
    seconds = 60 * arguments.minutes
    stages = []
    with serving_replicas(arguments.replicas) as replicas:
        watching = [asyncio.create_task(server.watch()) for server in replicas.servers]
        for number in [n for n in (1, 5) if n < arguments.sessions] + [arguments.sessions]:
            stages.append(
                await drive(replicas, expected, number, seconds, sentences, arguments.rhythm)
            )
            tick(stages[-1].what)
        if arguments.pages:
            stages.append(await show(replicas, expected, arguments.pages, seconds, sentences))
            tick(stages[-1].what)
        for task in watching:
            task.cancel()
        stages[-1].faults += replicas.faults()
    for stage in stages:
        stage.faults += memory_faults(stage, arguments.minutes)
    return stages


def memory_faults(stage: Stage, minutes: float) -> list[str]:
    """What is wrong with the memory of a stage."""
    faults = []
    if stage.memory is not None and stage.memory > MOST_MEMORY:
        faults.append(f"{stage.what}: {stage.memory:,.0f} MiB, more than {MOST_MEMORY:,.0f}")
    if minutes >= LEVEL_AFTER and stage.growth > MOST_GROWTH:
        faults.append(f"{stage.what}: memory still grew by {stage.growth:.1%} in the last third")
    return faults


def table(stages: list[Stage], minutes: float) -> Table:
    """The results."""
    columns = (
        "",
        "answers",
        "sentences/s",
        "p50 (s)",
        "p95 (s)",
        "last of a round, median (s)",
        "worst round (s)",
        "kB an answer",
        "most memory (MiB)",
        "growth at the end",
        "faults",
    )
    rows = tuple(
        (
            stage.what,
            stage.answers,
            stage.a_second,
            stage.p50,
            stage.p95,
            median(stage.rounds) if stage.rounds else None,
            max(stage.rounds, default=None),
            stage.kilobytes,
            stage.memory,
            f"{stage.growth:+.1%}",
            len(stage.faults),
        )
        for stage in stages
    )
    return Table(f"Load, {minutes:g} minutes a stage", columns, rows)


def main(arguments: LoadArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    torch.set_num_threads(1)
    stages = asyncio.run(run_stages(arguments, lambda what: print(what, file=sys.stderr)))
    print("\n".join(markdown(table(stages, arguments.minutes))))
    if arguments.json is not None:
        results = {"arguments": asdict(arguments), "stages": [asdict(stage) for stage in stages]}
        arguments.json.write_text(json.dumps(results, indent=2, default=str) + "\n")
    faults = [fault for stage in stages for fault in stage.faults]
    for fault in faults[:_SHOWN]:
        print(fault)
    if len(faults) > _SHOWN:
        print(f"… and {len(faults) - _SHOWN} more")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(LoadArguments)))
