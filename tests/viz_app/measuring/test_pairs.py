"""Contrastive pairs: files read or refused, scores against exports, and the file of a run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS
from headwise.model.placement import DEFAULT_PLACEMENT
from headwise.model.training.data import DataError
from headwise.model.training.processes import ALONE
from headwise.model.turned import Turned
from headwise.viz_app.export import ExportArguments
from headwise.viz_app.export import main as export
from headwise.viz_app.measuring import pairs as module
from headwise.viz_app.measuring.pair_files import (
    SENTENCES,
    pairs_path,
    read_measured_pairs,
    write_pairs,
)
from headwise.viz_app.measuring.pairs import PairTask, measure_pairs, read_pairs, score_pairs
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, near
from tests.viz_app.measures import made_up_pairs

PAIRS = (
    ContrastivePair("The old dog.", "El perro viejo.", "El perro vieja.", "gender"),
    ContrastivePair("She gave him a book.", "Ella le dio un libro.", "El dio un libro.", "who"),
    ContrastivePair("Where is the cat?", "¿Dónde está?", "No sabemos dónde está el gato.", "who"),
)
ROW = {"source": "A", "right": "B", "wrong": "C", "phenomenon": "D"}


def task(run: TrainedRun, steps: list[int], pairs: tuple[ContrastivePair, ...] = PAIRS) -> PairTask:
    return PairTask(run, steps, "three.jsonl", pairs, ALONE, DEFAULT_PLACEMENT)


# Files


def test_a_file_is_read_in_each_of_its_forms(tmp_path: Path) -> None:
    fields = [vars(pair) for pair in PAIRS]
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(map(json.dumps, fields)), encoding="utf-8")
    tabs = tmp_path / "b.tsv"
    rows = [["phenomenon", *list(ROW)[:3]]]  # in another order
    rows += [[each["phenomenon"], f" {each['source']}", each["right"], each["wrong"]]
             for each in fields]  # fmt: skip
    tabs.write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")
    assert read_pairs(lines) == read_pairs(tabs) == PAIRS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "the file is empty"),
        ("a.jsonl", "\n\n", r"no pairs in it; expected rows with source, right, wrong, phenom"),
        ("a.txt", "x", "expected a file that ends in"),
        ("a.jsonl", json.dumps({"source": "A", "right": "B"}), "line 1: .*add wrong, phenomenon"),
        ("a.tsv", "source\tright\tphenomenon\nA\tB\tD", "line 2: expected the columns.*add wrong"),
        ("a.tsv", "source\tright\twrong\tphenomenon\nA\tB\tC", "line 2: expected 4 fields"),
        ("a.jsonl", json.dumps(ROW | {"wrong": "B "}), "line 1: right and wrong are both 'B'"),
        ("a.jsonl", json.dumps(ROW | {"source": " "}), "line 1: source: expected a text, got an e"),
        ("a.jsonl", json.dumps(ROW | {"right": 3}), "line 1: right: expected a text, got 3"),
        ("a.jsonl", json.dumps(ROW | {"right": "\ud800"}), "line 1: right: .*half a character"),
        ("a.jsonl", json.dumps(ROW | {"right": "x" * 1_001}), "at most 1,000 letters, got 1,001"),
        ("a.jsonl", json.dumps(ROW | {"phenomenon": "x" * 61}), "at most 60 letters, got 61"),
        ("a.jsonl", "[1]", "line 1: expected a JSON object"),
    ],
)
def test_a_file_without_pairs_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{re.escape(name)}.*{message}"):
        read_pairs(tmp_path / name)


def test_too_much_is_refused_before_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    rows = [json.dumps(ROW | {"phenomenon": f"p{n}"}) for n in range(25)]
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(DataError, match="line 25: expected at most 24 phenomena, got another: 'p2"):
        read_pairs(path)
    monkeypatch.setattr(module, "MOST_PAIRS", 3)
    with pytest.raises(DataError, match="expected at most 3 pairs; take fewer"):
        read_pairs(path)
    monkeypatch.setattr(module, "_MOST_BYTES", 99)
    with pytest.raises(DataError, match="expected at most 99 bytes"):
        read_pairs(path)
    with pytest.raises(DataError, match="no such file"):
        read_pairs(tmp_path / "b.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrong": "a b " * 100}, "pair 2: expected at most 31 tokens, got 302 of 'a b a b"),
        ({"source": "x" * 900}, "pair 2: expected at most 31 tokens, got 902 of 'xxx"),
    ],
)
def test_texts_too_long_are_refused(run: TrainedRun, changes: dict[str, str], message: str) -> None:
    bad = ContrastivePair(**(vars(PAIRS[0]) | changes))
    done: list[int] = []
    with pytest.raises(DataError, match=message):
        next(measure_pairs(task(run, [60], (PAIRS[0], bad)), done.append))
    assert done == []


# Scores


@pytest.fixture(scope="module")
def measured(run: TrainedRun) -> dict[int, MeasuredPairs]:
    done: list[int] = []
    whole = task(run, [20, 60])
    found = {step: one for one in measure_pairs(whole, done.append) for step in one.checkpoints}
    assert sum(done) == whole.passes == 2 * 3 * (2 + 18 + 1)
    return found


def test_the_accuracy_is_that_of_exported_log_probabilities(
    run_root: Path, run: TrainedRun, measured: dict[int, MeasuredPairs], tmp_path: Path
) -> None:
    assert list(measured) == [20, 60]
    for step, found in measured.items():
        scores = found.checkpoints[step]
        assert scores.sha256 == load_weights(run, step).sha256
        exported = []
        for pair in PAIRS:
            for target in (pair.right, pair.wrong):
                out = tmp_path / "out.npz"
                line = [str(out), "--run", "tiny", "--checkpoints", str(run_root)]
                line += ["--step", str(step), "--text", pair.source, "--target", target]
                export(tyro.cli(ExportArguments, args=line))
                with np.load(out) as arrays:
                    exported.append(arrays["log_probability"].astype(np.float64).sum())
        right, wrong = np.array(exported[::2]), np.array(exported[1::2])
        bounds = {"dtype": np.float32, "size": 100, "operations": PASS}
        assert scores.right.tolist() == near(right.tolist(), **bounds)
        assert scores.wrong.tolist() == near(wrong.tolist(), **bounds)
        assert scores.outcomes.mean() == near(float((right > wrong).mean()))
        alone = score_pairs(load_weights(run, step).model, run.tokenizers, PAIRS)
        assert [each.tolist() for each in alone] == [scores.right.tolist(), scores.wrong.tolist()]


def test_heads_are_switched_off_one_at_a_time_at_the_last_checkpoint(run: TrainedRun) -> None:
    """Compared are passes of one target without one head; some heads change what is likelier."""
    words = ("gato", "perro", "libro", "viejo", "roja", "niña")
    pairs = tuple(
        ContrastivePair("Where is the old dog?", f"El {a}.", f"El {b}.", "word")
        for a, b in combinations(words, 2)
    )
    first, found = measure_pairs(task(run, [20, 60], pairs), lambda _: None)
    assert (first.heads_step, dict(first.without_heads)) == (None, {})
    assert found.heads_step == 60
    model, base = load_weights(run, 60).model, found.checkpoints[60].outcomes
    changed = 0
    for kind, layer, head in (("encoder_self", 0, 1), ("decoder_self", 1, 0), ("cross", 1, 2)):
        score = {
            word: run_trace(
                model,
                run.tokenizers,
                pairs[0].source,
                f"El {word}.",
                turned=Turned.off([(kind, layer, head)]),
            ).predictions.log_probability.sum()
            for word in words
        }
        expected = [score[a] > score[b] for a, b in combinations(words, 2)]
        assert min(abs(score[a] - score[b]) for a, b in combinations(words, 2)) > 1e-3
        assert found.without_heads[kind].shape == (2, 3, len(pairs))
        assert found.without_heads[kind][layer, head].tolist() == expected
        changed += int((np.array(expected) != base).sum())
    assert changed >= 3


def test_targets_of_equal_ids_are_a_tie(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of two words that are unknown to a vocabulary of whole words."""
    same = ContrastivePair("The dog.", "El  perro.", "El perro.", "spaces")
    monkeypatch.setattr(type(run.tokenizers.target), "encode", lambda *_: [5, 6, 7], raising=True)
    [found] = measure_pairs(task(run, [60], (same,)), lambda _: None)
    assert found.checkpoints[60].outcomes.tolist() == [0.5]
    assert {float(each) for kind in KINDS for each in found.without_heads[kind].flat} == {0.5}


