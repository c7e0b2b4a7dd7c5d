"""Heads in words: the line without numbers."""

from __future__ import annotations

from headwise.viz_app.analysis.head_descriptions import Phase, in_a_line, phases


def test_a_line_has_the_words_without_the_numbers() -> None:
    texts = [
        "no place stands out: at most 0.21 on punctuation (an even head 0.14)",
        "sharp: 0.31 of the largest possible entropy",
        "matters: switching it off costs 0.088 ± 0.006 nats per token",
    ]
    assert in_a_line(texts) == "is sharp, matters, looks at no one place most"
    looks = ["looks at the next token: 0.90 of its weight", "entropy: 0.41 of the largest"]
    assert in_a_line(looks) == "looks at the next token"
    assert in_a_line(["switching it off costs 0.010 nats per token"]) == (
        "has nothing that stands out"
    )


def test_what_is_said_of_a_measure_changes_at_some_checkpoints() -> None:
    texts = {
        0: "entropy: 0.70 of the largest possible entropy",
        50: "0.21 of its weight on the token before",
        100: "sharp: 0.31 of the largest possible entropy",
        200: "sharp: 0.30 of the largest possible entropy",
        400: "entropy: no value",
        800: "sharp: 0.29 of the largest possible entropy",
    }
    assert phases(texts) == [
        Phase("", 0, 50),
        Phase("sharp", 100, 200),
        Phase("", 400, 400),
        Phase("sharp", 800, 800),
    ]
    assert phases({}) == []
