"""Word alignments by a head of cross-attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from headwise.model.files import lines_of
from headwise.model.interface import HeadLike, head_name, to_head
from headwise.model.training.data import DataError
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.api.opened import OpenedCheckpoint
from headwise.viz_app.core.batches import LeftOutCounts
from headwise.viz_app.measuring.alignments import WordLinks, parse_links
from headwise.viz_app.measuring.corpus import Pairs, read_pairs
from headwise.viz_app.measuring.head_alignments import (
    BEST,
    Agreement,
    AlignedRows,
    Direction,
    MapsOf,
    PairLinks,
)


@dataclass(frozen=True)
class HeadAlignment:
    """The word alignments of pairs by one head, and how they agree with a reference."""

    head: str
    """The head, such as ``cross.2.4``, or the layer, such as ``cross.2``."""
    pairs: tuple[PairLinks | None, ...]
    """Of each pair ``links``, (source word, target word) from 0, one for each target word, and
    ``weights`` (target words, source words); None for a pair with an empty side or too long."""
    error: float | None
    """Alignment error rate (Och and Ney 2003), 0 to 1; None without a reference."""
    errors: Mapping[str, float]
    """That of every head, or layer, the best first; empty without a reference. The error of the
    best is too low for other pairs, since it was chosen by these."""
    diagonal: float | None
    """That of linking every target word to the source word with its number: the chance level."""
    lowest: float | None
    """The lowest that one link for each target word can have."""


def align(
    checkpoint: OpenedCheckpoint,
    pairs: Pairs,
    *,
    reference: Path | str | Iterable[WordLinks | str] | None = None,
    head: HeadLike = BEST,
    rows: AlignedRows = "predicted",
    by: CellValue = "weight",
    of: MapsOf = "heads",
    columns: tuple[str, str] | None = None,
) -> HeadAlignment:
    """Align the words of pairs by a head of cross-attention, with the targets forced.

    A target word is linked to the source word with the largest weight. Words are those of the
    tokenizers; ``<s>`` and ``</s>`` are none. ValueError if there is no such head, or nothing says
    which is best. DataError if a reference does not fit the pairs, or no pair can be aligned.

    Args:
        checkpoint: the checkpoint.
        pairs: (source, target) texts, a file, or a corpus by name.
        reference: the right links of each pair, as a file with a line such as ``0-0 1-2`` for each,
            such lines, or sets of pairs of numbers.
        head: which head, or layer, such as ``cross.2``; "best" for the one with the lowest error
            against the reference or, without one, in the measures of the run.
        rows: whether the rows of a target word are those that predict its tokens or consume them.
        by: "value norm" for the length of what is added for a key in place of its weight
            (Kobayashi et al. 2020).
        of: "layers" to align by what the heads of a layer do together: the mean of their weights
            or, by value norm, the length of what they add together.
        columns: names of the two columns of a file, where they are not the languages.
    """
    read = read_pairs(pairs, checkpoint.opened, columns=columns)
    links = _links(reference, len(read))
    name = head if head == BEST or of == "layers" else head_name(to_head(head))
    linked = [*zip(read, links or [set[tuple[int, int]]() for _ in read], strict=True)]
    with tqdm(unit="pair", leave=False) as bar:
        direction = Direction(
            checkpoint.opened, checkpoint, rows, lambda: iter(linked), bar.update, by, of
        )
        place, agreement = direction.choose(str(name), scored=links is not None)
        bar.reset()
        found = tuple(direction.align(place, LeftOutCounts()))
    aligned = [pair for pair in found if pair is not None]
    if not aligned:
        raise DataError("expected pairs that can be aligned, got none")
    names = direction.names
    if agreement is None:
        return HeadAlignment(names[place], found, None, {}, None, None)
    rates, (diagonal, lowest) = agreement.error_rate, _baselines(aligned)
    order = np.argsort(rates, kind="stable")
    return HeadAlignment(
        head=names[place],
        pairs=found,
        error=float(rates[place]),
        errors={names[at]: float(rates[at]) for at in order},
        diagonal=diagonal,
        lowest=lowest,
    )


def _links(
    reference: Path | str | Iterable[WordLinks | str] | None, count: int
) -> list[WordLinks] | None:
    if reference is None:
        return None
    place = "reference"
    if isinstance(reference, str | Path):
        place = str(reference)
        reference = lines_of(Path(reference).read_bytes())
    found = []
    for number, each in enumerate(reference, start=1):
        try:
            found.append(parse_links(each) if isinstance(each, str) else _as_links(each))
        except (TypeError, ValueError) as error:
            raise DataError(f"{place}, pair {number}: {error}") from error
    if len(found) != count:
        raise DataError(f"{place}: expected links of {count:,} pairs, got {len(found):,}")
    return found


def _as_links(given: WordLinks) -> WordLinks:
    links = {(int(source), int(target)) for source, target in given}
    if any(number < 0 for link in links for number in link):
        raise ValueError(f"expected words that are counted from 0, got {sorted(links)[0]}")
    return links


def _baselines(pairs: list[PairLinks]) -> tuple[float, float]:
    """Return the error rates of the diagonal, and of the best with one link a target word."""
    agreement = Agreement(np.zeros(2))
    for pair in pairs:
        diagonal = {(min(at, pair.source_words - 1), at) for at in range(pair.target_words)}
        linked = {target for _, target in pair.reference}
        agreement.correct += [len(diagonal & pair.reference), len(linked)]
        agreement.made += pair.target_words
        agreement.sure += len(pair.reference)
    diagonal_rate, lowest = agreement.error_rate.tolist()
    return diagonal_rate, lowest
