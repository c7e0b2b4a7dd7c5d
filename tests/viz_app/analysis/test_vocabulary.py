from __future__ import annotations

from viz_app.analysis.vocabulary import vocabulary_labels


def test_pieces_that_go_on_are_marked_where_spaces_are_kept() -> None:
    pieces = ["<s>", "</s>", "<0x0A>", " the", "the", " ", "\n", ".", " .", "<b>"]
    assert vocabulary_labels(pieces, spaced=True) == (
        "<s>", "</s>", "<0x0A>", "the", "·the", "␣", "·⏎", "·.", ".", "·<b>",
    )  # fmt: skip


def test_whole_words_are_as_they_are() -> None:
    assert vocabulary_labels(["<unk>", "the", "."], spaced=False) == ("<unk>", "the", ".")
