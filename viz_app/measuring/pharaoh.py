"""Word alignments in Pharaoh format: a line a pair of sentences, with links such as ``0-0 1-2``.

A link joins a source word to a target word, both counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from headwise.model.training.data import DataError, Pair

WordLinks = set[tuple[int, int]]
"""Pairs of source word and target word."""
_LINK = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


def format_links(links: WordLinks) -> str:
    """Return links as a line, sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_links(line: str) -> WordLinks:
    """Parse a line.

    Raises:
        ValueError: if it has anything else, such as the possible link ``0?1``.
    """
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
    """Yield each pair of a corpus with the links in its line of a reference.

    Args:
        file: name of the corpus, for errors.
        pairs: the pairs of the corpus.
        reference: file in Pharaoh format.

    Raises:
        DataError: if a line has anything but links, or there are more pairs or more lines.
    """
    with reference.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        for number, (pair, line) in enumerate(zip_longest(pairs, lines), start=1):
            if pair is None or line is None:
                longer = file if line is None else reference
                raise DataError(
                    f"{reference}: expected a line for each pair of {file}, got more than "
                    f"{number - 1:,} only in {longer}"
                )
            try:
                yield pair, parse_links(line)
            except ValueError as error:
                raise DataError(f"{reference}, line {number}: {error}") from error
