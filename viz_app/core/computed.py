"""Computations that are declared once: pages, the shell and Python ask for them by declaration.

A declared function can be called as any other. What it is of says what is asked for besides:
a model's weights, one traced sentence, or sentences of a corpus. ``session/asked.py`` computes
it once for all sessions of the app, ``export.py`` writes it to a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from headwise.model.estimates import account_bytes, costs_bytes
from headwise.model.interface import Description, Seq2SeqModel, Tokenizers
from headwise.model.runs import Run
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair, batches_by_length, encode_all
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sentences:
    """Sentences with their translations, which are forced, at least one."""

    tokenizers: Tokenizers
    pairs: tuple[EncodedPair, ...]
    sha256: str = ""  # of the corpus, which identifies what is kept of it; empty where nothing is
    note_done: Callable[[int, int], None] | None = None
    """Told how many of how many are done, after every batch; may raise to end it."""
    known: MutableMapping[int, Any] | None = None
    """What it had of batches that are done, by their number; new ones are added."""

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


Asked = ParamSpec("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Computed(Generic[Asked, Found]):
    """A function with what has to be known of it to cache, admit, log and name it."""

    function: Callable[Asked, Found]
    of: Literal["weights", "trace", "sentences"]
    what: str  # what is computed, as logs say it
    says: str  # what a page says while it takes long
    needs: Callable[[Description, int, int], int]
    """The most bytes that it takes, by the model and the lengths of source and target."""

    def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Found:
        return self.function(*args, **kwargs)

    @property
    def heads(self) -> int:
        """Return of how many heads it is."""
        asked = inspect.signature(self.function).parameters.values()
        return sum(each.annotation == "Head" for each in asked)


OfWeights = Computed[[Seq2SeqModel], Found]
OfTrace = Computed[Concatenate[Seq2SeqModel, Trace, Asked], Found]
OfSentences = Computed[Concatenate[Seq2SeqModel, Sentences, Asked], Found]


def of_weights(
    what: str, *, says: str = ""
) -> Callable[[Callable[[Seq2SeqModel], Found]], OfWeights[Found]]:
    """Declare a function of a model."""
    return lambda function: Computed(function, "weights", what, says, lambda *_: 0)


def of_trace(
    what: str, *, needs: Callable[[Description, int, int], int] = account_bytes
) -> Callable[[Callable[Concatenate[Seq2SeqModel, Trace, Asked], Found]], OfTrace[Asked, Found]]:
    """Declare a function of a model, a trace of it and what is asked besides; takes one pass."""
    return lambda function: Computed(function, "trace", what, "", needs)


def of_sentences(
    what: str, *, says: str = "", needs: Callable[[Description, int, int], int] = costs_bytes
) -> Callable[
    [Callable[Concatenate[Seq2SeqModel, Sentences, Asked], Found]], OfSentences[Asked, Found]
]:
    """Declare a function of a model and of sentences that it goes through in batches."""
    return lambda function: Computed(function, "sentences", what, says, needs)
