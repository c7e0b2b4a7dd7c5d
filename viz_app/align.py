"""Align words by a cross-attention head: python -m headwise.viz_app.align --help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from headwise.model.files import new_file, write_json
from headwise.model.interface import Languages, parse_head
from headwise.model.runs import Run, require_languages
from headwise.model.training.corpora import CorpusStream
from headwise.model.training.data import Pair
from headwise.viz_app.analysis.labels import count_of
from headwise.viz_app.core.batches import LeftOutCounts
from headwise.viz_app.core.options import CheckpointOptions, run_command
from headwise.viz_app.measuring.alignments import WordLinks, format_links, with_reference
from headwise.viz_app.measuring.corpus import open_corpus
from headwise.viz_app.measuring.head_alignments import (
    BEST,
    SYMMETRISATIONS,
    Agreement,
    AlignedRows,
    Direction,
    Symmetrisation,
    combine,
    reverse_pairs,
)


@dataclass(frozen=True)
class HeadAlignArguments:
    """Align the words of sentence pairs by a cross-attention head: a line a pair, such as 0-0 1-2.

    The translation of each pair is forced on the model. A link s-t (Pharaoh format) joins target
    word t to the source word s with the largest weight, where weights are summed over the tokens of
    a source word and averaged over the rows of a target word. Words are counted from 0, as the
    run's tokenizers divide them: punctuation marks are words, <s> and </s> are not. A pair with an
    empty side, or too long for the model, gets an empty line.

    Layers and heads are counted from 1 in names such as cross.2.4, as on the pages. They are
    counted from 0 in "alignment_heads" of the report, a list of [layer, head], the best first, as
    programs want it that take alignment heads.
    """

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Pairs: a .jsonl, .tsv, .csv or .parquet file, or a corpus by name: opus_books, multi30k or
    copy."""
    checkpoint: Annotated[CheckpointOptions, tyro.conf.arg(name="")]
    head: Annotated[str, tyro.conf.arg(aliases=["--heads"])] = BEST
    """A head such as cross.2.4, or best: the one with the lowest alignment error rate against
    --reference or, without it, in the run's measures."""
    rows: AlignedRows = "predicted"
    """Rows of a target word: those that predict its tokens, or those that consume them."""
    symmetrise: Symmetrisation | None = None
    """Way of combining the alignments of both directions; needs --reverse."""
    reverse: str | None = None
    """Run that translates the other way, of which the last checkpoint is taken."""
    reverse_head: str = BEST
    """Head of the reverse run, as --head."""
    reference: Path | None = None
    """Reference alignments of FILE in the same words: a line of links such as 0-0 1-2 a pair, all
    of them sure."""
    report: Path | None = None
    """File for the error rate, precision and recall of every head against --reference, in JSON."""
    out: Path | None = None
    """File for the alignments; without it, standard output."""
    split: str = "validation"
    """Split of a corpus by name."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""


def _check(arguments: HeadAlignArguments) -> None:
    """Refuse options that do not go together, before a model is loaded."""
    if arguments.symmetrise and arguments.reverse is None:
        raise ValueError(
            "symmetrise: expected --reverse with a run that translates the other way; one run "
            "aligns in one direction only"
        )
    if arguments.reverse is not None and not arguments.symmetrise:
        raise ValueError(f"reverse: expected --symmetrise with one of {', '.join(SYMMETRISATIONS)}")
    if arguments.report and arguments.reference is None:
        raise ValueError("report: expected --reference with the links to compare with")
    if arguments.reference is not None and not arguments.reference.is_file():
        raise ValueError(f"{arguments.reference}: no such file; expected a line of links a pair")
    for name in (arguments.head, arguments.reverse_head):
        if name != BEST and parse_head(name).kind != "cross":
            raise ValueError(f"expected a head of cross-attention such as cross.2.4, got {name}")
    for path in (arguments.out, arguments.report):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{path.parent}: no such folder; create it first")


def _open_corpus(arguments: HeadAlignArguments, run: Run) -> CorpusStream:
    return open_corpus(run, arguments.file, split=arguments.split, columns=arguments.columns)


def _open_forward(arguments: HeadAlignArguments, advance: Callable[[], object]) -> Direction:
    run, checkpoint = arguments.checkpoint.open()
    require_languages(run, arguments.columns)

    def open_pairs() -> Iterator[tuple[Pair, WordLinks]]:
        pairs = _open_corpus(arguments, run).pairs
        if arguments.reference is not None:
            return with_reference(arguments.file, pairs, arguments.reference)
        return ((pair, set()) for pair in pairs)

    return Direction(run, checkpoint, arguments.rows, open_pairs, advance)


def _open_backward(arguments: HeadAlignArguments, forward: Direction) -> Direction | None:
    """Open the reverse run, if there is one, to align the pairs of a direction reversed."""
    if arguments.reverse is None:
        return None
    languages = arguments.checkpoint.languages
    run, checkpoint = replace(
        arguments.checkpoint,
        run=arguments.reverse,
        step=None,
        languages=Languages(languages.target, languages.source),
    ).open()
    wanted = forward.run.target_language, forward.run.source_language
    got = run.source_language, run.target_language
    if all((*wanted, *got)) and wanted != got:
        raise ValueError(
            f"reverse: expected a run from {wanted[0]} to {wanted[1]}, got {run.name}, from "
            f"{got[0]} to {got[1]}"
        )
    return Direction(
        run, checkpoint, forward.rows, lambda: reverse_pairs(forward.open_pairs()), forward.advance
    )


@contextmanager
def _writer(path: Path | None) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes a line to a file or, without one, to standard output."""
    if path is None:
        yield lambda line: print(line, flush=True)
    else:
        with new_file(path) as file:
            yield lambda line: file.write(f"{line}\n".encode())


