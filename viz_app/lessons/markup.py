"""The Markdown that a lesson may have: **bold**, *italic* and formulas in $…$, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

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
        style = found.lastgroup
        yield (
            ("formula" if style == "formula" else "bold" if style == "bold" else "italic"),
            found[style or 0],
        )
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
    """Return a text whose formulas have known commands only.

    Raises:
        ValueError: if a formula has another one.
    """
    for style, part in parts_of(text):
        if style == "formula":
            for command in _COMMAND.findall(part):
                if command not in _COMMANDS.split():
                    raise ValueError(f"a formula may not use \\{command}; write it without")
    return text
