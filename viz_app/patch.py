"""Say what of another sentence brings its answer back: python -m headwise.viz_app.patch --help."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headwise.model.files import write_bytes
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.core.options import CheckpointOptions, run_command
from headwise.viz_app.core.record import check_out
from headwise.viz_app.why.sentences.patches import MOST_SECONDS, patch_texts

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PatchArguments:
    """Write the log-odds of two words in a sentence A, with each thing of a sentence B in place.

    OUT.npz or OUT.json has odds_a and odds_b, and A's log-odds under each patch: stream_encoder,
    (layers + 1, stretches of the source), whose columns are at source_spans_a and source_spans_b;
    stream_decoder, (layers + 1, tokens so far); heads_encoder_self, heads_decoder_self and
    heads_cross, (layers, heads); sublayers_encoder and sublayers_decoder, (layers, sublayers). NaN
    is where B has no counterpart. (patched − odds_a) / (odds_b − odds_a) is the restored share.
    Of a model that caps its logits, these are differences of logits before the cap.
    """

    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .npz or .json."""
    checkpoint: Annotated[CheckpointOptions, tyro.conf.arg(name="")]
    text: str
    """The sentence A."""
    other: str
    """The sentence B, from which is taken."""
    target: str | None = None
    """The translation that both are given; without it, the model's own of A."""
    at: int | None = None
    """Which token of it, from 1; without it, the first in which the two translations part."""
    words: tuple[str, str] | None = None
    """The two words; without them, the tokens with which A's and B's translations go on there."""
    attribution: bool = False
    """Whether to approximate all of it by one backward pass (attribution patching)."""
    most_seconds: float = MOST_SECONDS
    """For how long the exact passes may keep a processor busy, as it is estimated before them."""


def main(arguments: PatchArguments) -> None:
    """Write what patches do to a file and print the two words and their log-odds in A and B.

    CheckpointError, ValueError, OSError if the run, an option or a file is unusable.
    """
    check_out(arguments.out)
    run, checkpoint = arguments.checkpoint.open()
    found = patch_texts(
        checkpoint.model,
        run.tokenizers,
        arguments.text,
        arguments.other,
        target=arguments.target,
        at=arguments.at,
        words=arguments.words,
        attribution=arguments.attribution,
        most_seconds=arguments.most_seconds,
    )
    write_bytes(arguments.out, found.file(arguments.out.suffix))
    _LOG.info("patch: run %s, step %d, at %d", run.name, checkpoint.step, found.step + 1)
    first, second = (
        make_visible(text.strip()) for text in run.tokenizers.target.tokens(found.words)
    )
    print(f"{first} against {second}: {found.odds_a:+.4f} in A, {found.odds_b:+.4f} in B")
    if found.nothing_to_restore:
        print("There is nothing to restore: both are the same but for rounding.")
    elif found.says_nothing:
        print(f"They hardly differ, and a patch moves them by up to {found.farthest:.3g}.")


if __name__ == "__main__":
    run_command(main, PatchArguments, "patch")
