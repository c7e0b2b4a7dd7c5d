"""A claim about the runs that ship: its words, where they stand, and what computes it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Found:
    """What a function finds in the files of the runs."""

    figures: Mapping[str, object] = field(default_factory=dict)
    """What stands in the claim's words, by name."""
    holds: bool = True
    """Whether what is claimed beside figures is so."""
    seen: str = ""
    """By what it was seen, for who reads the list."""


@dataclass(frozen=True)
class Claim:
    """Something that is said about the runs that ship."""

    words: str
    """As they stand there, but for line breaks, with names of figures in braces."""
    where: str
    """The file, from the root of the project."""
    find: Callable[[], Found]

    def said(self, found: Found) -> str:
        """Return the words with the figures that were found."""
        return on_one_line(self.words.format(**found.figures))

    def stands(self, found: Found) -> bool:
        """Return whether the words stand in the file, with these figures."""
        return self.said(found) in texts_of(ROOT / self.where)


@dataclass(frozen=True)
class OfCorpora:
    """A claim for which the corpora are needed, which do not ship; it says what computes it."""

    words: str
    where: str
    by: str


def exact_interval(count: int, of: int, digits: int) -> dict[str, str]:
    """Return the ends of the 95% interval of a share (Clopper and Pearson 1934), in percent."""
    ends = binomtest(count, of).proportion_ci(method="exact")
    return {"low": f"{ends.low:.{digits}%}", "high": f"{ends.high:.{digits}%}"}


def on_one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())


@cache
def texts_of(path: Path) -> str:
    """Return what a file says on one line: all of it, or the texts in it if it is of Python."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        texts = (
            each.value for each in ast.walk(ast.parse(content)) if isinstance(each, ast.Constant)
        )
        content = "\n".join(each for each in texts if isinstance(each, str))
    return on_one_line(content)
