"""Read lessons from text files, and say of a broken one in which line, and what to do.

``docs/a-lesson.md`` describes the files. They are no YAML: a text may have colons, and each value
has its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pydantic import ValidationError

from headwise.model.files import CheckpointError, lines_of, read_bytes
from headwise.viz_app.lessons.questions import KINDS, read_parameters, way_on
from headwise.viz_app.lessons.records import Lesson, Step, names_in
from headwise.viz_app.moved import moved

SHIPPED = Path(__file__).parent / "texts"
"""The folder of the lessons that come with the app."""
_FILE_NAME = re.compile(r"(?:\d+-)?([a-z][a-z0-9-]*)\.md")
_OF_LESSON = ("title", "group", "teaches", "needs", "sentence")
_OF_STEP = ("page", "view", "bright", "ask", "answer", "lever", "against", "learned")
_MOST_BYTES = 50_000
_LONGEST = 600
"""Most characters of a message, which quotes what the file has."""


class LessonError(ValueError):
    """A lesson's file cannot be used; the message names file and line, and says what to do."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(
            f"{path.name}, line {line}: {message[:_LONGEST]}{'…' * (len(message) > _LONGEST)}"
        )


def read_lessons(
    folders: Sequence[Path], check: Callable[[Step], None] = lambda step: None
) -> tuple[dict[str, Lesson], list[LessonError]]:
    """Read the lessons of some folders, in the order of their files' names, folder by folder.

    A lesson takes the place of one with the same name in an earlier folder. ``check`` is as for
    ``read_lesson``. Returns the lessons by name, and the errors of files that cannot be used.
    """
    lessons: dict[str, Lesson] = {}
    errors = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.md"))):
        try:
            lesson = read_lesson(path, check)
            lessons[lesson.name] = lesson
        except LessonError as error:
            errors.append(error)
    return lessons, errors


def read_lesson(path: Path, check: Callable[[Step], None] = lambda step: None) -> Lesson:
    """Read a lesson; LessonError if the file cannot be used.

    ``check`` raises ValueError for a step of which more is known to be wrong; its message begins
    with the field and a colon.
    """
    named = _FILE_NAME.fullmatch(path.name)
    if named is None:
        said = "name the file in small letters, digits and -, such as 03-masks.md"
        raise LessonError(path, 1, said)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise LessonError(path, 1, f"shorten the file to {_MOST_BYTES:,} bytes")
        lines = lines_of(read_bytes(path, within=path.parent, most=_MOST_BYTES))
    except (CheckpointError, OSError, UnicodeDecodeError) as error:
        raise LessonError(path, 1, f"cannot be read as text in UTF-8 ({error})") from error
    return _Reader(path, lines).read(named[1], check)


class _Reader:
    """Reads the lines of a file, and knows in which line each value stands."""

    def __init__(self, path: Path, lines: list[str]) -> None:
        self._lines, self._error = lines, partial(LessonError, path)

    def read(self, name: str, check: Callable[[Step], None]) -> Lesson:
        starts = [i for i, line in enumerate(self._lines) if line.startswith("## ")]
        ends = [*starts, len(self._lines)]
        given, at = self._fields(0, ends[0], _OF_LESSON)
        needs = _listed(given.pop("needs", ""))
        steps = [self._step(start, end, check) for start, end in pairwise(ends)]
        try:
            return Lesson.model_validate(given | {"name": name, "needs": needs, "steps": steps})
        except ValidationError as error:
            raise self._explained(error, at, 1) from error

    def _step(self, start: int, end: int, check: Callable[[Step], None]) -> Step:
        body = next((i for i in range(start + 1, end) if not self._lines[i].strip()), end)
        given, at = self._fields(start + 1, body, _OF_STEP)
        texts: dict[str, list[str]] = {"text": [], "question": []}
        part = "text"
        for number, line in enumerate(map(str.strip, self._lines[body:end]), body + 1):
            if line.startswith("? "):
                part = "question"
            if line or part == "question":
                at.setdefault(part, number)
                texts[part].append(line.removeprefix("? "))
        kind, *words = given.pop("ask", "").split() or [""]
        fields: dict[str, Any] = given | {
            name: " ".join(filter(None, lines)) for name, lines in texts.items()
        }
        fields |= {"title": self._lines[start][3:].strip(), "line": start + 1}
        fields["bright"] = _listed(given.get("bright", ""))
        asked = parse_qs(given.get("view", ""), keep_blank_values=True)
        page, shown = moved(given.get("page", ""), asked | {"bright": fields["bright"]})
        fields |= {"page": page} if page else {}
        fields["view"] = {name: shown[name][-1] for name in shown if name != "bright"}
        if kind:
            fields |= {"ask": kind, "parameters": self._pairs(words, at["ask"])}
        try:
            step = Step.model_validate(fields)
        except ValidationError as error:
            raise self._explained(error, at, start + 1) from error
        self._check_question(step, at)
        try:
            check(step)
        except ValueError as error:
            field = str(error).partition(":")[0]
            raise self._error(at.get(field, start + 1), str(error)) from error
        return step

    def _fields(
        self, start: int, end: int, known: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, int]]:
        """Read the lines ``name: value``, and in which line each name stands."""
        values: dict[str, str] = {}
        at: dict[str, int] = {}
        for number, line in enumerate(map(str.strip, self._lines[start:end]), start + 1):
            if line in ("", "---"):
                continue
            name, colon, value = line.partition(":")
            if not colon or name not in known:
                said = f"expected one of {', '.join(known)}, then a colon; got {line[:40]!r}"
                raise self._error(number, said)
            if name in values:
                raise self._error(number, f"{name} is given twice; leave one out")
            values[name], at[name] = value.strip(), number
        return values, at

    def _pairs(self, words: Sequence[str], line: int) -> dict[str, str]:
        for word in words:
            if "=" not in word:
                raise self._error(line, f"write {word!r} as name=value")
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def _check_question(self, step: Step, at: Mapping[str, int]) -> None:
        try:
            read_parameters(step.ask, step.parameters)
        except ValidationError as error:
            raise self._explained(error, {}, at["ask"]) from error
        except ValueError as error:
            raise self._error(at["ask"], str(error)) from error
        kind = KINDS[step.ask]
        if step.against and not step.view.get("target"):
            raise self._error(at["against"], "against: the view has no target to differ from it")
        for field in ("text", "question"):
            for name in names_in(getattr(step, field)):
                if name not in kind.names:
                    there = ", ".join(f"{{{each}}}" for each in sorted(kind.names)) or "nothing"
                    said = f"the question {step.ask} can name {there}, not {{{name}}}"
                    raise self._error(at.get(field, step.line), said)
        if step.answer == "click" and way_on(step.page, step.ask) is None:
            raise self._error(at["answer"], f"{step.ask} has no click here; write answer: choice")

    def _explained(
        self, error: ValidationError, at: Mapping[str, int], otherwise: int
    ) -> LessonError:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        match first["type"]:
            case "missing":
                said = f"{field} is missing; add a line {field}: …"
            case "extra_forbidden":
                said = f"there is no {field!r} here; leave it out"
            case "string_too_short":
                wanted = "a line that begins with “? ”" if field == "question" else "a few words"
                said = f"{field} is empty; write {wanted}"
            case "too_short" | "too_long" if field == "steps":
                said = "a lesson has three to six pages, each below a line that begins with “## ”"
            case _:
                said = f"{field}: {first['msg'].removeprefix('Value error, ')}"
        return self._error(at.get(field, otherwise), said)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))
