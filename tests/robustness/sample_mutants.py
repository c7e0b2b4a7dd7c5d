"""Reduce a session of Cosmic Ray to a random sample of its mutants.

    python -m tests.robustness.sample_mutants SESSION.sqlite [--count 200] [--seed 0]

Mutants that are no valid Python are left out: any test would fail on them.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import islice
from pathlib import Path

import tyro
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, WorkItem


def _is_python(mutation: MutationSpec) -> bool:
    source = mutation.module_path.read_text(encoding="utf-8")
    line, column = mutation.start_pos
    if source.splitlines()[line - 1].startswith("*,", column):  # a parameter, not a product
        return False
    with suppress(SyntaxError):
        operator = get_operator(mutation.operator_name)()
        compile(mutate_code(source, operator, mutation.occurrence), "mutant", "exec")
        return True
    return False


def _place(item: WorkItem) -> tuple[str, str, int]:
    mutation = item.mutations[0]
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def main(session: tyro.conf.Positional[Path], count: int = 200, seed: int = 0) -> None:
    """Keep ``count`` mutants that have no result yet, all equally likely."""
    with use_db(session, WorkDB.Mode.open) as database:
        items = sorted(database.pending_work_items, key=_place)
        random.Random(seed).shuffle(items)
        sample = [*islice((item for item in items if _is_python(item.mutations[0])), count)]
        database.clear()
        database.add_work_items(sample)
        print(f"{len(sample)} of {len(items)} mutants kept")


if __name__ == "__main__":
    tyro.cli(main)
