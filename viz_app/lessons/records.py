"""A lesson and its steps, as their file has them, checked by pydantic, and the markup of texts.

A text may have **bold**, *italic* and formulas in $…$, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, cast, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

MOST_WORDS = 60
"""Most words of a step's text."""
Need = Literal[
    "additive positions",
    "scaled scores",
    "several checkpoints",
    "training curves",
    "measured pairs",
]
"""What a model or run must have for a lesson; beside these, ``run NAME`` is that very run, and
``languages en-es`` any run from the one language into the other."""
Group = Literal["basics", "decoding", "training", "causes"]
"""Under what a lesson stands in the list."""
Style = Literal["plain", "bold", "italic", "formula"]

_MARKED = re.compile(
    r"\$(?P<formula>[^$\n]+)\$"
    r"|\*\*(?P<bold>[^*\n]+)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^*\s](?:[^*\n]*[^*\s])?)\*(?![\w*])"
)
_NAMED = re.compile(r"\{(\w+)\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_COMMANDS = (
    "alpha beta gamma lambda mu sigma pi infty approx le ge ne in to sum prod cdot cdots times "
    "frac sqrt exp ln log max min top hat bar vec mathrm mathbf text left right quad dots ldots "
    "lVert rVert partial odot oplus mid , ; ! { } % _ |"
)


def parts_of(text: str) -> Iterator[tuple[Style, str]]:
    """Split a text into parts of one style each; what is not allowed is plain text."""
    end = 0
    for found in _MARKED.finditer(text):
        if found.start() > end:
            yield "plain", text[end : found.start()]
        style = cast(Style, found.lastgroup)
        yield style, found[style]
        end = found.end()
    if end < len(text):
        yield "plain", text[end:]


def names_in(text: str) -> list[str]:
    """Return the names that stand in braces outside formulas, such as ``{row}``."""
    return [
        name
        for style, part in parts_of(text)
        if style != "formula"
        for name in _NAMED.findall(part)
    ]


def fill(part: str, names: Mapping[str, str]) -> str:
    """Put values in place of the names in braces; a name without a value stays as it is."""
    return _NAMED.sub(lambda found: names.get(found[1], found[0]), part)


def check_markup(text: str) -> str:
    """Return a text whose formulas have known commands only; ValueError if one has another."""
    for style, part in parts_of(text):
        for command in _COMMAND.findall(part) if style == "formula" else ():
            if command not in _COMMANDS.split():
                raise ValueError(f"a formula may not use \\{command}; write it without")
    return text


def _check_length(text: str) -> str:
    if (words := len(text.split())) > MOST_WORDS:
        raise ValueError(f"the text has {words} words; shorten it to {MOST_WORDS}")
    return text


def _check_need(need: str) -> str:
    known = get_args(Need)
    if need not in known and not need.startswith(("run ", "languages ")):
        raise ValueError(
            f"unknown need {need!r}; write one of: {', '.join(known)}, run NAME, languages en-es"
        )
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
    against: str = ""
    """Another target than that of the view: the page then opens at the first token in which the two
    differ, and compares the two tokens there."""
    lever: Literal["factor"] | None = None
    """Something to try in the panel of the lesson."""
    learned: Annotated[str, AfterValidator(check_markup)] = ""
    """A sentence for the end of the lesson, which leads back to this step; most steps have none."""
    text: Annotated[Marked, AfterValidator(_check_length)]
    question: Marked


class Lesson(BaseModel):
    """A lesson has three to six steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """What the address calls it: the name of its file without number and ending."""
    title: Line
    group: Group | None = None
    teaches: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    needs: tuple[Annotated[str, AfterValidator(_check_need)], ...] = ()
    sentence: Annotated[str, StringConstraints(max_length=200)] = ""
    """The sentence that it is about; that of the reader if it is empty."""
    steps: Annotated[tuple[Step, ...], Field(min_length=3, max_length=6)]
