"""Read lessons from text files, and say of a broken one in which line, and what to do.

``docs/a-lesson.md`` describes the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from headwise.viz_app.analysis.questions import KINDS, read_parameters
from headwise.viz_app.lessons.markup import names_in
from headwise.viz_app.lessons.records import Lesson, Step

SHIPPED = Path(__file__).parent / "texts"
"""The folder of the lessons that come with the app."""
_FILE_NAME = re.compile(r"(?:\d+-)?([a-z][a-z0-9-]*)\.md")
_OF_LESSON = ("title", "teaches", "needs")
_OF_STEP = ("page", "view", "bright", "ask", "answer", "lever")
_MOST_BYTES = 50_000


class LessonError(ValueError):
    """A lesson's file cannot be used; the message names file and line, and says what to do."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path.name}, line {line}: {message}")


def read_lessons(
    folders: Sequence[Path], check: Callable[[Step], None] = lambda step: None
) -> tuple[dict[str, Lesson], list[LessonError]]:
    """Read the lessons of some folders, in the order of their files' names, folder by folder.

    A lesson takes the place of one with the same name in an earlier folder.

    Args:
        folders: the folders.
        check: raises ValueError for a step of which more is known to be wrong; its message begins
            with the field and a colon.

    Returns:
        The lessons by name; and the errors of files that cannot be used.
    """
    lessons: dict[str, Lesson] = {}
    errors = []
    for folder in folders:
        for path in sorted(folder.glob("*.md")):
            try:
                lesson = read_lesson(path, check)
                lessons[lesson.name] = lesson
            except LessonError as error:
                errors.append(error)
    return lessons, errors


def read_lesson(path: Path, check: Callable[[Step], None] = lambda step: None) -> Lesson:
    """Read a lesson.

    Raises:
        LessonError: if the file cannot be used.
    """
    named = _FILE_NAME.fullmatch(path.name)
    if named is None:
        raise LessonError(
            path, 1, "name the file in small letters, digits and -, such as 03-masks.md"
        )
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise LessonError(path, 1, f"shorten the file to {_MOST_BYTES:,} bytes")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(path, 1, f"cannot be read as text in UTF-8 ({error})") from error
    return _Reader(path, lines).read(named[1], check)


class _Reader:
    """Reads the lines of a file, and knows in which line each value stands."""

    def __init__(self, path: Path, lines: list[str]) -> None:
        self._path, self._lines = path, lines

    def read(self, name: str, check: Callable[[Step], None]) -> Lesson:
        titles = [i for i, line in enumerate(self._lines) if line.startswith("## ")]
        first = titles[0] if titles else len(self._lines)
        head, at = self._fields(0, first, _OF_LESSON)
        needs = tuple(part.strip() for part in head.pop("needs", "").split(",") if part.strip())
        steps = [
            self._step(start, end, check) for start, end in pairwise([*titles, len(self._lines)])
        ]
        given = head | {"name": name, "needs": needs, "steps": steps}
        try:
            return Lesson.model_validate(given)
        except ValidationError as error:
            raise self._explained(error, at, 1) from error

    def _step(self, start: int, end: int, check: Callable[[Step], None]) -> Step:
        body = start + 1
        while body < end and self._lines[body].strip():
            body += 1
        given, at = self._fields(start + 1, body, _OF_STEP)
        text: list[str] = []
        asked: list[str] = []
        for number in range(body, end):
            line = self._lines[number].strip()
            if line.startswith("? ") or asked:
                at.setdefault("question", number + 1)
                asked.append(line.removeprefix("? "))
            else:
                if line:
                    at.setdefault("text", number + 1)
                text.append(line)
        kind, *words = given.pop("ask", "").split()
        fields: dict[str, Any] = dict(given)
        if kind:
            fields |= {"ask": kind, "parameters": self._pairs(words, at["ask"])}
        fields["view"] = dict(parse_qsl(given.get("view", ""), keep_blank_values=True))
        fields["bright"] = tuple(filter(None, map(str.strip, given.get("bright", "").split(","))))
        fields |= {"title": self._lines[start][3:].strip(), "line": start + 1}
        fields |= {"text": " ".join(filter(None, text)), "question": " ".join(filter(None, asked))}
        try:
            step = Step.model_validate(fields)
        except ValidationError as error:
            raise self._explained(error, at, start + 1) from error
        self._check_question(step, at)
        try:
            check(step)
        except ValueError as error:
            field = str(error).partition(":")[0]
            raise LessonError(self._path, at.get(field, start + 1), str(error)) from error
        return step

    def _fields(
        self, start: int, end: int, known: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, int]]:
        """Read the lines ``name: value``, and in which line each name stands."""
        values: dict[str, str] = {}
        at: dict[str, int] = {}
        for number in range(start, end):
            line = self._lines[number].strip()
            if not line or line == "---":
                continue
            name, colon, value = line.partition(":")
            if not colon or name not in known:
                said = f"expected one of {', '.join(known)}, then a colon; got {line[:40]!r}"
                raise LessonError(self._path, number + 1, said)
            if name in values:
                raise LessonError(self._path, number + 1, f"{name} is given twice; leave one out")
            values[name], at[name] = value.strip(), number + 1
        return values, at

    def _pairs(self, words: Sequence[str], line: int) -> dict[str, str]:
        pairs = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise LessonError(self._path, line, f"write {word!r} as name=value")
            pairs[name] = value
        return pairs

    def _check_question(self, step: Step, at: Mapping[str, int]) -> None:
        try:
            read_parameters(step.ask, step.parameters)
        except ValidationError as error:
            raise self._explained(error, {}, at["ask"]) from error
        except ValueError as error:
            raise LessonError(self._path, at["ask"], str(error)) from error
        kind = KINDS[step.ask]
        for field in ("text", "question"):
            for name in names_in(getattr(step, field)):
                if name not in kind.names:
                    there = ", ".join(f"{{{each}}}" for each in sorted(kind.names)) or "nothing"
                    said = f"the question {step.ask} can name {there}, not {{{name}}}"
                    raise LessonError(self._path, at.get(field, step.line), said)
        if step.answer == "click" and (kind.way is None or step.page != "translate"):
            raise LessonError(
                self._path, at["answer"], f"{step.ask} has no click here; write answer: choice"
            )

    def _explained(
        self, error: ValidationError, at: Mapping[str, int], otherwise: int
    ) -> LessonError:
        """Say what is wrong first, in which line."""
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        line = at.get(field, otherwise)
        match first["type"]:
            case "missing":
                said = f"{field} is missing; add a line {field}: …"
            case "extra_forbidden":
                said = f"there is no {field!r} here; leave it out"
            case "string_too_short":
                wanted = "a line that begins with “? ”" if field == "question" else "a few words"
                said = f"{field} is empty; write {wanted}"
            case "too_short" | "too_long" if field == "steps":
                said = "a lesson has three to six steps, each below a line that begins with “## ”"
            case _:
                said = f"{field}: {first['msg'].removeprefix('Value error, ')}"
        return LessonError(self._path, line, said)
