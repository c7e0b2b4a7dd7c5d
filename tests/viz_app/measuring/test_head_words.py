"""Values of measures, and heads by what stands out in them, in words."""

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


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_declared_whole(name: str) -> None:
    """It has texts, one way of being computed, and, if it may stand out, a bound for that."""
    measure = MEASURES[name]
    assert measure.note.endswith((".", ")."))
    assert measure.formula.count("{") == measure.formula.count("}")
    ways = (measure.of_rows, measure.of_batch, measure.of_weights)
    assert sum(way is not None for way in ways) == 1
    assert "7.2" in describe_value(name, "cross", 7.25)
    assert describe_value(name, "cross", NAN) == f"{measure.name}: no value"
    if measure.group and measure.words:
        lowest = -1.0 if measure.range == "signed" else 0.0
        values, beside = np.linspace(lowest, 1, 201), Baselines(0.001, alignment=BASELINES)
        striking = {measure.words.stands_out(value, beside) for value in values}
        assert striking == {True, False}


def test_measures_of_checkpoints_are_declared_whole() -> None:
    references = {about.reference for about in DRAWN.values()}
    assert {*DRAWN} | references - {None} == {*STAGES}
    for about in DRAWN.values():
        assert about.note.endswith((".", ")."))
        assert about.formula.count("{") == about.formula.count("}")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "language_model",
            -math.log(25),
            "log-probability as text: -3.22 nats per token, as of a choice among 25 tokens that "
            "are equally likely",
        ),
        ("source_entropy", 0.5, "spread over the source: 0.50 of the largest possible entropy"),
        ("chrf", 54.26, "chrF 54.3 of 100 against the references"),
        ("chrf", NAN, "chrF: no value"),
        ("reordering", 0.851, "order of the source: 0.85 of neighbouring words stay neighbours"),
    ],
)
def test_values_of_a_checkpoint(name: str, value: float, words: str) -> None:
    assert describe_stage(name, value) == words


def test_the_error_of_a_value_has_as_many_digits_as_its_kind() -> None:
    for name, error in (("chrf", "0.2"), ("reordering", "0.246")):
        assert describe_stage(name, 0.5, 0.2456).endswith(f" (± {error})")


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("previous", "decoder_self", 0.834, "looks at the previous token: 0.83 of its weight"),
        ("same", "cross", 0.5, "looks at the source token at its own place: 0.50 of its weight"),
        ("punctuation", "cross", 0.6, "rests on punctuation: 0.60 of its weight"),
        ("entropy", "cross", 0.97, "spread almost evenly: 0.97 of the largest possible entropy"),
        ("entropy", "cross", 0.96, "entropy: 0.96 of the largest possible entropy"),
        ("entropy", "cross", 0.79, "entropy: 0.79 of the largest possible entropy"),
        ("entropy", "cross", 0.26, "sharp: 0.26 of the largest possible entropy"),
        ("confidence", "cross", 0.79, "largest weight of a row: 0.79 on average"),
        ("aer_predicted", "cross", 0.28, "alignment error rate 0.28 by predicted"),
        ("cost", "cross", -0.0001, "hardly matters: switching it off costs 0.000 nats per token"),
        ("cost", "cross", -0.004, "hardly matters: switching it off gains 0.004 nats per token"),
        ("cost", "cross", 0.005, "switching it off costs 0.005 nats per token"),
        ("cost", "cross", 0.05, "matters: switching it off costs 0.050 nats per token"),
        ("cost", "cross", -0.02, "is in the way: switching it off gains 0.020 nats per token"),
        ("distance", "cross", 0.62, "far from what it is at the last checkpoint: distance 0.62"),
        ("velocity", "cross", 0.29, "near what it is at the checkpoint before: distance 0.29"),
        ("rare", "cross", 0.25, "largest weight on the rarest token: in 0.25 of rows"),
        ("emergence", "cross", 2000.0, "emergence: 2,000"),
        ("next", "decoder_self", NAN, "next token: no value"),
    ],
)
def test_values_of_a_head(name: str, kind: Kind, value: float, expected: str) -> None:
    assert describe_value(name, kind, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "beside", "how"),
    [
        # Two errors beyond the bound, or no word.
        ("entropy", 0.39, Baselines(0.004), "sharp: 0.39 of the largest possible entropy"),
        ("entropy", 0.39, Baselines(0.006), "entropy: 0.39 of the largest possible entropy"),
        ("entropy", 0.81, Baselines(0.006), "entropy: 0.81 of the largest possible entropy"),
        ("cost", 0.06, Baselines(0.006), "switching it off costs 0.060 ± 0.006 nats per token"),
        ("cost", 0.06, Baselines(0.004), "matters: switching it off costs 0.060 ± 0.004 nats"),
        ("cost", -0.01, Baselines(0.003), "switching it off gains 0.010 ± 0.003 nats per token"),
        ("cost", 0.001, Baselines(0.003), "switching it off costs 0.001 ± 0.003 nats per token"),
        ("distance", 0.31, Baselines(0.01), "at some distance from what it is at the last"),
        # Beyond an even head and step 0, or no word.
        (
            "begin",
            0.43,
            Baselines(0.01, even=0.21, first=0.43, first_error=0.01),
            "0.43 of its weight on <s> (an even head 0.21, checkpoint 0 had 0.43)",
        ),
        ("begin", 0.5, Baselines(0.01, even=0.49), "0.50 of its weight on <s> (an even head 0.49)"),
        ("begin", 0.5, Baselines(0.01, even=0.4), "rests on <s>: 0.50 of its weight (an even"),
        ("begin", 0.5, Baselines(0.01, first=0.48, first_error=0.01), "0.50 of its weight on <s>"),
        ("entropy", 0.2, Baselines(first=0.1), "entropy: 0.20 of the largest possible entropy (ch"),
        ("cost", 0.07, Baselines(first=0.08), "switching it off costs 0.070 nats per token (ch"),
    ],
)
def test_word_is_said_only_beyond_errors_an_even_head_and_step_0(
    name: str, value: float, beside: Baselines, how: str
) -> None:
    assert describe_value(name, "decoder_self", value, beside=beside).startswith(how)


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


