"""The files that results are written to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import Curve, Findings, Plot, Rule, Table
from benchmarks.written import Part, markdown, shown, write_results
from tests.floats import near


def test_a_rule_may_be_at_most_or_at_least() -> None:
    assert Rule("time", 0.8, 0.8).held
    assert not Rule("time", 0.81, 0.8).held
    assert Rule("speed", 2.5, 2.5, at_least=True).held
    missed = Rule("speed", 2.0, 2.5, at_least=True)
    assert not missed.held
    assert missed.missed_by == near(0.2, size=1)
    assert not Rule("time", float("nan"), 0.8).held


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "–"), ("a", "a"), (12_345, "12,345"), (1234.5, "1,234"), (0.01234, "0.0123")],
)
def test_cells(cell: str | int | float | None, text: str) -> None:
    assert shown(cell) == text


def test_a_table_in_markdown() -> None:
    assert markdown(Table("T", ("", "ms"), (("a", 1.5), ("b", None)))) == [
        "**T**",
        "",
        "|  | ms |",
        "|---|---|",
        "| a | 1.5 |",
        "| b | – |",
    ]


def test_all_is_written(tmp_path: Path) -> None:
    rules = Rule("quick", 2.0, 1.0), Rule("small", 1.0, 2.0)
    table = Table("Times", ("", "ms"), (("a", 1.5),))
    good = Findings((table,), rules, ("A note.",), raw={"a (s)": [1.0, 2.0]})
    bad = Findings((), fault="no such peer")

    write_results([Part("one", good, 60.0), Part("two", bad, 1.0)], tmp_path, rounds=3)

    text = (tmp_path / "results.md").read_text()
    assert "1 of 2 rules hold; of those missed, 1 by more than 20%" in text
    assert "| quick | 2 | ≤ 1 | missed by 100% |" in text
    assert "| small | 1 | ≤ 2 | holds |" in text
    assert all(part in text for part in ("## one", "| a | 1.5 |", "A note."))
    assert "Not measured: no such peer" in text
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["parts"][0]["findings"]["raw"] == {"a (s)": [1.0, 2.0]}
    assert content["rounds"] == 3
    assert "torch" in content["machine"]
    assert not (tmp_path / "results.svg").exists()


def test_curves_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = Plot("Trace", "tokens", "ms", (Curve("time", (10.0, 100.0), (1.0, 9.0)),))
    write_results([Part("growth", Findings((), plots=(plot,)), 1.0)], tmp_path, rounds=1)
    assert "<svg" in (tmp_path / "results.svg").read_text()
