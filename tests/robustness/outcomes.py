"""Cases of Hypothesis, as many as its profile says, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import hypothesis
from hypothesis import HealthCheck
from hypothesis.strategies import SearchStrategy

Case = TypeVar("Case")


def outcomes_of(
    check: Callable[[Case], str], cases: SearchStrategy[Case], *, share: float = 1
) -> Counter[str]:
    """Check cases, and return how often each outcome was given; it is printed too.

    Args:
        check: gives the outcome of a case, or raises where something does not hold.
        cases: what cases are drawn from.
        share: of the number of examples in the profile.
    """
    outcomes = Counter[str]()

    @hypothesis.settings(
        max_examples=round(share * hypothesis.settings.default.max_examples),
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(cases)
    def holds(case: Case) -> None:
        outcomes[check(case)] += 1

    holds()
    print(dict(outcomes))
    return outcomes
