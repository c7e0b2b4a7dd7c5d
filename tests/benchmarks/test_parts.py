"""How the benchmarks measure in rounds, what their parts give, and the files they write."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import rounds
from benchmarks.parts import felt, live, patching, reruns, start
from benchmarks.parts.plenty import RUN, Plenty, write_runs
from benchmarks.report import Curve, Findings, Plot, Rule, Table
from benchmarks.sizes import VOCABULARY, model_of, tokenizers_of
from benchmarks.written import Part, markdown, shown, write_results
from headwise.model.checkpoint import list_runs, open_trained_run
from tests.floats import near


def test_every_round_has_every_call_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    took: dict[str, float] = {"ours": 1.0, "theirs": 2.0}
    order: list[str] = []

    def call(name: str) -> None:
        nonlocal now
        now += took[name]
        order.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    seconds = rounds.in_rounds({name: lambda name=name: call(name) for name in took}, 3)
    assert seconds == {"ours": [1.0] * 3, "theirs": [2.0] * 3}
    warm_up = ["ours", "ours", "theirs", "theirs"]
    assert order == [*warm_up, "ours", "theirs", "theirs", "ours", "ours", "theirs"]

    order.clear()
    took["ours"] = 0.01  # so quick that it is repeated within a measurement
    seconds = rounds.in_rounds({"ours": lambda: call("ours")}, 2)
    assert len(order) == 2 + 2 * 5
    assert seconds["ours"] == near([0.01, 0.01], size=now)


def test_ratio_is_of_pairs_and_not_of_medians() -> None:
    ours, theirs = [1.0, 2.0, 9.0], [2.0, 1.0, 3.0]
    assert rounds.ratio(ours, theirs) == 2.0
    assert rounds.median(ours) / rounds.median(theirs) == 1.0


def test_a_reader_and_a_training_are_timed_alone_and_beside_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "READ", 1)
    done: list[str] = []
    with ThreadPoolExecutor(1) as pool:  # a loop of events may be running in this thread
        findings = pool.submit(lambda: live.measure(rounds=1, tick=done.append)).result()
    assert len(done) == live.STEPS
    assert {len(each) for each in findings.raw.values()} == {1}
    assert min(min(each) for each in findings.raw.values()) > 0
    seen, slower, kept = (rule.value for rule in findings.rules)
    assert 0 < seen < 60
    [table] = findings.tables
    assert [row[3] for row in table.rows] == [slower, kept]


def test_each_action_of_one_person_costs_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reruns, "TIMES", 2)
    done: list[str] = []
    findings = reruns.measure(rounds=1, tick=done.append)
    assert done == list(reruns.MOST)
    assert len(done) == reruns.STEPS
    assert all(len(each) == 2 and min(each) > 0 for each in findings.raw.values())
    [table] = findings.tables
    sentence, head, _page = (float(str(row[1])) for row in table.rows)
    assert sentence > head  # a sentence is also decoded and traced
    assert [rule.limit for rule in findings.rules] == list(reruns.MOST.values())


@pytest.mark.parametrize(
    ("shifts", "expected"),
    [
        ([], 0.0),
        ([(0, 0.1), (900, 0.2)], 0.3),
        ([(0, 0.1), (1_100, 0.2)], 0.2),  # a second without one ends a window
        ([(0, 0.5), (2_000, 0.1), (2_500, 0.1)], 0.5),
        ([(at, 0.1) for at in range(0, 6_000, 500)], 1.1),  # and so do five seconds
    ],
)
def test_shifts_of_a_page_are_summed_by_window(
    shifts: list[tuple[float, float]], expected: float
) -> None:
    assert felt.jumped(shifts) == near(expected)


def test_pages_and_clicks_are_felt_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(felt, "PAGES", {n: felt.PAGES[n] for n in ("translate", "learn")})
    monkeypatch.setattr(felt, "CLICKS", {"a head": felt.CLICKS["a head"]})
    done: list[str] = []
    findings = felt.measure(rounds=1, tick=done.append)
    assert len(done) == felt.STEPS
    assert [len(each) for each in findings.raw.values()] == [2, 2, 2, 1, 2]
    opened, turned, waited = findings.tables
    assert [row[0] for row in opened.rows] == ["translate", "learn", "a bare page"]
    assert all(0 < float(str(row[2])) < 60 for row in opened.rows)
    assert [row[0] for row in (*turned.rows, *waited.rows)] == ["translate", "learn", "a head"]


def test_runs_have_as_many_of_one_thing_as_asked_for(tmp_path: Path) -> None:
    plenty = Plenty(runs=3, checkpoints=5, metrics=7, vocabulary=53)
    write_runs(tmp_path, plenty, tokenizers_of(plenty.vocabulary))
    assert len(list_runs(tmp_path)) == 3
    run = open_trained_run(RUN, root=tmp_path)
    assert run.steps() == [0, 1, 2, 3, 4]
    assert len(run.metrics()) == 7
    assert run.tokenizers.source.vocab_size == 53


@pytest.mark.parametrize("vocabulary", [53, VOCABULARY])
def test_vocabularies_are_as_large_as_asked_for(vocabulary: int) -> None:
    assert tokenizers_of(vocabulary).source.vocab_size == vocabulary


def test_two_sentences_of_twelve_tokens_differ_in_one() -> None:
    exact, quick = patching.asked(model_of(endless=True), tokenizers_of())
    found, near = exact(), quick()
    assert (found.exact, near.exact) == (True, False)
    assert [each.same for each in found.stretches].count(False) == 1
    assert found.stream_encoder.shape == (4, patching.TOKENS)
    assert found.stream_decoder.shape == (4, patching.TOKENS)
    assert found.odds_a == near.odds_a != found.odds_b


def test_times_of_imports_are_summed_by_package() -> None:
    log = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       120 |        120 |   torch._C\n"
        "a warning\n"
        "import time:     2000 |       2120 | torch\n"
        "import time:       500 |        500 | json\n"
    )
    assert start.times_of(log) == near({"torch": 0.00212, "json": 0.0005})


def test_a_rule_may_be_at_most_or_at_least() -> None:
    assert Rule("time", 0.8, 0.8).held
    assert not Rule("time", 0.81, 0.8).held
    assert Rule("speed", 2.5, 2.5, at_least=True).held
    missed = Rule("speed", 2.0, 2.5, at_least=True)
    assert not missed.held
    assert missed.missed_by == near(0.2, size=1)
    assert not Rule("time", float("nan"), 0.8).held


def test_a_table_in_markdown() -> None:
    assert [shown(cell) for cell in (12_345, 1234.5, 0.01234)] == ["12,345", "1,234", "0.0123"]
    assert markdown(Table("T", ("", "ms"), (("a", 1.5), ("b", None)))) == [
        *("**T**", "", "|  | ms |", "|---|---|"),
        *("| a | 1.5 |", "| b | – |"),
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
