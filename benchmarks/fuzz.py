"""Give the program texts of every sort, from the tokenizer to figures, reports and saved traces.

    python -m benchmarks.fuzz [--examples 10000] [--seed 0] [--run en-es] [--addresses]

Without a run, by two tiny untrained models, of pieces and of whole words, whose vocabularies also
have pieces of markup that no tokenizer of ours would learn, and that forced targets can have. Every
text is traced and labelled; of every third trace something is drawn or saved. With ``--addresses``,
pages of the app are opened instead, at addresses that no link of it has. What is given is in
``texts.py`` and ``addresses.py``, what must hold in ``properties.py``. Ends with status 1 and the
smallest case that it finds where something does not hold.
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
import torch
import tyro
from hypothesis import HealthCheck
from hypothesis import strategies as st
from tqdm import tqdm

from benchmarks import addresses
from benchmarks.properties import PARTS, Case, check
from benchmarks.texts import MARKUP, TEXTS
from benchmarks.tiny import PAIRS
from model.checkpoint import CHECKPOINTS, open_checkpoint
from model.config import TransformerConfig
from model.tokenizer import Tokenizer, TokenizerKind, TokenizerPair
from model.transformer import Transformer
from viz_app.analysis.grid import Reading

Speaker = tuple[Transformer, TokenizerPair]


def tiny_speaker(kind: TokenizerKind) -> Speaker:
    """An untrained model whose target vocabulary has pieces of markup; it may choose them."""
    learned = TokenizerPair.train(
        PAIRS * 2, kind=kind, vocab_sizes=(300, 300) if kind == "bpe" else (30, 30), shared=False
    )
    written = json.loads(learned.target.to_text())
    vocabulary = written["model"]["vocab"]
    for piece in MARKUP:
        vocabulary[piece] = len(vocabulary)
    tokenizers = TokenizerPair(learned.source, Tokenizer.from_text(json.dumps(written)))
    config = TransformerConfig(
        tokenizers.source.vocab_size,
        tokenizers.target.vocab_size,
        n_layers=1,
        n_heads=2,
        d_k=5,
        d_model=14,
        d_ff=23,
        tied="output",
        max_length=71,
    )
    torch.manual_seed(7)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, tokenizers


def _cases(vocabulary: int) -> st.SearchStrategy[Case]:
    ids = st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=12)
    targets = st.one_of(st.none(), TEXTS, ids.map(lambda drawn: (2, *drawn)))
    readings = st.builds(
        Reading,
        st.sampled_from(("pieces", "words")),
        st.sampled_from(("predicted", "consumed")),
        st.just(True),
        st.just(False),
    )
    parts = st.sampled_from((*PARTS, *[None] * 2 * len(PARTS)))
    return st.builds(Case, TEXTS, targets, readings, parts)


def fuzz_texts(
    speaker: Speaker, *, examples: int, seed: int, seen: Callable[[str], object] = str
) -> None:
    """Check so many texts; ``seen`` is told of each whether it was traced or refused.

    Raises:
        AssertionError, Exception: of the smallest case that fails, which is in its notes.
    """
    model, tokenizers = speaker
    cases = _cases(tokenizers.target.vocab_size)
    _fuzz(lambda case: seen(check(case, model, tokenizers)), cases, examples, seed)


def fuzz_addresses(*, examples: int, seed: int, seen: Callable[[str], object] = str) -> None:
    """Open pages at so many addresses; ``seen`` is told of each whether something was said.

    Raises:
        AssertionError, Exception: as ``fuzz_texts``.
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
class Arguments:
    """Fuzz the program; ends with status 1 if anything does not hold."""

    examples: int = 10_000
    """Cases in all, shared among the models."""
    seed: int = 0
    """Decides all of them."""
    run: str | None = None
    """A run to take instead of tiny models; its last checkpoint."""
    addresses: bool = False
    """Open pages at addresses instead."""


def main(arguments: Arguments) -> int:
    """Do it; how many of the models failed."""
    fuzzers: dict[str, Callable[..., None]] = {
        "pieces": partial(fuzz_texts, tiny_speaker("bpe")),
        "words": partial(fuzz_texts, tiny_speaker("word")),
    }
    if arguments.addresses:
        fuzzers = {"addresses": fuzz_addresses}
    elif arguments.run is not None:
        run, checkpoint = open_checkpoint(arguments.run, None, CHECKPOINTS)
        fuzzers = {arguments.run: partial(fuzz_texts, (checkpoint.model, run.tokenizers))}
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
    sys.exit(bool(main(tyro.cli(Arguments))))
