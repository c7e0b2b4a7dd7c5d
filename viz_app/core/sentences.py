"""Sentences and their translations, encoded: what declared computations go through in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from headwise.model.interface import Tokenizers
from headwise.model.runs import Run
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.batches import EncodedPair, batches_by_length, encode_all
from headwise.viz_app.records.measures import Measures

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sentences:
    """Sentences with their translations, which are forced, at least one."""

    tokenizers: Tokenizers
    pairs: tuple[EncodedPair, ...]
    sha256: str = ""  # of the corpus, which identifies what is kept of it; empty where nothing is
    note_done: Callable[[int, int], None] | None = None
    """Is told how many of how many sentences are done, after every batch; it may end the
    computation by an exception."""
    known: MutableMapping[int, Any] | None = None
    """What one computation had of batches that are done, by their number; new ones are added."""

    @classmethod
    def of(
        cls,
        tokenizers: Tokenizers,
        pairs: Iterable[tuple[str, str]],
        *,
        max_length: int,
        sha256: str = "",
    ) -> Sentences:
        """Encode those pairs of texts that a model can take; ``DataError`` if none is left."""
        encoded = encode_all([Pair(*each) for each in pairs], tokenizers, max_length=max_length)
        return cls(tokenizers, encoded, sha256)

    @classmethod
    def examples(cls, run: Run, measures: Measures) -> Sentences:
        """Encode the example sentences of a run's measures; ``DataError`` if none can be."""
        pairs = [(each.source, each.reference) for each in measures.sentences]
        most, corpus = run.description.max_length, measures.examples_corpus
        return cls.of(run.tokenizers, pairs, max_length=most, sha256=corpus.sha256)

    @property
    def lengths(self) -> tuple[int, int]:
        """Return how many tokens the longest source and the longest target have."""
        source, target = zip(
            *((len(each.source), len(each.target)) for each in self.pairs), strict=True
        )
        return max(source), max(target)

    def by_batch(self, compute: Callable[[Sequence[EncodedPair]], Result]) -> list[Result]:
        """Compute something of each batch, in an order that is always the same."""
        found, done = {} if self.known is None else self.known, 0
        for number, batch in enumerate(batches_by_length(self.pairs)):
            if number not in found:
                found[number] = compute(batch)
            done += len(batch)
            if self.note_done is not None:
                self.note_done(done, len(self.pairs))
        return list(found.values())
