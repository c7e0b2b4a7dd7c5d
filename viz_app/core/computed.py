"""Computations that are declared once: pages, the shell and Python ask for them by declaration.

A declared function can be called as any other. What it is of says what is asked for besides:
a model's weights, one traced sentence, or sentences of a corpus. ``views/shared/asked.py`` computes
it once for all sessions of the app, ``export.py`` writes it to a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, Generic, Literal, ParamSpec, TypeVar

from headwise.model.estimates import account_bytes, costs_bytes
from headwise.model.interface import Description, Seq2SeqModel
from headwise.viz_app.core.sentences import Sentences
from headwise.viz_app.records.trace import Trace

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
