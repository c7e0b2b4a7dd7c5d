"""The page says which values of an address it cannot use, and does nothing else with them.

It is drawn as without them, and opens no files but those of the runs, of the program and of its
packages.
"""

from __future__ import annotations

import mimetypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.viz_app.session.state import CHOICES, parameter_of
from tests.imports import ROOT
from tests.robustness.outcomes import outcomes_of
from tests.robustness.tiny_run import STEP, make_run
from tests.viz_app.pages.driver import open_page

Value = str | list[str]

UNUSABLE: tuple[Value, ...] = (
    *("../../../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "\x00\x1b\r\n"),
    *("9" * 5_000, "-99", "NaN", "1e400", "٣", "²", "None", "x" * 10_000),
    *("<img src=x onerror=alert(1)>", "$x$ **b** `c` :red[d] %{z}"),
    *(["7.5", "[]"], ["/etc/passwd"] * 3),
)
"""Values that no widget takes; only a widget for numbers may take those that are numbers."""
TEXTS = (
    *("q", "target", "own_reference", "fork", "token", "instead"),
    *("other", "in_its_place", "first_word", "second_word", "dictionary_words", "found_token"),
)
"""Parameters that take any text."""
SEVERAL_TEXTS = ("searched", "pair_tokens", "lessons")
"""Parameters that take any number of texts."""


@dataclass(frozen=True)
class Page:
    """A page, the parameters its widgets are bound to, and those that make it show these widgets.

    Widgets in menus, which are drawn only when the menu is opened, are left out.
    """

    module: str
    bound: str
    needed: Mapping[str, str]

    @property
    def parameters(self) -> list[str]:
        """The parameters its address may have, without those in ``needed``."""
        return [*_FRAME, *(name for name in self.bound.split() if name not in self.needed)]


_FRAME = ("run", "step", "q")
_TARGET = "decoding target"
_HEAD = "kind layer head"
_OF_SEVERAL = (
    Page("translate", f"{_TARGET} units {_HEAD}", {}),
    Page("translate", "at column", {"below": "steps"}),
    Page("translate", "off", {"below": "off"}),
    Page("why", f"{_TARGET} at column instead {_HEAD}", {}),
    Page("translate", "beam hypothesis", {"decoding": "beam"}),
    Page("inside", f"{_TARGET} {_HEAD}", {}),
    Page("model", f"{_TARGET} side", {"section": "input"}),
    Page("training", f"units {_HEAD}", {"training": "compare"}),
    Page("training", f"target units {_HEAD}", {"training": "watch", "shared": "own"}),
    Page("training", f"measure {_HEAD}", {"training": "heads"}),
    Page("errors", "steps_axis", {"errors": "pairs"}),
    Page("learn", "lesson lessons", {}),
    Page("translate", "lesson_step lesson_answer", {"lesson": "rows"}),
    Page("inside", "factor lesson_answer", {"lesson": "scale"}),
    Page("heads", f"measure {_HEAD}", {}),
)
"""Pages with choices that several pages share."""


def _of_one_page() -> Iterator[Page]:
    """Yield pages with the choices that each of them alone has, as its folder declares them."""
    places: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for name, each in CHOICES.items():
        if each.page:
            # Only another run has other heads.
            other_run = {"other_run": "word"} if "unpaired" in (name, *each.where) else {}
            where = tuple({**each.where, **other_run}.items())
            places.setdefault((each.page, where), []).append(name)
    for (page, where), names in places.items():
        yield Page(page, " ".join(names), dict(where))


PAGES = (*_OF_SEVERAL, *_of_one_page())


def opened(
    page: Page, asked: Mapping[str, Value], root: Path, patch: pytest.MonkeyPatch
) -> AppTest:
    """Open a page at an address with what it needs and these parameters."""
    return open_page(page.module, root, patch, {**page.needed, **asked})


def check(page: Page, asked: Mapping[str, Value], root: Path) -> str:
    """Open a page at an address, on the runs of a folder; return its warnings."""
    with _only_own_files(root), pytest.MonkeyPatch.context() as patch:
        app = opened(page, asked, root, patch)
    assert [each.value for each in app.exception] == []
    notes = "\n".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", each.value) for each in app.warning)
    for name, value in asked.items():
        if value in UNUSABLE and not _usable(name, value):
            assert f" {name}=" in notes, (name, value, notes)
    return notes


def _usable(name: str, value: Value) -> bool:
    values = [value] if isinstance(value, str) else value
    if name in TEXTS:
        return len(set(values)) == 1
    return name in SEVERAL_TEXTS or (name == "heads_least" and value in ("-99", "٣"))


_opened: list[str] | None = None


def _record_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event in ("open", "os.listdir", "os.scandir"):
        path = arguments[0]
        if isinstance(path, str | bytes | os.PathLike):
            _opened.append(os.fsdecode(path))


sys.addaudithook(_record_opened)


@contextmanager
def _only_own_files(root: Path) -> Iterator[None]:
    """Assert that no file is opened but those of runs, the program and its packages."""
    global _opened
    own = (root, ROOT, sys.prefix, sys.base_prefix, tempfile.gettempdir(), *mimetypes.knownfiles)
    folders = [Path(each).resolve() for each in (*own, "/proc", "/sys", "/dev", "/usr/share")]
    _opened = []
    try:
        yield
        paths = {Path(path).resolve() for path in _opened}
    finally:
        _opened = None
    others = [path for path in paths if not any(path.is_relative_to(each) for each in folders)]
    assert others == [], f"opened: {others}"
    assert not any("passwd" in str(path) for path in paths)


def unusable_values(page: Page, first: int) -> dict[str, Value]:
    """Choose an unusable value for each parameter of a page, and a text for those that take any."""
    values: Sequence[Value] = [*UNUSABLE[first:], *UNUSABLE[:first]]
    asked = {name: values[i % len(values)] for i, name in enumerate(page.parameters)}
    return asked | {name: f"{name} <b>\x00 $x$" for name in TEXTS if name in asked}


ADDRESSES = st.sampled_from(PAGES).flatmap(
    lambda page: st.tuples(
        st.just(page),
        st.dictionaries(st.sampled_from(page.parameters), st.sampled_from(UNUSABLE), min_size=1),
    )
)
"""A page, and parameters of its address."""

ELSEWHERE = {"pictures", "paper", "printed", "from", "to", "task"}
"""Parameters of widgets in a menu that is drawn when it is opened, or of models of others."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same languages and three checkpoints each, the last one measured."""
    root = tmp_path_factory.mktemp("runs")
    for kind, steps in (("bpe", (5, 10)), ("word", (5, 15))):
        folder = make_run(root, kind)
        model = load_weights(open_trained_run(kind, root=root), STEP).model
        for step in steps:
            save_weights(folder, model, run=kind, step=step)
    return root


def test_every_parameter_is_asked_for_on_some_page() -> None:
    asked = {name for page in PAGES for name in (*page.parameters, *page.needed)}
    every = set(map(parameter_of, CHOICES))
    assert asked == every - ELSEWHERE


@pytest.mark.parametrize("number", range(len(PAGES)))
def test_unusable_values_are_named_and_no_other_file_is_opened(number: int, root: Path) -> None:
    page = PAGES[number]
    assert check(page, unusable_values(page, number), root)


def test_any_of_them_together_are_named_too(root: Path) -> None:
    def outcome(case: tuple[Page, dict[str, Value]]) -> str:
        return "named" if check(*case, root) else "used"

    assert outcomes_of(outcome, ADDRESSES, share=0.2)["named"] > 0


def test_the_note_names_the_value_and_what_is_shown_instead(root: Path) -> None:
    asked = {"layer": "9", "kind": "<b>\x00", "head": ["1", "2"], "step": "15", "run": "none"}
    assert check(PAGES[0], asked | {"q": "Where?"}, root).splitlines() == [
        "- The address has run=none, which cannot be used here. Run: bpe.",
        "- The address has step=15, which cannot be used here. Checkpoint: 20.",
        "- The address has kind=<b>\\u0000, which cannot be used here. Attention: Cross.",
        "- The address has layer=9, which cannot be used here. Layer: 2.",
        "- The address has head=1 and head=2, which cannot be used here. Head: 1.",
    ]


def test_usable_values_are_not_named(root: Path) -> None:
    good = {"layer": "1", "kind": "cross", "special": "FALSE", "step": "10", "run": "bpe"}
    several = {"off": ["cross.1.1", "cross.2.3"], "q": "Where?", "target": "<b>"}
    assert check(PAGES[0], good | several, root) == ""
    assert check(PAGES[0], {"q": "x" * 10_000}, root) == ""  # a sentence that is too long


def test_what_a_person_chooses_after_that_is_never_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run has no step 10, which the address still asks for then."""
    asked = {"run": "bpe", "step": "10", "layer": "1", "q": "Where?"}
    app = opened(PAGES[0], asked, root, monkeypatch)
    app.selectbox(key="run").set_value("word").run()
    assert app.session_state["session"].view.step == 20
    assert [each.value for each in app.warning] == []
