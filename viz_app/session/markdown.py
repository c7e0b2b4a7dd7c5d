"""Write texts of people and files into Markdown and LaTeX without interpreting them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context
from types import MappingProxyType

from headwise.viz_app.lessons.records import fill, parts_of

_SIGNS = re.compile(
    r"(?<!\S)(?:<->|->|<-|--|[<>~]=)(?!\S)"  # becomes one sign
    r"|:(?=\S)"  # of an icon, an emoji or a link
    r"|@(?=\S)|www(?=\.)",  # of a link
    re.IGNORECASE,
)
"""What Streamlit replaces by something else, whether it is escaped or not."""
_MARGINS = re.compile(r"^[ \t]+|[ \t]*[\r\n][ \t\r\n]*")
"""What may begin a block, such as one of code."""


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is, in one paragraph: no link, icon or colour."""
    text = _MARGINS.sub(" ", text)
    # A word joiner after its first character keeps a sign from being replaced.
    text = _SIGNS.sub(lambda sign: f"{sign[0][0]}\u2060{sign[0][1:]}", text)
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def escape_latex(text: str) -> str:
    """Escape text so that ``\\texttt{…}`` in a formula shows it as it is."""
    return re.sub(r"[^\w<>/|]|_", lambda sign: rf"\char{ord(sign[0])}{{}}", text)


def power_of_ten(value: float, decimals: int = 0) -> str:
    """Write by how much something is off, as 3e−07, never less; 0 as it is.

    Its minus sign is one at which no line breaks.
    """
    if not value:
        return "0"
    upwards = Context(prec=decimals + 1, rounding=ROUND_UP).create_decimal(f"{value:.6g}")
    return f"{float(upwards):.{decimals}e}".replace("-", "−")


def lesson_markdown(text: str, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Write a lesson's text as Markdown: bold, italic and formulas, and the rest as it is.

    Values for names in braces, which may be a person's text, are shown as they are.
    """
    marks = {"plain": "", "bold": "**", "italic": "*", "formula": "$"}
    return "".join(
        f"{marks[style]}{part if style == 'formula' else escape_markdown(fill(part, names))}"
        f"{marks[style]}"
        for style, part in parts_of(text)
    )


def table_cell(text: str) -> str:
    """Return a text for a cell of a table, which a browser may save for a spreadsheet.

    There a text that begins with one of some signs would be computed. Before it comes a sign
    without a width (U+2060).
    """
    return f"\u2060{text}" if text.lstrip()[:1] in tuple("=+-@") else text