def main(arguments: HeadAlignArguments) -> None:
    _check(arguments)
    is_seen = arguments.out is None and sys.stdout.isatty()  # a bar would run into the lines
    with tqdm(unit="pair", disable=is_seen) as bar:
        forward = _open_forward(arguments, bar.update)
        backward = _open_backward(arguments, forward)
        is_scored = arguments.reference is not None
        left_out, left_out_backward = LeftOutCounts(), LeftOutCounts()
        bar.set_description_str("comparing heads" if is_scored else "aligning")
        place, scores = forward.choose(arguments.head, scored=is_scored)
        aligned = forward.align(place, left_out)
        chosen: dict[str, Any] = {"head": forward.names[place]}
        if backward is not None and arguments.symmetrise is not None:
            other, _ = backward.choose(arguments.reverse_head, scored=is_scored)
            back = replace(backward, advance=lambda: None).align(other, left_out_backward)
            aligned = combine(aligned, back, arguments.symmetrise)
            chosen |= {
                "symmetrised": arguments.symmetrise,
                "reverse": backward.checkpoint.run,
                "reverse_step": backward.checkpoint.step,
                "reverse_sha256": backward.checkpoint.sha256,
                "reverse_head": backward.names[other],
            }
        bar.reset()  # what was read to choose heads is read once more
        bar.set_description_str("aligning")
        agreement, empty = Agreement(np.zeros(1)), 0
        with _writer(arguments.out) as write:
            for pair in aligned:
                if pair is None:
                    empty += 1
                    write("")
                else:
                    agreement.add(pair.links, pair.reference)
                    write(format_links(pair.links))
    about = f"head {chosen['head']} of {forward.run.name}, checkpoint {forward.checkpoint.step:,}; "
    without = f"{left_out.empty:,} with an empty side, {left_out.too_long:,} too long for "
    without += forward.run.name
    if backward is not None:
        about += f"with {chosen['reverse_head']} of {backward.run.name}; "
        without += f", {left_out_backward.too_long:,} too long for {backward.run.name}"
    about += count_of(agreement.sentences, "pair")
    if scores is not None:
        about += f"; alignment error rate {agreement.error_rate[0]:.4f}"
    print(about, file=sys.stderr)
    if empty:
        print(f"{count_of(empty, 'pair')} got an empty line: {without}", file=sys.stderr)
    if arguments.report is not None and scores is not None:
        corpus, checkpoint = _open_corpus(arguments, forward.run), forward.checkpoint
        order = np.argsort(scores.error_rate, kind="stable")
        report = {
            "run": checkpoint.run,
            "step": checkpoint.step,
            "sha256": checkpoint.sha256,
            "rows": forward.rows,
            "data": corpus.name,
            "data_sha256": corpus.sha256,
            "reference": str(arguments.reference),
            "sentences": scores.sentences,
            "alignment_heads": [list(forward.heads[at][1:]) for at in order],
            "heads": [
                {"head": name, **_figures(scores, place)}
                for place, name in enumerate(forward.names)
            ],
            "written": chosen | _figures(agreement, 0),
        }
        write_json(arguments.report, report)


def _figures(agreement: Agreement, place: int) -> dict[str, float]:
    return {
        "aer": round(float(agreement.error_rate[place]), 5),
        "precision": round(float(agreement.precision[place]), 5),
        "recall": round(float(agreement.recall[place]), 5),
    }


if __name__ == "__main__":
    run_command(main, HeadAlignArguments, "align")
