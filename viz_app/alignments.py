"""Reference word alignments of a run's corpus: ``alignments.jsonl`` in its folder.

The first line says of which corpus they are and who made them; each other one is a sentence: its
place in the corpus, its numbers of source and target words, and the links between the two, as
``[[source word, target word], …]``. All count from 0. A word is what the run's tokenizer makes of
the text; ``</s>`` and ``<s>`` do not count. No text is in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import orjson

from model.config import check_kinds
from model.files import CheckpointError, read_bytes, write_bytes

ALIGNMENTS_VERSION = 1
"""Of the format."""


@dataclass(frozen=True)
class Links:
    """Which words of a sentence belong together: pairs of source word and target word."""

    source_words: int
    target_words: int
    pairs: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Alignments:
    """Of a whole corpus, or of some of its sentences."""

    corpus: str
    sha256: str
    """Of the corpus."""
    aligner: str
    sentences: Mapping[int, Links]
    """By the sentence's place in the corpus."""


def alignments_path(folder: Path) -> Path:
    """The file in a run's folder."""
    return folder / "alignments.jsonl"


def write_alignments(folder: Path, alignments: Alignments) -> None:
    """Write alignments into a run's folder.

    Raises:
        CheckpointError: if they cannot be written.
    """
    about = {
        "format_version": ALIGNMENTS_VERSION,
        "corpus": alignments.corpus,
        "sha256": alignments.sha256,
        "aligner": alignments.aligner,
    }
    rows: Iterable[object] = (
        [number, links.source_words, links.target_words, sorted(links.pairs)]
        for number, links in sorted(alignments.sentences.items())
    )
    lines = b"".join(orjson.dumps(row) + b"\n" for row in (about, *rows))
    write_bytes(alignments_path(folder), lines)


def read_alignments(folder: Path) -> Alignments | None:
    """The alignments in a run's folder; None if there are none.

    Raises:
        CheckpointError: if the file is damaged, foreign or of another version.
    """
    path = alignments_path(folder)
    if not path.exists():
        return None
    try:
        about, *rows = (orjson.loads(line) for line in read_bytes(path).splitlines())
        version = about["format_version"]
        if version == ALIGNMENTS_VERSION:
            sentences = {number: _links(*row) for number, *row in rows}
            found = Alignments(about["corpus"], about["sha256"], about["aligner"], sentences)
            check_kinds(found)
            if any(type(number) is not int or number < 0 for number in sentences):
                raise ValueError("expected the places of sentences, from 0 on")
            return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: not alignments, or damaged ({error}); restore the file or remove it"
        ) from error
    raise CheckpointError(
        f"{path}: format version {version!r}, this program reads {ALIGNMENTS_VERSION}; make the "
        "alignments again"
    )


def _links(source_words: int, target_words: int, pairs: list[tuple[int, int]]) -> Links:
    links = frozenset((source, target) for source, target in pairs)
    if any(type(n) is not int for n in (source_words, target_words, *chain.from_iterable(links))):
        raise ValueError(f"expected whole numbers, got {[source_words, target_words, pairs]!r:.60}")
    if any(not (0 <= s < source_words and 0 <= t < target_words) for s, t in links):
        raise ValueError(
            f"expected links between {source_words} and {target_words} words, got {pairs}"
        )
    return Links(source_words, target_words, links)
