"""Export a trace to a file: python -m headwise.viz_app.export --help."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headwise.model.checkpoint import CHECKPOINTS, CheckpointError
from headwise.model.files import write_bytes
from headwise.model.interface import DEFAULT_LANGUAGES, Languages
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import open_checkpoint
from headwise.model.turned import Turned, parse_pinned, parse_turned
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import writer_for
from headwise.viz_app.trace.saved import read_trace
from headwise.viz_app.trace.sentence import run_trace

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportArguments:
    """Translate a sentence and write everything that the model computed to a file.

    OUT.html is a page that works offline, with the maps of all heads. OUT.npz holds every array
    under its name in the Trace (attention_encoder_self, attention_decoder_self, attention_cross, …,
    all float32 or int64, axes as documented there) and the rest as JSON in "about"; OUT.json holds
    the same as one object. Both can be read back with --trace.
    """

    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .html, .npz or .json."""
    run: str | None = None
    """Name of the run."""
    text: str | None = None
    """The sentence to translate."""
    step: int | None = None
    """Checkpoint; without it, the last."""
    target: str | None = None
    """A translation to force; without it, the model's own."""
    turn: tuple[str, ...] = ()
    """Heads with their strengths, such as cross.2.4:1.5; a head alone, cross.2.4, is off."""
    pin: tuple[str, ...] = ()
    """Rows of attention weights that are set, such as cross.2.4:3:5, the third row of the head onto
    the fifth key; cross.2.4:3:mean onto all keys alike."""
    trace: Path | None = None
    """A saved .npz or .json file to write in another form, instead of a run and a text."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where the model computes, and how precisely."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def main(arguments: ExportArguments) -> None:
    """Write a trace to a file and print its translation."""
    writer = writer_for(arguments.out)
    trace = _trace(arguments)
    content = writer(trace)
    write_bytes(arguments.out, content)
    form = arguments.out.suffix[1:]
    _LOG.info(
        "export: run %s, step %d, form %s, bytes %d", trace.run, trace.step, form, len(content)
    )
    print(f"{arguments.out}: {make_visible(trace.target_text)}")  # a file may have any text


def _trace(arguments: ExportArguments) -> Trace:
    if arguments.trace is not None:
        return read_trace(arguments.trace)
    if arguments.run is None or arguments.text is None:
        raise ValueError("expected --run and --text, or --trace with a saved trace")
    run, checkpoint = open_checkpoint(
        arguments.run,
        arguments.step,
        arguments.checkpoints,
        arguments.placement,
        arguments.languages,
    )
    turned = Turned(
        tuple(map(parse_turned, arguments.turn)), tuple(map(parse_pinned, arguments.pin))
    )
    return run_trace(
        checkpoint.model, run.tokenizers, arguments.text, arguments.target, turned=turned
    )


if __name__ == "__main__":
    try:
        main(tyro.cli(ExportArguments, prog="python -m headwise.viz_app.export"))
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
