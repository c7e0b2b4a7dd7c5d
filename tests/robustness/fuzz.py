"""Fuzz the program with texts, from the tokenizer to figures, reports and saved traces.

    python -m tests.robustness.fuzz [--examples 10000] [--seed 0] [--run en-es] [--addresses]

Without ``--run``, two tiny untrained models are used, one with subword tokens and one with whole
words; their target vocabularies also have tokens that are markup. Every text is traced and
labelled; for every third trace something is drawn or saved. With ``--addresses``, pages of the app
are opened instead, at addresses that no link has. The texts are in ``texts.py``, the addresses in
``addresses.py``, and what must hold in ``properties.py``. Where something does not hold, the
smallest case is printed and the status is 1.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import tyro
from hypothesis import HealthCheck
from hypothesis import strategies as st
from tqdm import tqdm

from headwise.model.checkpoint import CHECKPOINTS
from headwise.model.runs import open_checkpoint
from headwise.model.tokenizer import Tokenizer, TokenizerKind, TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.grid import GridOptions
from tests.robustness import addresses
from tests.robustness.properties import PARTS, Case, check
from tests.robustness.texts import MARKUP, TEXTS
from tests.robustness.tiny_run import PAIRS, random_model


def tiny_model(kind: TokenizerKind) -> tuple[Transformer, TokenizerPair]:
    """Build an untrained model whose target vocabulary has tokens that are markup."""
    learned = TokenizerPair.train(
        PAIRS * 2, kind=kind, vocab_sizes=(300, 300) if kind == "bpe" else (30, 30), shared=False
    )
    written = json.loads(learned.target.to_text())
    vocabulary = written["model"]["vocab"]
    for token in MARKUP:
        vocabulary[token] = len(vocabulary)
    tokenizers = TokenizerPair(learned.source, Tokenizer.from_text(json.dumps(written)))
    return random_model(tokenizers, n_layers=1, n_heads=2, max_length=71), tokenizers


def _cases(vocabulary: int) -> st.SearchStrategy[Case]:
    ids = st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=12)
    targets = st.one_of(st.none(), TEXTS, ids.map(lambda drawn: (2, *drawn)))
    readings = st.builds(
        GridOptions,
        st.sampled_from(("tokens", "words")),
        st.sampled_from(("predicted", "consumed")),
        st.just(True),
        st.just(False),
    )
    parts = st.sampled_from((*PARTS, *[None] * 2 * len(PARTS)))
    return st.builds(Case, TEXTS, targets, readings, parts)


def fuzz_texts(
    model: Transformer,
    tokenizers: TokenizerPair,
    *,
    examples: int,
    seed: int,
    seen: Callable[[str], object] = str,
) -> None:
    """Check ``examples`` texts; ``seen`` is called with "traced" or "refused" for each.

    Raises:
        AssertionError, Exception: what the smallest failing case raises; its notes show the case.
    """
    cases = _cases(tokenizers.target.vocab_size)
    _fuzz(lambda case: seen(check(case, model, tokenizers)), cases, examples, seed)


def fuzz_addresses(*, examples: int, seed: int, seen: Callable[[str], object] = str) -> None:
    """Open pages at ``examples`` addresses; ``seen`` is called with "noted" or "used" for each.

    Raises:
        AssertionError, Exception: what the smallest failing case raises; its notes show the case.
    """
    with tempfile.TemporaryDirectory() as folder:
        addresses.make_runs(Path(folder))

        def opened(case: tuple[addresses.Page, dict[str, addresses.Value]]) -> None:
            seen("noted" if addresses.check(*case, Path(folder)) else "used")

        _fuzz(opened, addresses.ADDRESSES, examples, seed)


def _fuzz(
    holds: Callable[[Any], None], cases: st.SearchStrategy[Any], examples: int, seed: int
) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(cases)
    def given(case: Any) -> None:
        holds(case)

    given()


@dataclass(frozen=True)
class FuzzArguments:
    """Fuzz the program; ends with status 1 if anything does not hold."""

    examples: int = 10_000
    """Number of cases, shared between the models."""
    seed: int = 0
    """Seed of the cases."""
    run: str | None = None
    """A run whose last checkpoint is used instead of the tiny models."""
    addresses: bool = False
    """Open pages at addresses instead of tracing texts."""


def main(arguments: FuzzArguments) -> int:
    """Fuzz as the arguments say; return for how many models something failed."""
    fuzzers: dict[str, Callable[..., None]] = {
        "tokens": partial(fuzz_texts, *tiny_model("bpe")),
        "words": partial(fuzz_texts, *tiny_model("word")),
    }
    if arguments.addresses:
        fuzzers = {"addresses": fuzz_addresses}
    elif arguments.run is not None:
        run, checkpoint = open_checkpoint(arguments.run, None, CHECKPOINTS)
        fuzzers = {arguments.run: partial(fuzz_texts, checkpoint.model, run.tokenizers)}
    failed = 0
    for name, fuzz in fuzzers.items():
        outcomes = Counter[str]()
        examples = arguments.examples // len(fuzzers)
        with tqdm(total=examples, desc=name) as bar:

            def seen(outcome: str, outcomes: Counter[str] = outcomes, bar: tqdm = bar) -> None:
                outcomes[outcome] += 1
                bar.update()

            try:
                fuzz(examples=examples, seed=arguments.seed, seen=seen)
            except Exception as error:
                failed += 1
                bar.write(f"{name}: FAILED: {error!r}\n" + "\n".join(error.__notes__))
        print(f"{name}: {dict(outcomes)}")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(tyro.cli(FuzzArguments))))
