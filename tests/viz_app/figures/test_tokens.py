from __future__ import annotations

from html.parser import HTMLParser

import pytest

from viz_app.figures.theme import DARK, LIGHT, Theme, text_on_weight, weight_colour
from viz_app.figures.tokens import token_row

NASTY = '<b onclick="x">&lt;\'$x$</bdi></div><script>'


class Reader(HTMLParser):
    """Tags with their attributes, and texts, as a browser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_text_title_and_language_are_never_markup() -> None:
    seen = Reader(token_row([NASTY, "a"], theme=LIGHT, titles=[NASTY, "t"], language=NASTY))
    assert [tag for tag, _ in seen.tags] == ["div", "bdi", "bdi"]
    assert seen.texts == [NASTY, "a"]
    row, first, _ = (attributes for _, attributes in seen.tags)
    assert set(row) == {"class", "lang", "dir", "style"}
    assert row["lang"] == NASTY
    assert set(first) == {"style", "title"}
    assert first["title"] == NASTY


def style(token: dict[str, str | None]) -> dict[str, str]:
    parts = (part.partition(":") for part in str(token["style"]).split(";"))
    return {name: value for name, _, value in parts}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_tokens_are_shaded_by_probability(theme: Theme) -> None:
    tokens = Reader(token_row(["a", "b"], theme=theme, probabilities=[0.0, 0.9])).tags[1:]
    for (_, token), p in zip(tokens, [0.0, 0.9], strict=True):
        assert style(token)["background"] == weight_colour(theme, p)
        assert style(token)["color"] == text_on_weight(theme, p)
        assert "title" not in token


def test_without_probabilities_tokens_have_no_ground() -> None:
    (_, token) = Reader(token_row(["a"], theme=DARK)).tags[1]
    assert style(token)["background"] == "transparent"
    assert style(token)["color"] == DARK.text


def test_the_selected_token_is_framed() -> None:
    tokens = Reader(token_row(["a", "b"], theme=LIGHT, selected=1)).tags[1:]
    borders = [style(token)["border"] for _, token in tokens]
    assert borders == [f"1px solid {LIGHT.line}", f"1px solid {LIGHT.accent}"]


def test_no_tokens_make_an_empty_row() -> None:
    assert [tag for tag, _ in Reader(token_row([], theme=LIGHT)).tags] == ["div"]


def test_sequences_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected 2 probabilities, got 1$"):
        token_row(["a", "b"], theme=LIGHT, probabilities=[0.5])
    with pytest.raises(ValueError, match=r"^expected 1 titles, got 2$"):
        token_row(["a"], theme=LIGHT, titles=["t", "u"])
