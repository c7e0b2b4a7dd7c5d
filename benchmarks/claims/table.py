"""The claims about the runs that ship, as ``claims.txt`` beside this file lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.claims import of_heads, of_logs, of_tasks, of_writing
from benchmarks.claims.record import Claim, OfCorpora, on_one_line

_MODULES = (of_heads, of_logs, of_tasks, of_writing)
_FUNCTIONS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in _MODULES
    for name, value in vars(module).items()
}


def _read() -> Iterator[Claim | OfCorpora]:
    text = Path(__file__).with_name("claims.txt").read_text(encoding="utf-8")
    for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        where, _, listed = section.partition("\n")
        for found, said in re.findall(r"^(\S.*)\n((?: {4}.*\n)+)", listed, re.MULTILINE):
            name, *of = found.split()
            if name == "by":
                yield OfCorpora(on_one_line(said), where, " ".join(of))
            else:
                yield Claim(on_one_line(said), where, partial(_FUNCTIONS[name], *of))


_ALL = tuple(_read())
CLAIMS = tuple(each for each in _ALL if isinstance(each, Claim))
OF_CORPORA = tuple(each for each in _ALL if isinstance(each, OfCorpora))
