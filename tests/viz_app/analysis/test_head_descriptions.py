"""Heads in words: the line without numbers."""

from __future__ import annotations

from headwise.viz_app.analysis.head_descriptions import in_a_line, said_since


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


def test_what_is_said_at_last_was_said_from_some_checkpoint_on() -> None:
    lines = {
        0: "looks at no one place most",
        50: "is sharp, looks at no one place most",
        100: "matters, is sharp",
        200: "matters, looks at no one place most",
        400: "is sharp, matters, rests on </s>",
    }
    assert said_since(lines) == {"is sharp": 400, "matters": 100, "rests on </s>": 400}
    assert said_since({7: "matters"}) == {"matters": 7}
    assert said_since({}) == {}
