"""Texts of persons and files, cut to what a page has room for."""

from __future__ import annotations

from collections.abc import Sequence


def shorten(text: str, longest: int = 60) -> str:
    """Cut a text off where it has more than ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def shorten_all(texts: Sequence[str], longest: int = 40, most: int = 12) -> list[str]:
    """Cut texts, and leave out those after the first ``most``, whose number is said at the end."""
    more = len(texts) - most
    said = [f"{more:,} more"] if more > 0 else []
    return [*(shorten(text, longest) for text in texts[:most]), *said]
