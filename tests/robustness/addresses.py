"""Open every page at addresses that no link of the app has, and check what happens.

The page must say which values cannot be used and be drawn as without them. It must open no files
but those of the runs, of the program and of its packages.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.viz_app.views.state import CHOICES
from tests.robustness.tiny_run import STEP, make_run

ROOT = Path(__file__).resolve().parents[2]
Value = str | list[str]

UNUSABLE: tuple[Value, ...] = (
    "../../../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "\x00\x1b\r\n",
    "9" * 5_000,
    "-99",
    "NaN",
    "1e400",
    "٣",
    "²",
    "<img src=x onerror=alert(1)>",
    "$x$ **b** `c` :red[d] %{z}",
    "x" * 10_000,
    "None",
    ["7.5", "[]"],
    ["/etc/passwd"] * 3,
)
"""Values that no widget takes; only a widget for numbers may take those that are numbers."""
TEXTS = ("q", "target", "own_reference", "fork", "token")
"""Parameters that take any text."""
_SEVERAL_TEXTS = ("searched", "pair_tokens", "lessons")
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
    Page("translate", "beam hypothesis", {"decoding": "beam"}),
    Page("inside", f"{_TARGET} {_HEAD}", {}),
    Page("embeddings", f"{_TARGET} side", {}),
    Page("training", f"units {_HEAD}", {"training": "compare"}),
    Page("training", f"target units {_HEAD}", {"training": "play", "shared": "own"}),
    Page("training", f"measure {_HEAD}", {"training": "heads"}),
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


def make_runs(root: Path) -> None:
    """Write two runs with the same languages and three checkpoints each, the last one measured."""
    for kind, steps in (("bpe", (5, 10)), ("word", (5, 15))):
        folder = make_run(root, kind)
        model = load_weights(open_trained_run(kind, root=root), STEP).model
        for step in steps:
            save_weights(folder, model, run=kind, step=step)


def _script(module: str) -> None:
    from importlib import import_module

    from headwise.viz_app.views.shared import frame
    from headwise.viz_app.views.shared.errors import show_user_errors
    from headwise.viz_app.views.shared.view import note_unread, write_address

    selection = frame.select(module)
    if selection is not None:
        with show_user_errors():
            import_module(f"headwise.viz_app.views.{module}.page").page(selection)
    note_unread()
    write_address()


def open_page(page: Page, asked: Mapping[str, Value]) -> AppTest:
    """Open a page at an address with what it needs and these parameters."""
    app = AppTest.from_function(_script, default_timeout=300, args=(page.module,))
    for name, value in {**page.needed, **asked}.items():
        app.query_params[name] = value
    return app.run()


def check(page: Page, asked: Mapping[str, Value], root: Path) -> str:
    """Open a page at an address, on the runs of a folder; return its warnings.

    Raises:
        AssertionError: if something does not hold.
    """
    with _only_own_files(root):
        app = open_page(page, asked)
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
    return name in _SEVERAL_TEXTS or (name == "heads_least" and _is_finite(values))


def _is_finite(values: Sequence[str]) -> bool:
    try:
        return len(set(values)) == 1 and math.isfinite(float(values[0]))
    except ValueError:
        return False


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
    own = (root, ROOT, Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()))
    system = tuple(Path(folder) for folder in ("/proc", "/sys", "/dev", "/usr/share"))
    before = os.environ.get("HEADWISE_CHECKPOINTS")
    os.environ["HEADWISE_CHECKPOINTS"] = str(root)
    _opened = []
    try:
        yield
        paths = {Path(path).resolve() for path in _opened}
    finally:
        _opened = None
        os.environ.pop("HEADWISE_CHECKPOINTS")
        if before is not None:
            os.environ["HEADWISE_CHECKPOINTS"] = before
    others = [p for p in paths if not any(p.is_relative_to(f.resolve()) for f in (*own, *system))]
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
