"""Measures heads on corpora of made-up sentences, each in a process of its own.

As a program, ``python -m benchmarks.growth_measures ROOT SENTENCES``, it is that process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.runs import write_run
from headwise.model.config import TransformerConfig
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.measuring.files import read_measures

_ROOT = Path(__file__).parents[1]
_RUN = "tiny"
_LANGUAGES = "one", "other"
"""For which there are no example sentences: those of the corpus are taken."""
_TEXT = 100
"""Size of the corpus of which the language model learns; it keeps a count of each trigram."""
_WORDS = [first + second for first in "bdfgklmnprst" for second in "aeiou"]


@dataclass(frozen=True)
class CorpusCost:
    """What a corpus took."""

    seconds: float
    """Without the start of Python and the loading of its libraries."""
    memory: float
    """Most MiB resident."""


def pairs(count: int) -> Iterator[tuple[str, str]]:
    """Pairs with distinct sources: a number in words, a word a digit, and the same backwards."""
    for number in range(count):
        digits: list[str] = []
        rest = number
        while not digits or rest:
            rest, digit = divmod(rest, len(_WORDS))
            digits.append(_WORDS[digit])
        yield " ".join(digits), " ".join(reversed(digits))


def write_task(root: Path, sizes: Sequence[int]) -> None:
    """Write a run of a tiny model into a folder of runs, and a corpus of each size beside it."""
    tokenizers = TokenizerPair.train(
        [(" ".join(_WORDS),) * 2], kind="word", vocab_sizes=(100, 100), shared=True
    )
    torch.manual_seed(0)
    vocabulary = tokenizers.source.vocab_size
    config = TransformerConfig(
        vocabulary,
        vocabulary,
        n_encoder_layers=1,
        n_decoder_layers=1,
        n_heads=1,
        d_model=8,
        d_ff=8,
        max_length=16,
    )
    source, target = _LANGUAGES
    write_run(root / _RUN, Transformer(config), tokenizers, source=source, target=target)
    for size in {*sizes, _TEXT}:
        with _data(root, size).open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps(dict(zip(_LANGUAGES, pair, strict=True))) + "\n" for pair in pairs(size)
            )


def _data(root: Path, size: int) -> Path:
    return root / f"corpus-{size}.jsonl"


def measure_apart(root: Path, size: int) -> CorpusCost:
    """Measure the heads over the corpus of a size in a process of its own.

    Raises:
        RuntimeError: if it fails, or did not measure all of the sentences.
    """
    command = [sys.executable, "-m", "benchmarks.growth_measures", str(root), str(size)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measures of {size:,} sentences: {done.stderr[-2_000:]}")
    measured = read_measures(root / _RUN, 0).corpus.sentences
    if measured != size:
        raise RuntimeError(f"expected measures of {size:,} sentences, got those of {measured:,}")
    return CorpusCost(**json.loads(done.stdout))


def measure_here(root: Path, size: int) -> CorpusCost:
    """The same in this process."""
    began = time.perf_counter()
    data, text = (str(_data(root, count)) for count in (size, _TEXT))
    main(MeasureArguments(_RUN, data, text=text, sentences=size, checkpoints=root))
    return CorpusCost(time.perf_counter() - began, most_resident())


def most_resident() -> float:
    """MiB that this process had in memory at most; not a number where the system does not say.

    (``getrusage`` counts what the process that started this one had.)
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else float("nan")


if __name__ == "__main__":
    print(json.dumps(vars(measure_here(Path(sys.argv[1]), int(sys.argv[2])))))