# The pairs that ship

SHIPPED = {"en-es": 80, "de-en": 60}


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))


@pytest.mark.parametrize(("languages", "count"), SHIPPED.items())
def test_shipped_pairs_are_balanced(languages: str, count: int) -> None:
    """What a pair's right target has and its wrong one lacks, the wrong one of another has.

    So whoever always prefers the same word, as the more frequent one, is right in half; and so is
    whoever prefers the shorter or the longer target.
    """
    pairs = read_pairs(SENTENCES / f"{languages}.pairs.jsonl")
    assert len(pairs) == len({(pair.source, pair.right) for pair in pairs}) == count
    assert min(Counter(pair.phenomenon for pair in pairs).values()) >= 8
    differ: Counter[tuple[str, str, str]] = Counter()
    for pair in pairs:
        right, wrong = words(pair.right), words(pair.wrong)
        more, less = (" ".join(sorted(each.elements())) for each in (right - wrong, wrong - right))
        differ[pair.phenomenon, more, less] += 1
        if not more and not less:  # the same words in another order: no word can be preferred
            reverse = [p for p in pairs if (p.right, p.wrong) == (pair.wrong, pair.right)]
            assert len(reverse) == 1, pair
    for (phenomenon, more, less), times in differ.items():
        assert differ[phenomenon, less, more] == times, (phenomenon, more, less)


