from __future__ import annotations

import math

from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import Check, HookSummary


def test_check_passes_up_to_its_limit() -> None:
    passed = [Check("name", d, 0.5).passed for d in (0.0, 0.5, 0.500001, math.inf, math.nan)]
    assert passed == [True, True, False, False, False]


def test_total_includes_modules_below() -> None:
    hook = HookPointNode(HookSummary("a.b.h", (1, 7, 3), 0.1, 0.2, 0.3), "")
    leaf = ModuleNode("a.b.c", "", "", "", (Parameter("a.b.c.w", (3, 5)),), ())
    inner = ModuleNode("a.b", "", "", "", (Parameter("a.b.w", (7,)),), (leaf, hook))
    outer = ModuleNode("a", "", "", "", (Parameter("a.w", (11, 13), "x.w"),), (inner,))
    assert [(m.own, m.total) for m in (leaf, inner, outer)] == [(15, 15), (7, 22), (0, 22)]
    assert [node.path for node in outer.walk()] == ["a", "a.b", "a.b.c", "a.b.h"]
