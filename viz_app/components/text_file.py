"""A place for a text file: dropped or chosen there, its text is read in the browser and sent."""

from __future__ import annotations

from collections.abc import Callable

from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.theme import Theme, page_colours

_mount = component("text_file")


def text_file(
    label: str, *, most: int, theme: Theme, key: str, on_text: Callable[[str], None]
) -> None:
    """Ask for a text file; its text, where it has at most ``most`` bytes, is given to ``on_text``.

    Of a larger file the browser sends nothing, and says so there. What is not UTF-8 in it is U+FFFD
    in the text.
    """

    def handle_text() -> None:
        text = sent_value(key, "text")
        if isinstance(text, str):
            on_text(text)

    data = {"label": label, "most": most, "colours": page_colours(theme)}
    _mount(key=key, data=data, on_text_change=handle_text)