# The file of a run's accuracy


def written(folder: Path, measured: MeasuredPairs, *steps: int) -> MeasuredPairs:
    write_pairs(folder, measured, steps or (0, 20))
    found = read_measured_pairs(folder)
    assert found is not None
    return found


def one(measured: MeasuredPairs, step: int, *, heads: bool) -> MeasuredPairs:
    """Leave one checkpoint, with or without its heads."""
    rest = {} if heads else {"heads_step": None, "without_heads": {}}
    return replace(measured, checkpoints={step: measured.checkpoints[step]}, **rest)


def test_pairs_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_measured_pairs(tmp_path) is None
    measured = made_up_pairs()
    measured.checkpoints[20].right[1] = -1 / 3
    found = written(tmp_path, measured)
    plain = {"checkpoints": {}, "without_heads": {}}
    assert replace(found, **plain) == replace(measured, **plain)
    for step, scores in found.checkpoints.items():
        assert (scores.step, scores.sha256) == (step, "5ha")
        np.testing.assert_allclose(scores.right, measured.checkpoints[step].right, atol=0.5e-5)
        np.testing.assert_array_equal(scores.wrong, measured.checkpoints[step].wrong)
        assert not scores.right.flags.writeable
    for kind in KINDS:
        np.testing.assert_array_equal(found.without_heads[kind], measured.without_heads[kind])


def test_other_checkpoints_of_the_same_pairs_stay(tmp_path: Path) -> None:
    measured = made_up_pairs()
    written(tmp_path, one(measured, 20, heads=True))
    found = written(tmp_path, one(made_up_pairs("new"), 0, heads=False))
    assert {step: s.sha256 for step, s in found.checkpoints.items()} == {0: "new", 20: "5ha"}
    assert found.heads_step == 20
    # The heads go with their checkpoint: when it is measured again, or is there no more.
    again = written(tmp_path, one(made_up_pairs("new"), 20, heads=False))
    assert (list(again.checkpoints), again.heads_step) == ([0, 20], None)
    assert list(written(tmp_path, one(measured, 0, heads=False), 0).checkpoints) == [0]
    other = replace(one(measured, 20, heads=True), pairs=measured.pairs[::-1])
    assert list(written(tmp_path, other).checkpoints) == [20]
    pairs_path(tmp_path).write_text("{")
    assert list(written(tmp_path, one(measured, 0, heads=False)).checkpoints) == [0]


def longer(content: dict[str, Any]) -> None:
    content["checkpoints"][0]["right"].append(-1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format_version=2), "format version 2, this program reads 1"),
        (lambda c: c.update(pairs=[]), "expected pairs and checkpoints, got 0 of 2"),
        (lambda c: c.update(checkpoints=[]), "expected pairs and checkpoints, got 4 of 0"),
        (lambda c: c["pairs"][0].pop(), r"pairs\[0\]"),
        (lambda c: c["pairs"].__setitem__(0, ["a", "b", "b", "c"]), "right and wrong are both"),
        (longer, "expected 4 log-probabilities, got 5"),
        (lambda c: c["checkpoints"].reverse(), "expected steps that rise from 0"),
        (lambda c: c["checkpoints"][0].update(step=-1), "expected steps that rise from 0"),
        (lambda c: c["checkpoints"][0].update(right=[None] * 4), "right"),
        (lambda c: c.update(heads_step=None), "heads with their step"),
        (lambda c: c.update(heads=[]), "heads with their step"),
        (lambda c: c.update(heads_step=60), "heads of step 60, which has no row"),
        (lambda c: c["heads"].pop(), "cross: expected each head of 2 layers of 3 once"),
        (lambda c: c["heads"].append(c["heads"][0]), "encoder_self: expected each head of 2"),
        (lambda c: c["heads"][-1].__setitem__(1, 10**12), "cross: expected each head"),
        (lambda c: c["heads"][0].__setitem__(1, -1), "encoder_self: expected each head"),
        (lambda c: c["heads"][0].__setitem__(3, "+++"), "expected 4 letters for each head"),
        (lambda c: c["heads"][0].__setitem__(3, "+?++"), r"should match pattern .*got '\+\?\+\+'"),
    ],
)
def test_damage_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    write_pairs(tmp_path, made_up_pairs(), (0, 20))
    path = pairs_path(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"pairs\.json: .*{message}"):
        read_measured_pairs(tmp_path)
