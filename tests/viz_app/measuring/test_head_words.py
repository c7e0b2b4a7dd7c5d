"""Which words are said of values of measures, and of heads by what stands out in them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from headwise import viz_app
from headwise.model.interface import Kind
from headwise.viz_app.measuring.checkpoint_measures import DRAWN, STAGES, describe_stage
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.measuring.head_words import (
    Phase,
    count_words,
    describe_head,
    describe_value,
    in_a_line,
    phases,
)
from headwise.viz_app.measuring.wording import Baselines, exact_error, plus_minus, with_error
from headwise.viz_app.records.measures import AlignmentBaselines
from tests.floats import near

NAN = float("nan")
BASELINES = AlignmentBaselines(lowest=0.06, diagonal=0.61)
BESIDE = {
    "cost": Baselines(0.002),
    "aer_predicted": Baselines(alignment=BASELINES),
    "aer_consumed": Baselines(alignment=BASELINES),
}


def word_of(text: str) -> str:
    """What is said of a value before the number; "" if there is only that."""
    word, colon, _ = text.partition(": ")
    return word if colon else ""


def test_measures_are_declared_whole() -> None:
    """Each has texts, one way of being computed, and, if it may stand out, a bound for that."""
    assert {*DRAWN} | {about.reference for about in DRAWN.values()} - {None} == {*STAGES}
    for about in (*MEASURES.values(), *DRAWN.values()):
        assert about.note.endswith((".", ")."))
        assert about.formula.count("{") == about.formula.count("}")
    for name, measure in MEASURES.items():
        ways = (measure.of_rows, measure.of_batch, measure.of_weights)
        assert sum(way is not None for way in ways) == 1
        assert "7.2" in describe_value(name, "cross", 7.25)
        assert describe_value(name, "cross", NAN) == f"{measure.name}: no value"
        if measure.group and measure.words:
            values = np.linspace(-1.0 if measure.range == "signed" else 0.0, 1, 201)
            beside = Baselines(0.001, alignment=BASELINES)
            assert {measure.words.stands_out(value, beside) for value in values} == {True, False}


def test_values_of_a_checkpoint_have_their_errors() -> None:
    said = describe_stage("language_model", -math.log(25))
    assert said.startswith("log-probability as text: -3.22 nats")
    assert "among 25 tokens" in said
    assert describe_stage("chrf", NAN) == "chrF: no value"
    for name, error, written in (
        ("chrf", 0.2456, "0.2"),
        ("reordering", 0.2456, "0.246"),
        ("chrf", 0.0, "< 0.1"),
    ):
        assert describe_stage(name, 54.26, error).endswith(f" (± {written})")


@pytest.mark.parametrize(
    ("name", "kind", "value", "beside", "word"),
    [
        ("previous", "decoder_self", 0.834, {}, "looks at the previous token"),
        ("same", "cross", 0.5, {}, "looks at the source token at its own place"),
        ("entropy", "cross", 0.97, {}, "spread almost evenly"),
        ("entropy", "cross", 0.96, {}, "entropy"),
        ("entropy", "cross", 0.26, {}, "sharp"),
        ("cost", "cross", -0.0001, {}, "hardly matters"),
        ("cost", "cross", 0.005, {}, ""),
        ("cost", "cross", 0.05, {}, "matters"),
        ("cost", "cross", -0.02, {}, "is in the way"),
        # Two errors beyond the bound, or no word.
        ("entropy", "cross", 0.39, {"error": 0.004}, "sharp"),
        ("entropy", "cross", 0.39, {"error": 0.006}, "entropy"),
        ("cost", "cross", 0.06, {"error": 0.006}, ""),
        ("cost", "cross", 0.06, {"error": 0.004}, "matters"),
        ("cost", "cross", -0.01, {"error": 0.003}, ""),
        ("cost", "cross", 0.001, {"error": 0.003}, ""),
        # Beyond an even head and step 0, or no word.
        ("begin", "decoder_self", 0.5, {"error": 0.01, "even": 0.49}, ""),
        ("begin", "decoder_self", 0.5, {"error": 0.01, "even": 0.4}, "rests on <s>"),
        ("begin", "decoder_self", 0.5, {"error": 0.01, "first": 0.48, "first_error": 0.01}, ""),
        ("entropy", "cross", 0.2, {"first": 0.1}, "entropy"),
        ("cost", "cross", 0.07, {"first": 0.08}, ""),
    ],
)
def test_a_word_is_said_only_beyond_errors_an_even_head_and_step_0(
    name: str, kind: Kind, value: float, beside: dict[str, float], word: str
) -> None:
    found = describe_value(name, kind, value, beside=Baselines(**beside))
    assert word_of(found) == word
    assert str(abs(value))[:4] in found or value == -0.0001


def test_numbers_stand_behind_words() -> None:
    beside = Baselines(0.01, even=0.21, first=0.43, first_error=0.01)
    assert describe_value("begin", "decoder_self", 0.43, beside=beside) == (
        "0.43 of its weight on <s> (an even head 0.21, checkpoint 0 had 0.43)"
    )
    assert describe_value("cost", "cross", -0.02, beside=Baselines(0.003)).endswith(
        "gains 0.020 ± 0.003 nats per token"
    )
    said = "hardly matters: switching it off costs 0.000 nats per token"
    assert describe_value("cost", "cross", -0.0001) == said
    found = describe_value("qk_norm", "cross", 3.214, beside=Baselines(first=1.5))
    assert found == "norm of the scores' matrix: 3.21 (checkpoint 0 had 1.50)"
    assert describe_value("emergence", "cross", 2000.0) == "emergence: 2,000"
    for value, error, how in (
        (0.62, NAN, "far from"),
        (0.29, NAN, "near"),
        (0.31, 0.01, "at some"),
    ):
        assert describe_value("velocity", "cross", value, beside=Baselines(error)).startswith(how)


def test_measures_without_words_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a measure that is described here, got 'mood'"):
        describe_value("mood", "cross", 0.25)
    with pytest.raises(ValueError, match=r"^name: expected one of .*, got 'cost'$"):
        describe_stage("cost", 1.0)


@pytest.mark.parametrize(
    ("lowest", "diagonal", "value", "how"),
    [
        (0.06, 0.61, 0.33, "follows the word alignment of consumed tokens"),
        (0.06, 0.61, 0.34, "follows the word alignment of consumed tokens in part"),
        (0.06, 0.61, 0.6, "follows the word alignment of consumed tokens in part"),
        (0.06, 0.61, 0.61, "does not follow the word alignment of consumed tokens"),
        (0.0, 0.0, 0.02, "follows the word alignment of consumed tokens"),  # as in a copying task
        (0.0, 0.0, 0.3, "does not follow the word alignment of consumed tokens"),
    ],
)
def test_alignment_beside_diagonal(lowest: float, diagonal: float, value: float, how: str) -> None:
    beside = Baselines(alignment=AlignmentBaselines(lowest, diagonal))
    assert describe_value("aer_consumed", "cross", value, beside=beside) == (
        f"{how}: error rate {value:.2f}, of the diagonal {diagonal:.2f}, at best {lowest:.2f}"
    )
    assert describe_value("aer_consumed", "cross", value).endswith(f"{value:.2f} by consumed")


def test_errors_of_0_and_of_shares_that_are_the_same_in_each_sentence() -> None:
    found = [plus_minus(error, ".2f") for error in (NAN, 0.0, 0.004, 0.006)]
    assert found == ["", " ± < 0.01", " ± < 0.01", " ± 0.01"]
    assert with_error(-0.0004, 0.0, "+.3f") == "+0.000 ± < 0.001"
    assert with_error(1.0, NAN) == "1.000"
    for sentences in (1, 3, 120, 512):
        exact = binomtest(sentences, sentences).proportion_ci(method="exact")
        assert 1 - 2 * exact_error(sentences) == near(exact.low)


def test_no_other_place_writes_an_error_behind_a_value() -> None:
    """Only ``wording.py`` knows what is said of an error of 0."""
    package = Path(viz_app.__file__).parent
    places = {file.name for file in package.rglob("*.py") if "± {" in file.read_text("utf-8")}
    assert places == {"wording.py"}


def test_words_are_counted_beside_those_by_chance() -> None:
    """Of four values three have a word; 2 errors suffice for each, 2.24 only for two."""
    beside = {name: Baselines(0.01) for name in ("end", "by_token", "confidence", "cost")}
    heads = [
        ({"end": 0.421, "confidence": 0.9, "by_token": 0.49, "next": 0.9}, beside),
        ({"end": 0.43, "by_token": 0.6, "begin": NAN}, beside),
    ]
    found = count_words(heads)
    assert (found.looked_at, found.said, found.all_at_once) == (4, 3, 2)
    assert found.by_chance == near(4 * norm.sf(2))


SHARES = {"previous": 0.7, "punctuation": 0.6, "end": 0.4, "same": 0.1, "entropy": 0.5}
ALIGNED = {"aer_predicted": 0.45, "aer_consumed": 0.3, "entropy": 0.5, "cost": 0.01}
COST = "switching it off costs 0.010 ± 0.002 nats per token"
SCORES = {
    "by_position": Baselines(0.01, first=0.31, first_error=0.01),
    "by_token": Baselines(0.02),  # not two errors beyond half
    "by_both": Baselines(0.01, first=0.6),  # it did not learn this
}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        # The previous token may be punctuation: its weight would be counted twice.
        (SHARES, ["looks one source token before its own place"]),
        (SHARES | {"previous": 0.5}, ["rests on punctuation", "rests on </s>"]),
        (
            {"end": 0.5, "same": 0.39, "confidence": 0.9, "cost": 0.06, "distance": 0.31},
            ["rests on </s>", "matters", "far from what it is at the last checkpoint"],
        ),
        (ALIGNED, ["follows the word alignment of consumed tokens", COST]),
        (ALIGNED | {"aer_consumed": 0.34}, ["entropy", COST]),
        ({"previous": 0.1, "next": NAN, "confidence": 0.85, "entropy": 0.2}, ["sharp"]),
        ({"end": 0.41, "entropy": 0.98}, ["rests on </s>", "spread almost evenly"]),
        (
            {"previous": 0.2, "same": 0.3, "entropy": 0.6, "distance": 0.29},
            ["no place stands out", "entropy"],
        ),
        (
            {"end": 0.7, "by_position": 0.93, "by_token": 0.52, "by_both": 0.6},
            ["rests on </s>", "by position"],
        ),
    ],
)
def test_a_head_is_described_by_what_stands_out(values: dict[str, float], said: list[str]) -> None:
    found = describe_head(values, "cross", beside=BESIDE | SCORES)
    assert [text.partition(":")[0] for text in found.values()] == said
    if "no place stands out" in said:
        assert found["same"] == "no place stands out: at most 0.30 on its own place"


def test_a_line_has_the_words_without_the_numbers() -> None:
    texts = [
        "no place stands out: at most 0.21 on punctuation (an even head 0.14)",
        "sharp: 0.31 of the largest possible entropy",
        "matters: switching it off costs 0.088 ± 0.006 nats per token",
    ]
    assert in_a_line(texts) == "sharp, important, no fixed pattern"
    looks = ["looks at the next token: 0.90 of its weight", "entropy: 0.41 of the largest"]
    assert in_a_line(looks) == "looks at the next token"
    assert in_a_line(["switching it off costs 0.010 nats per token"]) == "nothing stands out"


def test_what_is_said_of_a_measure_changes_at_some_checkpoints() -> None:
    texts = {
        0: "entropy: 0.70 of the largest possible entropy",
        50: "0.21 of its weight on the token before",
        100: "sharp: 0.31 of the largest possible entropy",
        200: "sharp: 0.30 of the largest possible entropy",
        400: "entropy: no value",
        800: "sharp: 0.29 of the largest possible entropy",
    }
    values = dict.fromkeys(texts, (0.7, 0.0)) | {400: (NAN, NAN), 100: (0.31, 0.01)}
    assert phases(texts, values) == [
        Phase("", 0, 50),
        Phase("sharp", 100, 200),
        Phase("", 400, 400),
        Phase("sharp", 800, 800),
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        # Within 0.05 of the last that had the word by itself, it stays; not beyond.
        ({1: "matters 0.12", 2: "0.16", 3: "0.08", 4: "matters 0.13", 5: "0.19"}, "mmmm."),
        ({1: "0.12", 2: "matters 0.13", 3: "0.10", 4: "0.07"}, ".mm."),
        ({1: "matters 0.12", 2: "hardly 0.11", 3: "hardly 0.01"}, "mmh"),
    ],
)
def test_a_word_does_not_come_and_go_with_the_noise(values: dict[int, str], said: str) -> None:
    texts, numbers = {}, {}
    for step, each in values.items():
        *word, number = each.split()
        texts[step] = f"{word[0]}: it costs {number}" if word else f"it costs {number}"
        numbers[step] = float(number), 0.025
    found = "".join(
        (phase.said[:1] or ".") * (phase.last - phase.first + 1) for phase in phases(texts, numbers)
    )
    assert found == said
