"""The page says which values of an address cannot be used, and does nothing else with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.viz_app.views.state import CHOICES, parameter_of
from tests.robustness import addresses

ELSEWHERE = {"pictures", "printed", "from", "to", "task"}
"""Parameters of widgets in a menu that is drawn when it is opened, or of models of others."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    addresses.make_runs(folder)
    return folder


def test_every_parameter_is_asked_for_on_some_page() -> None:
    asked = {name for page in addresses.PAGES for name in (*page.parameters, *page.needed)}
    every = set(map(parameter_of, CHOICES))
    assert asked == every - ELSEWHERE


@pytest.mark.parametrize("number", range(len(addresses.PAGES)))
def test_unusable_values_are_named_and_no_other_file_is_opened(number: int, root: Path) -> None:
    page = addresses.PAGES[number]
    assert addresses.check(page, addresses.unusable_values(page, number), root)


def test_the_note_names_the_value_and_what_is_shown_instead(root: Path) -> None:
    asked = {"layer": "9", "kind": "<b>\x00", "head": ["1", "2"], "step": "15", "run": "none"}
    assert addresses.check(addresses.PAGES[0], asked | {"q": "Where?"}, root).splitlines() == [
        "- The address has run=none, which cannot be used here. Run: bpe.",
        "- The address has step=15, which cannot be used here. Checkpoint, by training step: 20.",
        "- The address has kind=<b>\\u0000, which cannot be used here. Attention: Cross.",
        "- The address has layer=9, which cannot be used here. Layer: 2.",
        "- The address has head=1 and head=2, which cannot be used here. Head: 1.",
    ]


def test_usable_values_are_not_named(root: Path) -> None:
    good = {"layer": "1", "kind": "cross", "special": "FALSE", "step": "10", "run": "bpe"}
    several = {"off": ["cross.1.1", "cross.2.3"], "q": "Where?", "target": "<b>"}
    assert addresses.check(addresses.PAGES[0], good | several, root) == ""


def test_what_a_person_chooses_after_that_is_never_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run has no step 10, which the address still asks for then."""
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(root))
    asked = {"run": "bpe", "step": "10", "layer": "1", "q": "Where?"}
    app = addresses.open_page(addresses.PAGES[0], asked)
    app.selectbox(key="run").set_value("word").run()
    assert app.session_state["session"].view.step == 20
    assert [each.value for each in app.warning] == []


def test_an_address_of_ten_thousand_letters_is_a_sentence_that_is_too_long(root: Path) -> None:
    assert addresses.check(addresses.PAGES[0], {"q": "x" * 10_000}, root) == ""
