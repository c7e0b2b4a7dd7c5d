"""What is kept in a process: bounded, and each checkpoint read once, however many ask for it."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import streamlit as st

from model.checkpoint import Checkpoint, Run, load_weights
from viz_app.views import _session

ROOT = Path(__file__).resolve().parents[3]
CACHES = {"cache_data", "cache_resource", "lru_cache", "cache"}
BOUNDS = {"max_entries", "maxsize"}


def name_of(decorator: ast.expr) -> str:
    """The last name of ``a.b.name`` and of ``a.b.name(…)``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def unbounded(source: str) -> list[str]:
    """Functions whose cache can grow without end: they have arguments, and it has no bound."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = node.args
        has_arguments = any(
            [given.args, given.posonlyargs, given.kwonlyargs, given.vararg, given.kwarg]
        )
        for decorator in node.decorator_list:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            bounded = any(
                k.arg in BOUNDS and isinstance(k.value, ast.Constant) and k.value.value is not None
                for k in keywords
            )
            if name_of(decorator) in CACHES and has_arguments and not bounded:
                found.append(node.name)
    return found


def test_every_cache_of_the_app_is_bounded() -> None:
    sources = {path: path.read_text("utf-8") for path in (ROOT / "viz_app").rglob("*.py")}
    assert sum("cache_resource(" in source for source in sources.values()) > 3
    assert {path.name: names for path, text in sources.items() if (names := unbounded(text))} == {}


@pytest.mark.parametrize(
    ("decorator", "arguments", "expected"),
    [
        ("@st.cache_data", "x", ["f"]),
        ("@st.cache_resource(show_spinner=False)", "x", ["f"]),
        ("@st.cache_resource(max_entries=None)", "*x", ["f"]),
        ("@cache", "*, x", ["f"]),
        ("@st.cache_resource(max_entries=8)", "x", []),
        ("@st.cache_resource(show_spinner=False)", "", []),
        ("@other", "x", []),
    ],
)
def test_an_unbounded_cache_is_seen(decorator: str, arguments: str, expected: list[str]) -> None:
    assert unbounded(f"{decorator}\ndef f({arguments}): ...") == expected


def test_a_checkpoint_is_read_once_however_many_ask_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(run: Run, step: int) -> Checkpoint:
        read.append(step)
        return load_weights(run, step)

    monkeypatch.setattr(_session, "load_weights", counted)
    st.cache_resource.clear()
    together = Barrier(8)

    def ask(_: int) -> Checkpoint:
        together.wait()
        return _session.checkpoint_of(run, run.steps()[-1])

    with ThreadPoolExecutor(8) as threads:
        checkpoints = list(threads.map(ask, range(8)))
    assert read == [run.steps()[-1]]
    assert len({id(checkpoint.model) for checkpoint in checkpoints}) == 1
