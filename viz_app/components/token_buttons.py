"""A row of tokens that can be chosen, by the mouse or with the arrow keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from headwise.viz_app.components.assets import component, page_colours
from headwise.viz_app.figures.theme import Theme
from headwise.viz_app.figures.tokens import short_probability, token_colours

_mount = component("token_buttons")


def token_buttons(
    labels: Sequence[str],
    *,
    name: str,
    theme: Theme,
    key: str,
    on_click: Callable[[int], None],
    chosen: int | None = None,
    probabilities: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    language: str = "",
) -> None:
    """Draw tokens in reading order.

    If their probabilities are given, they shade the tokens and stand below them as numbers.

    Args:
        labels: labels of the tokens.
        name: what the row is and what a click does, for screen readers.
        theme: colours.
        key: the key of the widget.
        on_click: called with the place of a token that was clicked.
        chosen: the place of the token that is framed.
        probabilities: probability of each token, from 0 to 1.
        titles: shown when the mouse rests on a token.
        language: its code, for screen readers and fonts.

    Raises:
        ValueError: if the sequences differ in length.
    """

    def handle_click() -> None:
        place = st.session_state[key].clicked
        if isinstance(place, int) and 0 <= place < len(labels):
            on_click(place)

    weights = [None] * len(labels) if probabilities is None else probabilities
    tokens = [
        {
            "label": label,
            "title": title,
            "number": "" if weight is None else short_probability(weight),
            **token_colours(theme, weight),
        }
        for label, title, weight in zip(
            labels, [""] * len(labels) if titles is None else titles, weights, strict=True
        )
    ]
    data = {
        "tokens": tokens,
        "name": name,
        "chosen": chosen,
        "language": language,
        "colours": page_colours(theme),
    }
    _mount(key=key, data=data, on_clicked_change=handle_click)
