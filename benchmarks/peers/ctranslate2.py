"""CTranslate2 with Marian's weights, in a process of its own.

In ours its threads would count among those of OpenMP: with more of them than cores nobody's wait
for work awake, and a step of greedy decoding takes five times as long.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.model.config import BOS, EOS

if TYPE_CHECKING:  # the process needs neither
    from transformers import MarianMTModel

Translate = Callable[[list[list[int]], int], list[list[int]]]
"""Sources and the length of the targets → targets."""


def convert(marian: MarianMTModel, folder: Path) -> None:
    """Write Marian as CTranslate2's model, its tokens being ids as text, into a new folder."""
    from ctranslate2.converters.transformers import BartLoader

    # Bart's loader: Marian's own begins every target with a vector of zeros, ours with <s>.
    marian = copy.deepcopy(marian)
    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(marian)
    tokens = [str(id) for id in range(marian.config.vocab_size)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.decoder_start_token = str(BOS)
    spec.config.eos_token, spec.config.unk_token = str(EOS), "1"
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


@contextmanager
def translator(folder: Path, *, threads: int) -> Iterator[Translate]:
    """A converted model in float32, of so many threads; its greedy targets begin with ``<s>``."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, str(folder), threads), daemon=True)
    process.start()
    theirs.close()

    def translate(source: list[list[int]], length: int) -> list[list[int]]:
        ours.send((source, length))
        found: list[list[int]] = ours.recv()
        return found

    try:
        yield translate
    finally:
        ours.close()
        process.join()


def _serve(connection: Connection, folder: str, threads: int) -> None:
    import ctranslate2

    model: Any = ctranslate2.Translator(
        folder, compute_type="float32", inter_threads=1, intra_threads=threads
    )
    while True:
        try:
            source, length = connection.recv()
        except EOFError:
            return
        tokens = [[str(id) for id in row] for row in source]
        found = model.translate_batch(tokens, beam_size=1, max_decoding_length=length)
        connection.send([[BOS, *map(int, result.hypotheses[0])] for result in found])
