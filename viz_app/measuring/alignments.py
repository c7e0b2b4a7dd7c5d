"""Word alignments in files: those of a run's corpus, and lines in Pharaoh format.

``alignments.jsonl`` in a run's folder has the reference alignments of its corpus. The first line
names the corpus and the aligner; each other line is a sentence: its index in the corpus, its
numbers of source and target words, and the links between the two, as ``[[source word, target word],
…]``. Words are those of the run's tokenizer, without ``<s>`` and ``</s>``. The file has no text.

Pharaoh format has a line a pair of sentences, with links such as ``0-0 1-2`` from a source word to
a target word. All indices begin at 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import NonNegativeInt

from headwise.model.files import CheckpointError, read_bytes, write_bytes
from headwise.model.training.data import DataError, Pair
from headwise.model.validation import format_version, validate_json

ALIGNMENTS_VERSION = 1  # version of the format of ``alignments.jsonl``
WordLinks = set[tuple[int, int]]  # pairs of source word and target word
_LONGEST_LINE = 1_000_000  # characters: of a long sentence, ten links a word
_LINK = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


@dataclass(frozen=True)
class _About:
    format_version: int
    corpus: str
    sha256: str
    aligner: str


class _Row(NamedTuple):
    place: NonNegativeInt
    source_words: NonNegativeInt
    target_words: NonNegativeInt
    pairs: frozenset[tuple[NonNegativeInt, NonNegativeInt]]


@dataclass(frozen=True)
class Links:
    """The word alignment of a sentence consists of pairs of source word and target word."""

    source_words: int
    target_words: int
    pairs: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Alignments:
    """The word alignments of all or some sentences of a corpus are held with their origin."""

    corpus: str
    sha256: str  # the sha256 of the corpus
    aligner: str
    sentences: Mapping[int, Links]  # alignment of each sentence, by its index in the corpus


def alignments_path(folder: Path) -> Path:
    return folder / "alignments.jsonl"


def write_alignments(folder: Path, alignments: Alignments) -> None:
    about = _About(ALIGNMENTS_VERSION, alignments.corpus, alignments.sha256, alignments.aligner)
    rows: Iterable[object] = (
        [number, links.source_words, links.target_words, sorted(links.pairs)]
        for number, links in sorted(alignments.sentences.items())
    )
    lines = b"".join(orjson.dumps(row) + b"\n" for row in (about, *rows))
    write_bytes(alignments_path(folder), lines)


def read_alignments(folder: Path) -> Alignments | None:
    """Read the alignments in a run's folder; None if there are none.

    CheckpointError if the file is damaged, foreign or of another version.
    """
    path = alignments_path(folder)
    if not path.exists():
        return None
    try:
        first, *rows = read_bytes(path, within=folder).splitlines()
        version = format_version(first)
        if version == ALIGNMENTS_VERSION:
            about = validate_json(_About, first)
            return Alignments(about.corpus, about.sha256, about.aligner, dict(map(_sentence, rows)))
    except ValueError as error:
        raise CheckpointError(
            f"{path}: not alignments, or damaged ({error}); restore the file or remove it"
        ) from error
    raise CheckpointError(
        f"{path}: format version {version!r}, this program reads {ALIGNMENTS_VERSION}; make the "
        "alignments again"
    )


def _sentence(row: bytes) -> tuple[int, Links]:
    place, source_words, target_words, pairs = validate_json(_Row, row)
    if any(s >= source_words or t >= target_words for s, t in pairs):
        raise ValueError(
            f"expected links between {source_words} and {target_words} words, got {sorted(pairs)}"
        )
    return place, Links(source_words, target_words, pairs)


def format_links(links: WordLinks) -> str:
    """Return links as a line, sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_links(line: str) -> WordLinks:
    """Parse a line; refuse anything but sure links, such as the possible link ``0?1``."""
    links = set()
    for link in line.split():
        match = _LINK.fullmatch(link)
        if match is None:
            raise ValueError(
                f"expected sure links such as 0-0 1-2, source word-target word from 0, got "
                f"{link[:40]!r}"
            )
        links.add((int(match[1]), int(match[2])))
    return links


def with_reference(
    file: str, pairs: Iterable[Pair], reference: Path
) -> Iterator[tuple[Pair, WordLinks]]:
    """Yield each pair of the corpus ``file`` with the links in its line of a reference. DataError
    if a line has anything but links or is too long, or there are more pairs or more lines.
    """
    with reference.open(encoding="utf-8-sig", errors="replace", newline="\n") as file_of_lines:
        lines = iter(partial(file_of_lines.readline, _LONGEST_LINE + 1), "")
        for number, (pair, line) in enumerate(zip_longest(pairs, lines), start=1):
            if pair is None or line is None:
                longer = file if line is None else reference
                raise DataError(
                    f"{reference}: expected a line for each pair of {file}, got more than "
                    f"{number - 1:,} only in {longer}"
                )
            if len(line) > _LONGEST_LINE:
                raise DataError(
                    f"{reference}, line {number}: expected links, in at most {_LONGEST_LINE:,} "
                    "characters; put a pair on each line"
                )
            try:
                yield pair, parse_links(line)
            except ValueError as error:
                raise DataError(f"{reference}, line {number}: {error}") from error


def symmetrise(forward: WordLinks, backward: WordLinks) -> WordLinks:
    """Combine the links of two directions by grow-diag-final-and (Koehn et al. 2003).

    Start from the links that both directions have. Then add neighbours of these links, diagonal
    ones too, if one direction has them and one of their words has no link yet. At last add links
    whose words both have none.
    """
    links, either = forward & backward, forward | backward
    sources, targets = {s for s, _ in links}, {t for _, t in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for s, t in sorted(links):
            for ds, dt in product((-1, 0, 1), repeat=2):
                link = s + ds, t + dt
                free = link[0] not in sources or link[1] not in targets
                if free and link not in links and link in either:
                    add(link)
                    grown = True
    for link in (*sorted(forward), *sorted(backward)):
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return links
