"""The kinds of questions that a lesson can ask, by name, with their parameters.

A kind is a function of what is asked about and of some parameters. A lesson's file names it and
gives the parameters: ``ask: head_extreme of=previous most=true``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from headwise.viz_app.lessons import map_questions, prediction_questions, vector_questions
from headwise.viz_app.lessons.question import Asked, Question
from headwise.viz_app.why.sentences import questions as patching_questions
from headwise.viz_app.why.word import questions as account_questions

Way = Literal["cell", "row", "source", "target", "head"]
"""What a click answers with: a part of the large map, a token, a head among all."""


@dataclass(frozen=True)
class QuestionKind:
    """A kind of question has a function, a way to answer it by a click, and what it can name."""

    make: Callable[..., Question]
    way: Way | None = None
    names: frozenset[str] = field(default_factory=frozenset)  # in braces in its text

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """A model of its parameters, made from the signature of its function."""
        hints = get_type_hints(self.make, include_extras=True)
        fields: dict[str, Any] = {
            each.name: (hints[each.name], ... if each.default is each.empty else each.default)
            for each in inspect.signature(self.make).parameters.values()
            if each.kind is each.KEYWORD_ONLY
        }
        config = ConfigDict(extra="forbid")
        return create_model(self.make.__name__, __config__=config, **fields)


def _kind(make: Callable[..., Question], *names: str, way: Way | None = None) -> QuestionKind:
    return QuestionKind(make, way, frozenset(names))


_WORDS = ("word", "other")
KINDS: dict[str, QuestionKind] = {
    "largest_key": _kind(map_questions.largest_key, "row", "largest", way="cell"),
    "row_sum": _kind(map_questions.row_sum, "row"),
    "even_weight": _kind(map_questions.even_weight, "row", "count"),
    "keys_for_share": _kind(map_questions.keys_for_share, "row", "share"),
    "head_extreme": _kind(map_questions.head_extreme, "kind", way="head"),
    "row_for_key": _kind(map_questions.row_for_key, "column", way="row"),
    "masked_keys": _kind(map_questions.masked_keys, "row"),
    "hidden_token": _kind(map_questions.hidden_token, "row", "consumed", way="target"),
    "predicted_token": _kind(map_questions.predicted_token, "row_number", "consumed", way="target"),
    "largest_weight": _kind(map_questions.largest_weight),
    "costliest_head": _kind(map_questions.costliest_head, "kind", way="head"),
    "input_width": _kind(vector_questions.input_width),
    "nearest_position": _kind(vector_questions.nearest_position, "token"),
    "longer_part": _kind(vector_questions.longer_part),
    "turned_most": _kind(vector_questions.turned_most),
    "query_width": _kind(vector_questions.query_width),
    "key_count": _kind(vector_questions.key_count),
    "largest_product": _kind(vector_questions.largest_product, "row"),
    "score": _kind(vector_questions.score, "row", "key", "product", "d_k"),
    "unscaled": _kind(vector_questions.unscaled, "row", "root"),
    "zero_factor": _kind(vector_questions.zero_factor, "row"),
    "lens_layer": _kind(prediction_questions.lens_layer, "row"),
    "least_sure": _kind(prediction_questions.least_sure, way="target"),
    "runner_up": _kind(prediction_questions.runner_up, "row"),
    "nucleus_size": _kind(prediction_questions.nucleus_size, "row", "share"),
    "first_probability": _kind(prediction_questions.first_probability),
    "first_loss": _kind(prediction_questions.first_loss),
    "best_milestone": _kind(prediction_questions.best_milestone, "curve"),
    "last_value": _kind(prediction_questions.last_value, "curve"),
    "tokens_changed": _kind(prediction_questions.tokens_changed, "count"),
    "weakest_phenomenon": _kind(prediction_questions.weakest_phenomenon),
    "likelier_target": _kind(prediction_questions.likelier_target, "source", "phenomenon"),
    "above_chance": _kind(prediction_questions.above_chance),
    "heads_that_count": _kind(prediction_questions.heads_that_count),
    "word_ratio": _kind(account_questions.word_ratio, *_WORDS),
    "account_sum": _kind(account_questions.account_sum, *_WORDS),
    "largest_group": _kind(account_questions.largest_group, *_WORDS),
    "largest_part": _kind(account_questions.largest_part, *_WORDS),
    "key_of_head": _kind(account_questions.key_of_head, *_WORDS, "head"),
    "source_for_word": _kind(account_questions.source_for_word, *_WORDS, way="source"),
    "head_for_token": _kind(account_questions.head_for_token, *_WORDS, "token"),
    "encoder_part": _kind(account_questions.encoder_part, *_WORDS, "token"),
    "score_term": _kind(vector_questions.score_term, "row"),
    "written_token": _kind(vector_questions.written_token, "row", "token"),
    "restoring_token": _kind(patching_questions.restoring_token, "first", "second"),
    "restoring_sublayer": _kind(patching_questions.restoring_sublayer, "first", "second"),
    "restoring_head": _kind(patching_questions.restoring_head, "first", "second"),
}
_CLICKED: Mapping[str, tuple[Way, ...]] = {"translate": get_args(Way), "why": ("source", "target")}


def way_on(page: str, name: str) -> Way | None:
    """Return what a click answers a kind of question with on a page; None if there is none."""
    way = KINDS[name].way
    return way if way in _CLICKED.get(page, ()) else None


def read_parameters(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Read the parameters of a question from texts. ValueError if there is no such kind or
    parameter, or a value is not one that it takes (pydantic's ``ValidationError``).
    """
    if name not in KINDS:
        raise ValueError(f"there is no question {name!r}; there is: {', '.join(KINDS)}")
    read = KINDS[name].parameters.model_validate(dict(given))
    return {key: getattr(read, key) for key in given}


def ask(name: str, given: Mapping[str, Any], asked: Asked) -> Question:
    """Make a question of a kind, with read parameters; ValueError if it cannot be asked here."""
    return KINDS[name].make(asked, **given)
