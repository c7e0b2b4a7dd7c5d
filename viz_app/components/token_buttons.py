"""A row of tokens that can be chosen, by the mouse or with the arrow keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwise.model.interface import Side
from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.html import language_tag, short_probability, token_colours
from headwise.viz_app.figures.theme import Theme, page_colours

_mount = component("token_buttons")


def token_buttons(
    labels: Sequence[str],
    *,
    name: str,
    theme: Theme,
    key: str,
    on_click: Callable[[int], None],
    chosen: int | None = None,
    marked: Sequence[int] = (),
    probabilities: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    words: Sequence[tuple[int, int, float]] = (),
    language: str = "",
    side: Side | None = None,
) -> None:
    """Draw tokens in reading order.

    If their probabilities are given, they shade the tokens and stand below them as numbers. The
    place of a clicked token is given to ``on_click``; that of the framed one is ``chosen``, and
    those of ``marked`` have a dashed frame. For screen readers, ``name`` says what the row is and
    what a click does. ``titles`` are shown when the mouse rests on a token. ``words`` are of
    several tokens each: the first, the one after the last, and the probability of the word, which
    stands below them. If all tokens of a ``side`` are drawn, the one under the pointer lights up in
    the maps of the page too.

    Raises:
        ValueError: if the sequences differ in length.
    """

    def handle_click() -> None:
        place = sent_value(key, "clicked")
        if isinstance(place, int) and 0 <= place < len(labels):
            on_click(place)

    weights = [None] * len(labels) if probabilities is None else probabilities
    notes = [""] * len(labels) if titles is None else titles
    tokens = [
        {
            "label": label,
            "title": title,
            "number": "" if weight is None else short_probability(weight),
            **token_colours(theme, weight),
        }
        for label, title, weight in zip(labels, notes, weights, strict=True)
    ]
    data = {
        "tokens": tokens,
        "name": name,
        "chosen": chosen,
        "marked": list(marked),
        "words": [
            {"start": start, "stop": stop, "number": short_probability(probability)}
            for start, stop, probability in words
        ],
        "language": language_tag(language),
        "side": side,
        "colours": page_colours(theme),
    }
    _mount(key=key, data=data, on_clicked_change=handle_click)
