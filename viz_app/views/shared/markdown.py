"""Write texts of people and files into Markdown without interpreting them."""

from __future__ import annotations

import re

_STREAMLIT_SIGNS = re.compile(r"(?<!\S)(?:<->|->|<-|--|[<>~]=)(?!\S)|:(?=streamlit:|material/)")
"""What Streamlit draws as another sign or as a picture, escaped or not."""


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is."""
    # A word joiner after its first character keeps a sign from being replaced.
    text = _STREAMLIT_SIGNS.sub(lambda sign: f"{sign[0][0]}\u2060{sign[0][1:]}", text)
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
