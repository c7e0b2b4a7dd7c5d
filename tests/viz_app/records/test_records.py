from __future__ import annotations

import math

from headwise.viz_app.records.trace import Check


def test_check_passes_up_to_its_limit() -> None:
    passed = [Check("name", d, 0.5).passed for d in (0.0, 0.5, 0.500001, math.inf, math.nan)]
    assert passed == [True, True, False, False, False]
