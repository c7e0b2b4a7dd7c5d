"""No text of a link or a file is Markdown or LaTeX, in menus and helps that are shut neither."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.views.shared.markdown import escape_latex, escape_markdown
from tests.robustness import tiny_run
from tests.robustness.hostile_run import NAME, SAID, make_hostile_run
from tests.viz_app.views.driver import Folders, Start, errors, every_page

TOKEN = "$y$ :red[x] `c` https://h.example } \\color{red}"
"""What each token of a vocabulary ends with."""
RAW = ("https://", ":red[", "**b**", "\\color{")
"""Markup of these texts that escaping would have changed."""
PLAIN = {
    *("Text.body", "Html.body", "Code.code_text", "BidiComponent.json"),
    *("PlotlyChart.spec", "PlotlyChart.config", "PlotlyChart.alt"),
    *("Selectbox.options", "Selectbox.raw_value", "MultiSelect.options", "MultiSelect.raw_values"),
    *("TextArea.default", "TextInput.default", "TextInput.value", "TextInput.placeholder"),
}
"""Where Streamlit draws a text as it is, or another program does."""


def strings(message: Any) -> Iterator[tuple[str, str]]:
    """Yield each text of a message of Streamlit's, and where it is, such as "Text.body"."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if hasattr(each, "ListFields"):
                yield from strings(each)
            elif isinstance(each, str):
                yield f"{message.DESCRIPTOR.name}.{field.name}", each


def drawn(node: Any) -> Iterator[tuple[str, str]]:
    """Yield each text that is sent to the browser for a node of the page and all in it."""
    if getattr(node, "proto", None) is not None:
        yield from strings(node.proto)
    for child in getattr(node, "children", {}).values():
        yield from drawn(child)


def assert_no_markup(app: AppTest, page: str) -> None:
    """Whatever is new in Streamlit counts as Markdown."""
    assert errors(app) == []
    shown = [(place, text) for place, text in drawn(app._tree) if any(map(text.count, RAW))]
    assert shown or page in ("learn", "training")
    assert [(place, text) for place, text in shown if place not in PLAIN] == []


@pytest.fixture(scope="module")
def hostile_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of which has a name that is markup."""
    scratch, root = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("hostile")
    tiny_run.make_run(scratch, "bpe")
    base = open_trained_run("bpe", root=scratch)
    for name in (NAME, "other"):
        make_hostile_run(root / name, base)
    return root


@every_page
def test_texts_of_runs_and_links_are_no_markup(
    start_page: Start, hostile_root: Path, page: str, address: dict[str, str]
) -> None:
    asked = dict.fromkeys(("layer", "measure", "at", "second", "sample", "other_run"), SAID)
    typed = dict.fromkeys(("q", "target", "own_reference"), SAID)
    app = start_page(page, hostile_root, run=NAME, **typed, **asked, **address)
    assert_no_markup(app, page)
    assert any("address has" in warning.value for warning in app.warning)


@pytest.fixture(scope="module")
def hostile_model(measured: Folders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a T5 of which all tokens of three letters or more are markup."""
    folder = shutil.copytree(measured("t5"), tmp_path_factory.mktemp("tokens") / "t5")
    for path in folder.rglob("tokenizer*.json"):
        text = path.read_text()
        if path.name == "tokenizer.json":
            pieces = [piece for piece, _ in json.loads(text)["model"]["vocab"] if len(piece) > 2]
        for piece in pieces:
            text = text.replace(json.dumps(piece), json.dumps(piece + TOKEN))
            text = text.replace(json.dumps(piece, ensure_ascii=False), json.dumps(piece + TOKEN))
        path.write_text(text)
    return folder


@every_page
def test_texts_of_tokens_are_no_markup(
    start_model: Start, hostile_model: Path, page: str, address: dict[str, str]
) -> None:
    asked = {"below": "steps", "section": "similarity", "measure": "end", "heads_order": TOKEN}
    assert_no_markup(start_model(page, hostile_model, **asked, **address), page)


def test_a_name_in_a_formula_is_text() -> None:
    assert escape_latex("</s>") == "</s>"
    assert escape_latex("\\a_{b}$") == r"\char92{}a\char95{}\char123{}b\char125{}\char36{}"


def test_a_text_stays_in_its_paragraph() -> None:
    assert escape_markdown("a \n\n    b\r\n# c\t\nd") == r"a b \# c d"
    assert escape_markdown("\t    a b  c ") == " a b  c "
