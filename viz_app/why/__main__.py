"""Say why a model wrote a word: python -m headwise.viz_app.why --help."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headwise.model.checkpoint import CheckpointError
from headwise.model.files import write_bytes
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.core.record import check_out, written_as
from headwise.viz_app.why.word.account import MEAN, run_account, word_to_compare
from headwise.viz_app.why.word.effects import run_whole_effects

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WhyArguments:
    """Write why a model wrote a word, and not another one, as a sum over its parts.

    OUT.npz or OUT.json has the difference of the two logits; parts with part_names, which sum to
    it; heads_cross and heads_decoder_self by the token that was read, (layers, heads, tokens);
    neurons, (layers, d_ff); cross_from_encoder, every cell of heads_cross by the encoder's parts,
    with encoder_part_names; and whole and encoder_whole, what the difference loses without a part.
    held says what is held at its value in this pass, taken_out how a part is taken out.
    """

    out: Annotated[Path, tyro.conf.Positional]
    """File to write; .npz or .json."""
    sentence: Annotated[SentenceOptions, tyro.conf.arg(name="")]
    at: int
    """Which token of the translation, from 1."""
    instead: str | None = None
    """The token to compare with; without it, the likeliest other one; mean: the mean of all."""


def main(arguments: WhyArguments) -> None:
    """Write an account to a file and print the two words and their difference.

    Raises:
        CheckpointError, ValueError, OSError: if the run, an option or a file is unusable.
    """
    check_out(arguments.out)
    run, checkpoint = arguments.sentence.open()
    trace = arguments.sentence.trace(run, checkpoint)
    at = trace.step_of(arguments.at)
    other = word_to_compare(run.tokenizers, trace, at, arguments.instead)
    account = run_account(checkpoint.model, trace, at, other)
    effects = run_whole_effects(checkpoint.model, trace, at, other)
    arrays = account.arrays(effects)
    write_bytes(arguments.out, written_as(arguments.out.suffix, arrays))
    _LOG.info("why: run %s, step %d, at %d", run.name, checkpoint.step, arguments.at)
    word = trace.predicted.texts[at]
    against = MEAN if other is None else run.tokenizers.target.tokens([other])[0]
    print(
        f"{make_visible(word.strip())} against {make_visible(against.strip())}: "
        f"{account.difference:+.4f}"
    )


if __name__ == "__main__":
    try:
        main(tyro.cli(WhyArguments, prog="python -m headwise.viz_app.why"))
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
