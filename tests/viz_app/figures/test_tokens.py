from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour
from headwise.viz_app.figures.tokens import probability_legend, token_row

if TYPE_CHECKING:
    from tests.viz_app.conftest import HtmlPage

ReadHtml = Callable[[str], "HtmlPage"]


def test_text_title_and_language_are_never_read_as_html(read_html: ReadHtml, markup: str) -> None:
    seen = read_html(token_row([markup, "a"], theme=LIGHT, titles=[markup, "t"], language=markup))
    assert [tag for tag, _ in seen.tags] == ["div", "bdi", "bdi"]
    assert seen.texts["bdi"] == [markup, "a"]
    row, first, _ = (attributes for _, attributes in seen.tags)
    assert set(row) == {"class", "lang", "dir", "style"}
    assert row["lang"] == markup
    assert set(first) == {"style", "title"}
    assert first["title"] == markup


def style(token: dict[str, str | None]) -> dict[str, str]:
    parts = (part.partition(":") for part in str(token["style"]).split(";"))
    return {name: value for name, _, value in parts}


def test_tokens_are_shaded_by_their_probabilities_which_stand_below(
    read_html: ReadHtml, theme: Theme
) -> None:
    seen = read_html(token_row(["a", "b"], theme=theme, probabilities=[0.0, 0.9]))
    assert seen.texts["small"] == ["<.01", "0.90"]
    tokens = [attributes for tag, attributes in seen.tags if tag == "bdi"]
    for token, p in zip(tokens, [0.0, 0.9], strict=True):
        assert style(token)["background"] == weight_colour(theme, p)
        assert style(token)["color"] == text_on_weight(theme, p)
        assert "title" not in token


def test_the_legend_has_the_shades_of_tokens(read_html: ReadHtml, theme: Theme) -> None:
    _, (_, bar) = read_html(probability_legend(theme)).tags
    shades = [weight_colour(theme, p).lower() for p in (0.0, 1.0)]
    assert all(
        f"{shade} {at}%" in str(bar["style"]).lower()
        for shade, at in zip(shades, (0, 100), strict=True)
    )


def test_the_selected_token_is_framed(read_html: ReadHtml) -> None:
    tokens = read_html(token_row(["a", "b"], theme=LIGHT, selected=1)).tags[1:]
    borders = [style(token)["border"] for _, token in tokens]
    assert borders == [f"1px solid {LIGHT.line}", f"1px solid {LIGHT.accent}"]


def test_sequences_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected 2 probabilities, got 1$"):
        token_row(["a", "b"], theme=LIGHT, probabilities=[0.5])
    with pytest.raises(ValueError, match=r"^expected 1 titles, got 2$"):
        token_row(["a"], theme=LIGHT, titles=["t", "u"])