@pytest.mark.parametrize("sentences", [1, 3, 120, 512])
def test_a_share_that_is_0_or_1_in_each_sentence_has_an_exact_interval(sentences: int) -> None:
    exact = binomtest(sentences, sentences).proportion_ci(method="exact")
    assert 1 - 2 * exact_error(sentences) == near(exact.low)


def test_no_error_is_said_to_be_0() -> None:
    found = [plus_minus(error, ".2f") for error in (NAN, 0.0, 0.004, 0.006)]
    assert found == ["", " ± < 0.01", " ± < 0.01", " ± 0.01"]
    assert describe_stage("chrf", 100.0, 0.0).endswith("(± < 0.1)")


def test_a_value_and_its_error_have_as_many_digits() -> None:
    assert with_error(-0.0004, 0.0, "+.3f") == "+0.000 ± < 0.001"
    assert with_error(0.126, 0.016, ".2f") == "0.13 ± 0.02"
    assert with_error(1.0, NAN) == "1.000"


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
        (
            ALIGNED | {"aer_consumed": 0.34},
            ["entropy", "switching it off costs 0.010 ± 0.002 nats per token"],
        ),
        ({"previous": 0.1, "next": NAN, "confidence": 0.85, "entropy": 0.2}, ["sharp"]),
        ({"end": 0.41, "entropy": 0.98}, ["rests on </s>", "spread almost evenly"]),
    ],
)
def test_a_head_is_described_by_what_stands_out(values: dict[str, float], said: list[str]) -> None:
    found = describe_head(values, "cross", beside=BESIDE)
    assert [text.partition(":")[0] for text in found.values()] == said


def test_whole_descriptions_of_a_head() -> None:
    assert describe_head(ALIGNED, "cross", beside=BESIDE) == {
        "aer_consumed": "follows the word alignment of consumed tokens: error rate 0.30, of the "
        "diagonal 0.61, at best 0.06",
        "cost": "switching it off costs 0.010 ± 0.002 nats per token",
    }
    values = {"previous": 0.2, "same": 0.3, "entropy": 0.6, "confidence": 0.5, "distance": 0.29}
    assert describe_head(values, "decoder_self") == {
        "same": "no place stands out: at most 0.30 on its own place",
        "entropy": "entropy: 0.60 of the largest possible entropy",
    }


def test_what_explains_the_scores_of_a_head_is_said_beyond_half_and_step_0() -> None:
    values = {"previous": 0.7, "by_position": 0.93, "by_token": 0.52, "by_both": 0.6}
    beside = {
        "by_position": Baselines(0.01, first=0.31, first_error=0.01),
        "by_token": Baselines(0.02),  # not two errors beyond half
        "by_both": Baselines(0.01, first=0.6),  # it did not learn this
    }
    said = describe_head(values, "decoder_self", beside=beside)
    assert [*said] == ["previous", "by_position"]
    assert said["by_position"] == (
        "by position: 0.93 ± 0.01 of what tells keys apart (checkpoint 0 had 0.31)"
    )


def test_a_line_has_the_words_without_the_numbers() -> None:
    texts = [
        "no place stands out: at most 0.21 on punctuation (an even head 0.14)",
        "sharp: 0.31 of the largest possible entropy",
        "matters: switching it off costs 0.088 ± 0.006 nats per token",
    ]
    assert in_a_line(texts) == "sharp, important, no fixed pattern"
    looks = ["looks at the next token: 0.90 of its weight", "entropy: 0.41 of the largest"]
    assert in_a_line(looks) == "looks at the next token"
    nothing = in_a_line(["switching it off costs 0.010 nats per token"])
    assert nothing == "nothing stands out"


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
    assert phases({}, {}) == []


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


def test_a_value_without_a_word_stands_beside_that_at_step_0() -> None:
    found = describe_value("qk_norm", "cross", 3.214, beside=Baselines(first=1.5))
    assert found == "norm of the scores' matrix: 3.21 (checkpoint 0 had 1.50)"
