"""Search sentences for rows of attention maps: python -m headwise.viz_app.find --help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headwise.model.files import write_bytes
from headwise.model.interface import Kind, parse_head
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.options import CheckpointOptions, run_command
from headwise.viz_app.core.record import check_out
from headwise.viz_app.heads.rows.query import RowQuery, WantedKeys
from headwise.viz_app.heads.rows.search import MOST_FOUND, find_rows
from headwise.viz_app.measuring.corpus import read_pairs
from headwise.viz_app.measuring.files import read_measures


@dataclass(frozen=True)
class FindArguments:
    """Write the rows of attention maps in which a head has weight on something, as JSON."""

    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .json."""
    checkpoint: Annotated[CheckpointOptions, tyro.conf.arg(name="")]
    on: WantedKeys
    """On which keys: a token, punctuation, special tokens, a token that equals that of the row but
    is at another place, the key at a distance from the row, or source tokens at which no other head
    looks."""
    kind: Kind = "cross"
    """The kind of attention."""
    head: str | None = None
    """The head, as cross.2.4; without it, any of the kind."""
    least: float = 0.5
    """What a row must have on these keys together."""
    token: str = ""
    """The word whose tokens are looked for."""
    distance: int = -1
    """Key less row."""
    data: str | None = None
    """Pairs to search, a file or a corpus; without it, the example sentences of the measures."""
    columns: tuple[str, str] | None = None
    """Names, or numbers from 1, of its columns of sources and targets, where it has others."""
    sentences: int = 512
    """Most pairs of them."""
    most: int = MOST_FOUND
    """Most rows to write, largest weights first; all are counted."""


def main(arguments: FindArguments) -> None:
    """Write what was found to a file, and say how much that is.

    CheckpointError, DataError, ValueError, OSError if a run, an option or a file is unusable.
    """
    check_out(arguments.out, (".json",))
    head = parse_head(arguments.head) if arguments.head is not None else None
    kind = arguments.kind if head is None else head.kind
    query = RowQuery(kind, arguments.on, arguments.least, head, arguments.token, arguments.distance)
    run, checkpoint = arguments.checkpoint.open()
    if arguments.data is None:
        sentences = Sentences.examples(run, read_measures(run.folder, checkpoint.step))
    else:
        pairs = read_pairs(arguments.data, run, columns=arguments.columns, most=arguments.sentences)
        sentences = Sentences.of(run.tokenizers, pairs, max_length=run.description.max_length)
    found = find_rows(checkpoint.model, sentences, query, most=arguments.most)
    write_bytes(arguments.out, found.to_json(sentences.pairs))
    print(f"{found.said} of {len(sentences.pairs):,} sentences")


if __name__ == "__main__":
    run_command(main, FindArguments, "find")
