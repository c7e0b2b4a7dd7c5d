from __future__ import annotations

import pytest

from headwise.viz_app.records.trace import Check


@pytest.mark.parametrize(
    ("deviation", "passed"),
    [(0.0, True), (0.5, True), (0.500001, False), (float("inf"), False), (float("nan"), False)],
)
def test_check_passes_up_to_its_limit(deviation: float, passed: bool) -> None:
    assert Check("name", deviation, 0.5).passed is passed
