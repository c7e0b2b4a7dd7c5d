"""The page Learn says how long a lesson takes, by its words and questions."""

from __future__ import annotations

from headwise.viz_app.views.learn.page import minutes


def test_minutes_are_of_words_and_questions() -> None:
    assert minutes(["word"] * 4) == 3  # two of four answers, and the beginning of a third
    assert minutes(["word " * 150] * 3) == 5  # three of reading, one and a half of answers
    assert minutes([]) == 0
