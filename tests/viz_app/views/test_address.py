"""Addresses with values that no link of the app has: said, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[3]
OPENED = {"pictures"}
"""Bound to the address too, but drawn only when a menu is opened."""


@pytest.fixture(scope="module")
def addresses() -> SimpleNamespace:
    """A module of ``benchmarks/``, which is no installed package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        from benchmarks import addresses

        return addresses


@pytest.fixture(scope="module")
def root(addresses: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    addresses.make_runs(folder)
    return folder


def bound_keys() -> set[str]:
    """Keys of all widgets that are bound to the address, as they stand in the pages."""
    keys = set()
    for path in (ROOT / "viz_app" / "views").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if "bind" in given or getattr(call.func, "id", "") == "choose_one":
                assert isinstance(given["key"], ast.Constant | ast.Name)
                keys |= {given["key"].value} if isinstance(given["key"], ast.Constant) else set()
    return keys


def test_every_parameter_is_asked_for_on_some_page(addresses: SimpleNamespace) -> None:
    asked = {name for page in addresses.PAGES for name in (*page.parameters, *page.needed)}
    assert asked - {"q", "step"} == bound_keys() - OPENED


@pytest.mark.parametrize("number", range(15))
def test_what_cannot_be_used_is_said_and_nothing_else_is_opened(
    number: int, addresses: SimpleNamespace, root: Path
) -> None:
    page = addresses.PAGES[number]
    assert addresses.check(page, addresses.nasty(page, number), root)


def test_there_is_a_test_of_each_page(addresses: SimpleNamespace) -> None:
    assert len(addresses.PAGES) == 15


def test_the_note_names_the_value_and_what_is_shown_instead(
    addresses: SimpleNamespace, root: Path
) -> None:
    asked = {"layer": "9", "kind": "<b>\x00", "head": ["1", "2"], "step": "15", "run": "none"}
    assert addresses.check(addresses.PAGES[3], asked | {"q": "Where?"}, root).splitlines() == [
        "- The address has run=none, which cannot be used here. Run: bpe.",
        "- The address has step=15, which cannot be used here. Checkpoint: 20.",
        "- The address has kind=<b>\\u0000, which cannot be used here. Attention: Cross.",
        "- The address has layer=9, which cannot be used here. Layer: 2.",
        "- The address has head=1 and head=2, which cannot be used here. Head: 1.",
    ]


def test_what_can_be_used_is_not_said(addresses: SimpleNamespace, root: Path) -> None:
    good = {"layer": "1", "kind": "Cross", "special": "FALSE", "step": "10", "run": "bpe"}
    several = {"off": ["Cross 1.1", "Cross 2.3"], "q": "Where?", "target": "<b>"}
    assert addresses.check(addresses.PAGES[0], good | several, root) == ""


def test_what_a_person_chose_is_never_said(
    addresses: SimpleNamespace, start_page: Callable[..., AppTest], root: Path
) -> None:
    """Another run has no step 10, and the address is behind."""
    app = start_page("translate", root, run="bpe", step="10", layer="1", q="Where?")
    app.selectbox(key="run").set_value("word").run()
    assert app.session_state["step"] == 20
    assert [each.value for each in app.warning] == []


def test_an_address_of_ten_thousand_letters_is_a_sentence_that_is_too_long(
    addresses: SimpleNamespace, root: Path
) -> None:
    assert addresses.check(addresses.PAGES[0], {"q": "x" * 10_000}, root) == ""
