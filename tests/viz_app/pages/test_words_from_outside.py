"""Words from outside are no markup on any page: names of runs, links, files, tokens, errors.

Whatever is new in Streamlit counts as Markdown, in menus and helps that are shut as well.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import tyro

from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.session.markdown import escape_latex, escape_markdown
from headwise.viz_app.session.state import CHOICES, decode, parameter_of
from tests.imports import DRAWN, ROOT
from tests.robustness.hostile_run import NAME, SAID, make_hostile_run
from tests.viz_app.conftest import ENGLISH, SPANISH
from tests.viz_app.pages.driver import DOG, Page, Start, drawn, every_page, field_of, unescaped

TRACED = {"translate", "inside", "why", "model", "translations", "compare", "watch", "embeddings"}
"""Pages, and sections of Training, that send the sentence through the model."""
RANKED = {"below": "off", "rank": "true", "ablation": "mean"}
TOKEN = "$y$ :red[x] `c` https://h.example [a](http://x) :material/kitesurfing: } \\color{red}"
"""What each token of a vocabulary ends with, in test_pretrained.py."""
RAW = re.compile(
    r"https://|\]\((?!#)|:red\[|:material/kitesurfing|\*\*b\*\*|\$x\^2\$|\$y\$|(?<!\\)<img|\\color\{"
)
"""Markup of these texts that escaping would have changed."""
PLAIN = {
    *("Text.body", "Html.body", "Code.code_text", "BidiComponent.json"),
    *("PlotlyChart.spec", "PlotlyChart.config", "PlotlyChart.alt"),
    *("Selectbox.options", "Selectbox.raw_value", "MultiSelect.options", "MultiSelect.raw_values"),
    *("TextArea.default", "TextInput.default", "TextInput.value", "TextInput.placeholder"),
}
"""Where Streamlit draws a text as it is, or another program does."""


def words_shown(app: Page) -> list[str]:
    """Return the texts of a page that hold markup from outside; none may be where it is one."""
    shown = [(place, text) for place, text in drawn(app._tree) if RAW.search(text)]
    assert [(place, text) for place, text in shown if place not in PLAIN] == []
    assert not [body for body in app.markup() if "<img src=x" in body]
    return [text for _, text in shown]


@pytest.fixture(scope="module")
def measured_root(unequal_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with its heads measured."""
    folder = tmp_path_factory.mktemp("measured")
    root = shutil.copytree(unequal_root, folder / "checkpoints")
    pairs = zip(ENGLISH, SPANISH, strict=True)
    lines = [json.dumps({"en": source, "es": target}) for source, target in pairs]
    (folder / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    line = ["--run", "tiny", "--data", str(folder / "data.jsonl"), "--checkpoints", str(root)]
    main(tyro.cli(MeasureArguments, args=line))
    return root


@pytest.fixture(scope="module")
def hostile_root(measured_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 3 + 2 layers, one of which has a name that is markup."""
    base, root = open_trained_run("tiny", root=measured_root), tmp_path_factory.mktemp("hostile")
    for name in (NAME, "other"):
        make_hostile_run(root / name, base)
    return root


@every_page
def test_every_page_is_drawn_from_a_read_only_folder_of_texts_that_are_no_markup(
    start_page: Start,
    hostile_root: Path,
    read_only: Callable[[Path], AbstractContextManager[list[str]]],
    page: str,
    address: dict[str, str],
) -> None:
    """And sentences may be odd."""
    asked = dict.fromkeys(("layer", "measure", "at", "second", "sample", "other_run"), SAID)
    typed = dict.fromkeys(("q", "target", "own_reference"), SAID) | {"shared": "own"}
    with read_only(hostile_root) as refused:
        app = start_page(page, hostile_root, run=NAME, **typed, **asked, **address, rank="true")
        assert words_shown(app) or page in ("learn", "training", "heads", "errors")
        assert app.errors == []
        assert any("address has" in warning for warning in app.warnings)

        app.choose(sentence="the" + " the" * 400)
        assert all("at most 401" in error and "shorten" in error for error in app.errors)
        # What feeds what has a path in the sentence; the heads of Training are over a corpus.
        traced = "feeds" in address.values() or bool({page, *address.values()} & TRACED)
        assert bool(app.errors) is traced
        app.choose(sentence=" ")
        (invitation,) = app.info
        assert invitation.value == "Type a sentence above and press Enter."
        assert not app.charts
        app.choose(sentence=DOG)
        if "kind" in map(field_of, app.segmented_control):
            app.choose(kind="encoder_self").choose(layer=3)
    assert refused == []


TEXTS = [
    (page, each.name)
    for each in CHOICES.values()
    if each.name not in decode({parameter_of(each.name): [SAID]})[1]
    for page in each.on
]
"""Each choice that may be any text, and a page that shows it."""


@pytest.mark.parametrize(("page", "name"), TEXTS)
def test_what_a_link_has_for_a_choice_is_no_markup(
    start_page: Start, hostile_root: Path, page: str, name: str
) -> None:
    """Where its widget is found, so that messages about it are shown."""
    where = {parameter_of(at): SAID if of == "?" else of for at, of in CHOICES[name].where.items()}
    app = start_page(page, hostile_root, run=NAME, q=SAID, **where, **{parameter_of(name): SAID})
    assert words_shown(app)
    assert len(app.errors) <= 1


@pytest.mark.parametrize(
    ("name", "page", "address"),
    [
        ("measures/step-0000020.json", "heads", {}),
        ("measures/pairs.json", "errors", {"errors": "pairs"}),
        ("measures/step-0000020.costs.safetensors", "heads", {}),
        ("measures/step-0000020.means.safetensors", "translate", RANKED),
        ("measures/neurons-0000020.safetensors", "why", {"feed_forward": "1", "neuron": "1"}),
        ("step-0000020.safetensors", "translate", {}),
    ],
)
def test_errors_of_files_are_no_markup(
    start_page: Start,
    hostile_root: Path,
    tmp_path: Path,
    name: str,
    page: str,
    address: dict[str, str],
) -> None:
    root = shutil.copytree(hostile_root, tmp_path / "runs")
    (root / NAME / name).write_text(json.dumps({"version": SAID}))
    app = start_page(page, root, run=NAME, q=DOG, **address)
    words_shown(app)
    told = [*app.errors, *app.warnings, *(caption.value for caption in app.caption)]
    assert any(Path(name).name in unescaped(text) for text in told), told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** [b](c)", r"\*\*a\*\* \[b\]\(c\)"),
        ("$x$ :red[d] a: b", "\\$x\\$ \\:\u2060red\\[d\\] a\\: b"),
        ("https://h WWW.h a@h", "https\\:\u2060\\/\\/h W\u2060WW\\.h a\\@\u2060h"),
        ("<b>&lt;", r"\<b\>\&lt\;"),
        ("1. niña\\", r"1\. niña\\"),
        ("a \n\n    b\r\n# c\t\nd", r"a b \# c d"),  # it stays in its paragraph
        ("\t    a b  c ", " a b  c "),
    ],
)
def test_escaped_markdown(text: str, expected: str) -> None:
    assert escape_markdown(text) == expected


def test_a_name_in_a_formula_is_text() -> None:
    assert escape_latex("</s>") == "</s>"
    assert escape_latex("\\a_{b}$") == r"\char92{}a\char95{}\char123{}b\char125{}\char36{}"


def test_an_error_that_a_page_catches_is_shown_by_one_function() -> None:
    """Its message may hold a link's text, a file's or a path: `describe_error` escapes them."""
    used = [
        f"{file}:{name.lineno}"
        for file in sorted(DRAWN)
        for handler in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        if isinstance(handler, ast.ExceptHandler) and handler.name
        for name in _uses(handler)
    ]
    assert used == []


DESCRIBING = {"describe_error", "show_error", "log_refusal", "log_failure", "_refuse"}
"""Functions that are given an error; ``_refuse`` of ``given.py`` describes and logs it."""


def _uses(handler: ast.ExceptHandler) -> Iterator[ast.Name]:
    """Yield where a handler uses its error otherwise than to describe, log, raise or return it."""
    allowed = set()
    for node in ast.walk(handler):
        match node:
            case ast.Call(func=ast.Name(function)) if function in DESCRIBING:
                allowed |= set(node.args)
            case ast.Raise(cause=ast.Name()):
                allowed.add(node.cause)
            case ast.Return(value=ast.Name()):
                allowed.add(node.value)
            case ast.Attribute(attr="strerror"):
                allowed.add(node.value)
    for node in ast.walk(handler):
        if isinstance(node, ast.Name) and node.id == handler.name and node not in allowed:
            yield node
