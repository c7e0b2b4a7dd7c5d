"""Addresses that no link of the app has, on every page, and what must hold of them.

A value that cannot be used is said to be so, and the page is drawn as without it; no file is opened
but those of runs, of the program and of what it is made of.
"""

from __future__ import annotations

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

from benchmarks.tiny import STEP, make_run
from model.checkpoint import load_weights, open_run, save_weights
from viz_app.views.address import is_finite

ROOT = Path(__file__).resolve().parents[1]
Value = str | list[str]

NASTY: tuple[Value, ...] = (
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
"""Of these, no widget takes any but numbers a number."""
TEXTS = ("q", "target")
"""Parameters that take any text."""
SEVERAL = ("off", "lines_of", "beside")
"""Those that take several values."""


@dataclass(frozen=True)
class Page:
    """A page, what its address must have for its widgets to be there, and what they are bound to.

    Fragments of pages that are drawn only when they are opened are left out.
    """

    module: str
    bound: str
    needed: Mapping[str, str]

    @property
    def parameters(self) -> list[str]:
        """What may be asked of it, but for what it needs."""
        return [*_FRAME, *(name for name in self.bound.split() if name not in self.needed)]


_FRAME = ("run", "step", "q")
_TARGET = "decoding target"
_HEAD = "kind layer head"
PAGES = (
    Page("translate", f"{_TARGET} units rows special compare {_HEAD} show cells view off rank", {}),
    Page(
        "translate",
        f"beam renormalised second {_HEAD}",
        {"decoding": "beam", "special": "false", "compare": "true", "view": "lines"},
    ),
    Page("translate", "lines_of", {"view": "lines"}),
    Page("inside", f"{_TARGET} {_HEAD}", {}),
    Page("flow", f"{_TARGET} unfold", {}),
    Page("embeddings", f"{_TARGET} room side", {}),
    Page("embeddings", "similarity_of among least", {"room": "similarity"}),
    Page("embeddings", "projection_by colour", {"room": "projection"}),
    Page("training", "training steps_axis loss_axis beside", {}),
    Page("training", "samples_by", {"training": "translations"}),
    Page(
        "training",
        f"shared units other_run other_step {_HEAD} overview unpaired other_layer other_head",
        {"training": "compare"},
    ),
    Page("training", f"target units playing {_HEAD}", {"training": "play", "shared": "your own"}),
    Page("training", f"measure matrix_rows {_HEAD}", {"training": "heads"}),
    Page("training", "side", {"training": "embeddings"}),
    Page("heads", f"measure heads_kind heads_order heads_least failure {_HEAD}", {}),
)


def make_runs(root: Path) -> None:
    """Two runs of the same languages, of three checkpoints each, the last one measured."""
    for kind, steps in (("bpe", (5, 10)), ("word", (5, 15))):
        folder = make_run(root, kind)
        model = load_weights(open_run(kind, root=root), STEP).model
        for step in steps:
            save_weights(folder, model, run=kind, step=step)


def _script(module: str) -> None:
    from importlib import import_module

    from viz_app.views import frame
    from viz_app.views._widgets import note_address

    selection = frame.select()
    if selection is not None:
        import_module(f"viz_app.views.{module}").page(selection)
    note_address()


def check(page: Page, asked: Mapping[str, Value], root: Path) -> str:
    """Open a page at an address, on the runs of a folder; what it says of that.

    Raises:
        AssertionError: where something does not hold.
    """
    app = AppTest.from_function(_script, default_timeout=300, args=(page.module,))
    for name, value in {**page.needed, **asked}.items():
        app.query_params[name] = value
    with _only_own_files(root):
        app.run()
    assert [each.value for each in app.exception] == []
    notes = "\n".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", each.value) for each in app.warning)
    for name, value in asked.items():
        if value in NASTY and not _usable(name, value) and name in app.session_state:
            assert f" {name}=" in notes, (name, value, notes)
    return notes


def _usable(name: str, value: Value) -> bool:
    values = [value] if isinstance(value, str) else value
    if name in TEXTS:
        return len(set(values)) == 1
    return name == "heads_least" and len(set(values)) == 1 and is_finite(values[0])


_opened: list[str] | None = None


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event in ("open", "os.listdir", "os.scandir"):
        path = arguments[0]
        if isinstance(path, str | bytes | os.PathLike):
            _opened.append(os.fsdecode(path))


sys.addaudithook(_hear)


@contextmanager
def _only_own_files(root: Path) -> Iterator[None]:
    """Assert that no file is opened but those of runs, the program and what it is made of."""
    global _opened
    own = (root, ROOT, Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()))
    system = tuple(Path(folder) for folder in ("/proc", "/sys", "/dev", "/usr/share"))
    kept = os.environ.get("HEADWISE_CHECKPOINTS")
    os.environ["HEADWISE_CHECKPOINTS"] = str(root)
    _opened = []
    try:
        yield
        paths = {Path(path).resolve() for path in _opened}
    finally:
        _opened = None
        os.environ.pop("HEADWISE_CHECKPOINTS")
        if kept is not None:
            os.environ["HEADWISE_CHECKPOINTS"] = kept
    others = [p for p in paths if not any(p.is_relative_to(f.resolve()) for f in (*own, *system))]
    assert others == [], f"opened: {others}"
    assert not any("passwd" in str(path) for path in paths)


def nasty(page: Page, first: int) -> dict[str, Value]:
    """A value that cannot be used for each parameter of a page; texts that can, for the others."""
    values: Sequence[Value] = [*NASTY[first:], *NASTY[:first]]
    asked = {name: values[i % len(values)] for i, name in enumerate(page.parameters)}
    return asked | {name: f"{name} <b>\x00 $x$" for name in TEXTS if name in asked}


ADDRESSES = st.sampled_from(PAGES).flatmap(
    lambda page: st.tuples(
        st.just(page),
        st.dictionaries(st.sampled_from(page.parameters), st.sampled_from(NASTY), min_size=1),
    )
)
"""A page, and what is asked of it."""
