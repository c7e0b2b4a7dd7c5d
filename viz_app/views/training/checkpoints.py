"""Going through all checkpoints of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.errors import USER_ERRORS, describe_error
from headwise.viz_app.views.shared.log import log_refusal

Result = TypeVar("Result")
_PROGRESS_AFTER = 0.4
"""Seconds after which progress is shown."""


def has_several(run: Run, to: str) -> bool:
    """Return whether a run has several checkpoints; say so if there is nothing ``to`` do."""
    if several := len(run.steps()) > 1:
        return several
    st.info(f"This run has one checkpoint only: there is nothing to {to}.")
    return False


def at_each(run: Run, compute: Callable[[int], Result]) -> tuple[dict[int, Result], dict[int, str]]:
    """Compute something at each step; return what could be, and the errors of others as Markdown.

    Progress is shown where this is called.
    """
    steps, since, place = run.steps(), time.monotonic(), st.empty()
    found: dict[int, Result] = {}
    problems: dict[int, str] = {}
    for at, step in enumerate(steps):
        if time.monotonic() - since > _PROGRESS_AFTER:
            place.progress(at / len(steps), f"Step {step:,} of {steps[-1]:,}")
        try_at(step, compute, found, problems)
    place.empty()
    return found, problems


def try_at(
    step: int, compute: Callable[[int], Result], found: dict[int, Result], problems: dict[int, str]
) -> None:
    """Compute something at a step; note it, or the error as Markdown."""
    try:
        found[step] = compute(step)
    except USER_ERRORS as problem:
        log_refusal(problem)
        problems[step] = describe_error(problem)
