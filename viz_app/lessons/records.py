"""A lesson and its steps, as their file has them, checked by pydantic."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from headwise.viz_app.lessons.markup import check_markup

MOST_WORDS = 60
"""Most words of a step's text."""
Need = Literal["additive positions", "scaled scores", "several checkpoints", "training curves"]
"""What a model or run must have for a lesson; beside these, ``run NAME`` is that very run."""


def _check_length(text: str) -> str:
    if (words := len(text.split())) > MOST_WORDS:
        raise ValueError(f"the text has {words} words; shorten it to {MOST_WORDS}")
    return text


def _check_need(need: str) -> str:
    known = get_args(Need)
    if need not in known and not need.startswith("run "):
        raise ValueError(f"unknown need {need!r}; write one of: {', '.join(known)}, run NAME")
    return need


Line = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Marked = Annotated[str, StringConstraints(min_length=1), AfterValidator(check_markup)]


class Step(BaseModel):
    """A step sets the view, dims what it does not speak of, and asks a question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Line
    line: int
    """The line of its title in the file, from 1."""
    page: str
    """The page it is about, by its name in the address."""
    view: dict[str, str] = {}
    """Parameters of the address, where ``first``, ``last`` and the like may stand for places."""
    bright: tuple[str, ...] = ()
    """Parts of the page that are not dimmed; all if it is empty."""
    ask: str
    """A kind of question."""
    parameters: dict[str, str] = {}
    """Parameters of the question."""
    answer: Literal["click", "choice"] | None = None
    """Whether a click in the page or a button answers; a click where the kind of question has one
    and the step is on Translate, if it is None."""
    lever: Literal["factor"] | None = None
    """Something to try in the panel of the lesson."""
    text: Annotated[Marked, AfterValidator(_check_length)]
    question: Marked


class Lesson(BaseModel):
    """A lesson has three to six steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """What the address calls it: the name of its file without number and ending."""
    title: Line
    teaches: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    needs: tuple[Annotated[str, AfterValidator(_check_need)], ...] = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=3, max_length=6)]
