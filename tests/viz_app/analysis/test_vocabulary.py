from __future__ import annotations

from headwise.viz_app.analysis.labels import vocabulary_labels


def test_continuing_tokens_are_marked() -> None:
    tokens = ["<s>", "</s>", "<0x0A>", " the", "the", " ", "\n", ".", " .", "<b>"]
    assert vocabulary_labels(tokens, spaced=True) == (
        "<s>", "</s>", "<0x0A>", "the", "·the", "␣", "·⏎", "·.", ".", "·<b>",
    )  # fmt: skip


def test_word_level_tokens_are_unmarked() -> None:
    assert vocabulary_labels(["<unk>", "the", "."], spaced=False) == ("<unk>", "the", ".")
