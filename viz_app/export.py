"""Export a trace, or something of heads, to a file: python -m headwise.viz_app.export --help."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from headwise.model.files import write_bytes
from headwise.model.interface import Head, parse_head
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.core.computed import Computed, Sentences
from headwise.viz_app.core.options import SentenceOptions, run_command
from headwise.viz_app.core.record import TABLES, check_out
from headwise.viz_app.core.written import head_dictionary, values_here
from headwise.viz_app.heads.composition.paths import path
from headwise.viz_app.heads.composition.scores import composition
from headwise.viz_app.heads.dictionary.scores import frequent, mean_values
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.report import writer_for
from headwise.viz_app.trace.saved import read_trace

COMPUTED: dict[str, Computed[..., Any]] = {"composition": composition, "path": path}
_LOG = logging.getLogger(__name__)
_NONE = SentenceOptions(run="", text="")  # where a saved trace or weights are enough


@dataclass(frozen=True)
class ExportArguments:
    """Translate a sentence and write everything that the model computed to a file.

    OUT.html is a page that works offline, with the maps of all heads. OUT.npz holds every array
    under its name in the Trace (attention_encoder_self, attention_decoder_self, attention_cross, …,
    all float32 or int64, axes as documented there) and the rest as JSON in "about"; OUT.json holds
    the same as one object. Both can be read back with --trace.

    With --content it is something of heads instead, written as OUT.tsv, OUT.npz or OUT.json.
    composition: for every edge between a head and a later one that may read it, the score, what it
    is by chance, and the error of that. path: what the later of two --heads loses in the sentence
    without the earlier one, and without the heads beside it. dictionary: which target tokens one of
    --heads writes for the tokens that it reads, by the example sentences of the run's measures, or
    in the sentence, if --text has one.
    """

    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .html, .npz or .json, of heads .tsv, .npz or .json."""
    sentence: Annotated[SentenceOptions, tyro.conf.arg(name="")] = _NONE
    content: Literal["sentence", "composition", "path", "dictionary"] = "sentence"
    """What is written."""
    heads: tuple[str, ...] = ()
    """The heads that it is about, such as cross.2.4: two for a path, one for a dictionary."""
    trace: Path | None = None
    """A saved .npz or .json file to write in another form, instead of a run and a text."""


def main(arguments: ExportArguments) -> None:
    """Write a file, and print its name and what it has.

    CheckpointError, ValueError, OSError if the run, an option or a file is unusable.
    """
    heads = [parse_head(name) for name in arguments.heads]
    computed = COMPUTED.get(arguments.content)
    expected = computed.heads if computed else int(arguments.content == "dictionary")
    if len(heads) != expected:
        raise ValueError(
            f"--heads: expected {expected} for --content {arguments.content}, got {len(heads)}"
        )
    if arguments.content != "sentence":
        _write_of_heads(arguments, heads)
        return
    writer = writer_for(arguments.out)
    if arguments.trace is not None:
        trace = read_trace(arguments.trace)
    elif arguments.sentence.run and arguments.sentence.text:
        trace = arguments.sentence.trace(*arguments.sentence.open())
    else:
        raise ValueError("expected --run and --text, or --trace with a saved trace")
    content = writer(trace)
    write_bytes(arguments.out, content)
    form = arguments.out.suffix[1:]
    _LOG.info(
        "export: run %s, step %d, form %s, bytes %d", trace.run, trace.step, form, len(content)
    )
    print(f"{arguments.out}: {make_visible(trace.target_text)}")  # a file may have any text


def _write_of_heads(arguments: ExportArguments, heads: list[Head]) -> None:
    """Write composition, a path or a dictionary, and print what it is of."""
    check_out(arguments.out, TABLES)
    content = arguments.content
    if not arguments.sentence.run or arguments.trace is not None:
        raise ValueError(f"--content {content}: expected --run, and no --trace")
    if content == "path" and not arguments.sentence.text:
        raise ValueError("--text: expected a sentence in which the path is followed")
    run, checkpoint = arguments.sentence.open()
    if content == "dictionary":
        if arguments.sentence.text:
            trace = arguments.sentence.trace(run, checkpoint)
            values = values_here(checkpoint.model, trace, heads[0].kind)
        else:
            examples = Sentences.examples(run, read_measures(run.folder, checkpoint.step))
            means = mean_values(checkpoint.model, examples, heads[0].kind)
            values = frequent(means, run.tokenizers, run.counts)
        record: Any = head_dictionary(checkpoint.model, run.tokenizers, heads[0], values)
    else:
        given = (
            [arguments.sentence.trace(run, checkpoint)] if COMPUTED[content].of == "trace" else []
        )
        record = COMPUTED[content](checkpoint.model, *given, *heads)
    write_bytes(arguments.out, record.file(arguments.out.suffix))
    _LOG.info("export: run %s, step %d, %s", run.name, checkpoint.step, content)
    print(f"{arguments.out}: {record.said}")


if __name__ == "__main__":
    run_command(main, ExportArguments, "export")
