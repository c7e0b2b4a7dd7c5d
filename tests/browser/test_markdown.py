"""What Streamlit's own Markdown makes of escaped texts, in a browser: nothing but their letters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

from tests.browser.conftest import PORT
from tests.robustness.texts import MARKUP, TEXTS

if TYPE_CHECKING:
    from tests.browser.driver import App

PAGE = Path(__file__).with_name("markdown_page.py")
PLACES = re.findall(r'^    "([a-z ]+)": ', PAGE.read_text(), re.MULTILINE)
COMMAND = (
    *("-m", "streamlit", "run", str(PAGE), *PORT, "--server.address", "localhost"),
    *("--server.headless", "true", "--browser.gatherUsageStats", "false"),
)
DRAWN = """keys => keys.map(key => {
    const drawn = document.querySelector(`.st-key-${key}`);
    const made = drawn.querySelectorAll(':is([data-testid="stMarkdownContainer"], td) *');
    const markup = [...made].filter(each => each.matches(
        'a, img, code, em, del, hr, h5, input, .katex, [role="img"], [class*="stMarkdown"], '
        + '[style*="color"], [style*="font"]'));
    return [drawn.textContent.replaceAll("\\u2060", ""), markup.map(each => each.outerHTML)];
})"""
"""The text of containers, and the markup that is drawn in them."""


def generated(count: int) -> list[str]:
    """Texts, the same each time, as they can be sent: without lone surrogates."""
    texts: list[str] = []

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(TEXTS)
    def collect(text: str) -> None:
        texts.append(text[:300].encode("utf-8", "ignore").decode())

    collect()
    return texts


def as_drawn(text: str) -> str:
    """What HTML draws of a text: white space once, other characters as they are."""
    return re.sub(r"[ \t\n\r]+", " ", text.replace("\u2060", "").replace("\0", "\ufffd")).strip()


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    return {"drawn": [*MARKUP, *generated(100)], "everywhere": list(MARKUP)}


@pytest.fixture(scope="module")
def markdown_address(
    serve: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
    texts: dict[str, list[str]],
) -> str:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "texts.json").write_text(json.dumps(texts))
    return serve(folder, command=COMMAND)


def test_escaped_texts_are_drawn_letter_for_letter(
    new_app: Callable[..., App], markdown_address: str, texts: dict[str, list[str]]
) -> None:
    app = new_app(markdown_address)
    app.page.goto(markdown_address)
    app.page.get_by_text("All is drawn.").wait_for()
    found = app.find(DRAWN, [f"text-{at}" for at in range(len(texts["drawn"]))])
    for text, (drawn, markup) in zip(texts["drawn"], found, strict=True):
        assert (as_drawn(drawn), markup) == (as_drawn(text), [])
    for place in PLACES:
        keys = [f"{place.replace(' ', '-')}-{at}" for at in range(len(texts["everywhere"]))]
        app.expect(f"keys => ({DRAWN})(keys).every(([drawn]) => drawn)", True, keys)
        for text, (drawn, markup) in zip(texts["everywhere"], app.find(DRAWN, keys), strict=True):
            assert as_drawn(text) in as_drawn(drawn), place
            assert markup == [], place
