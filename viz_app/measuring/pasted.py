"""A text that a person pastes, or a file that is dropped, is read as sentences to measure."""

from __future__ import annotations

from headwise.model.training.data import Pair
from headwise.model.validation import check_text

MOST_SENTENCES = 512
MOST_BYTES = 256 * 2**10  # most bytes of the text


def read_sentences(text: str) -> tuple[Pair, ...]:
    """Read a sentence a line; its target may follow after a tab, in all lines or in none.

    Raises:
        ValueError: naming the line and what to do, if there are too many, or a line has something
            else.
    """
    size = len(text.encode(errors="replace"))
    if size > MOST_BYTES:
        raise ValueError(
            f"the sentences have {size >> 10:,} KiB; at most {MOST_BYTES >> 10} are measured here: "
            "give fewer, or measure a file from a terminal"
        )
    pairs: list[Pair] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        source, *targets = (side.strip() for side in line.split("\t"))
        if "\ufffd" in line or "\0" in line:
            raise ValueError(f"line {number} is not UTF-8; save the file as UTF-8")
        check_text(line)
        if len(targets) > 1 or not source:
            raise ValueError(
                f"line {number}: expected a sentence, and perhaps a tab and its translation, got "
                f"{len(targets)} tabs"
            )
        pair = Pair(source, "".join(targets))
        if pairs and bool(pair.target) != bool(pairs[0].target):
            has = "has a" if pair.target else "has no"
            raise ValueError(
                f"line {number} {has} translation after a tab, unlike those before; give all of "
                "them, or none: then the model's own are taken"
            )
        pairs.append(pair)
    if not pairs:
        raise ValueError("there is no sentence yet: paste some, one a line, or drop a file of them")
    if len(pairs) > MOST_SENTENCES:
        raise ValueError(
            f"there are {len(pairs):,} sentences; at most {MOST_SENTENCES} are measured here: give "
            "fewer, or measure a file from a terminal"
        )
    return tuple(pairs)
