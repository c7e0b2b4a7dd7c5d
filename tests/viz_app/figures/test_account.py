"""Bars of an account, and what stands beside them."""

from __future__ import annotations

from headwise.viz_app.figures.account import signed_bars
from headwise.viz_app.figures.theme import LIGHT


def test_what_is_small_is_not_written_as_nothing() -> None:
    values = [1.5, 0.0006, 0.0004, -0.0004, 0.0]
    figure = signed_bars(["part"] * len(values), values, theme=LIGHT, limit=2.0)
    assert figure.data[0].text == ("+1.500", "+0.001", "&lt;0.001", "&gt;-0.001", "0")


def test_a_small_scale_has_more_digits() -> None:
    figure = signed_bars(["part"] * 2, [0.0142, -0.00002], theme=LIGHT, limit=0.02)
    assert figure.data[0].text == ("+0.0142", "&gt;-0.0001")
