"""Drive a page that AppTest has drawn, and read it as people see it."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import ArrayLike
from streamlit import config
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.views.shared.opening import PageName
from headwise.viz_app.views.state import CHOICES, View
from tests.floats import OPERATIONS, assert_near, printed

APP = Path(__file__).resolve().parents[3] / "viz_app" / "app.py"
CATS, DOG = "The cats don't see the dog.", "Where is the old dog?"
"""The sample sentences of the run."""
CATS_TRANSLATED, DOG_TRANSLATED = "Los gatos no ven al perro.", "¿Dónde está el perro viejo?"
STEPS = (0, 20, 60)
WIDGETS = (
    *("text_area", "text_input", "segmented_control", "selectbox", "select_slider", "toggle"),
    *("multiselect", "slider", "number_input"),
)

# Streamlit's tests do not read this file.
for _name, _value in tomllib.loads((APP.parent / ".streamlit/config.toml").read_text())[
    "global"
].items():
    config.set_option(f"global.{_name}", _value)

OPENED = ("download-menu", "seen_below_maps")
"""A menu that is open, and a place that has been in sight: a browser says that of them."""

Start = Callable[..., AppTest]
Folders = Callable[..., Path]
SECTIONS: tuple[str, ...] = get_args(CHOICES["training"].kind)
PAGES: list[tuple[str, dict[str, str]]] = [
    *((page, {}) for page in get_args(PageName) if page != "training"),
    *(("training", {"training": section}) for section in SECTIONS),
]
"""Each page, and of the page Training each section."""
every_page = pytest.mark.parametrize(
    ("page", "address"), PAGES, ids=["-".join([page, *address.values()]) for page, address in PAGES]
)


def _script(page: str) -> None:
    from importlib import import_module

    from headwise.viz_app.views.shared import frame
    from headwise.viz_app.views.shared.errors import show_user_errors
    from headwise.viz_app.views.shared.view import note_unread, write_address

    selection = frame.select(page)
    if selection is not None:
        with show_user_errors():
            import_module(f"headwise.viz_app.views.{page}.page").page(selection)
    note_unread()
    write_address()


def open_page(
    page: str, root: Path, monkeypatch: pytest.MonkeyPatch, address: dict[str, str]
) -> AppTest:
    """Open a page by its module's name, or the whole app, on a folder of runs.

    Its menu of downloads is open, and all of it has been in sight. A page has a script of its own:
    Streamlit's tests can switch to file pages only.
    """
    if page == "app":
        app = AppTest.from_file(str(APP), default_timeout=60)
    else:
        app = AppTest.from_function(_script, default_timeout=60, args=(page,))
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(root))
    for key in OPENED:
        app.session_state[key] = True
    for key, value in address.items():
        app.query_params[key] = value
    return app.run()


def field_of(drawn: Any) -> str:
    """Return the field of the view that a widget shows, or the key of one that shows none."""
    return (drawn.key or "").rstrip()


def widget(app: AppTest, field: str) -> Any:
    """Return the widget of a field of the view."""
    found = [each for kind in WIDGETS for each in getattr(app, kind) if field_of(each) == field]
    assert len(found) == 1, f"{len(found)} widgets of {field}"
    return found[0]


def choose(app: AppTest, **choices: Any) -> AppTest:
    """Set widgets by their fields, all at once, and draw the page again."""
    for field, value in choices.items():
        widget(app, field).set_value(value)
    return app.run()


def traced(
    run: TrainedRun, text: str = CATS, *, step: int = 60, target: str | Sequence[int] | None = None
) -> Trace:
    """Return the trace that a page shows of a sentence at a step."""
    return run_trace(load_weights(run, step).model, run.tokenizers, text, target)


def log_probability(trace: Trace) -> float:
    """Return the log-probability of a whole target, in nats."""
    return float(trace.predictions.log_probability.sum())


def embedding_table(run: TrainedRun, side: str, *, step: int = 60) -> Floats:
    """Return the embeddings of the source's or the target's tokens, (V, D)."""
    model = load_weights(run, step).model
    stack = model.encoder if side == "source" else model.decoder
    table: Floats = stack.embedding.table.weight.numpy(force=True)
    return table


def break_file(path: Path) -> None:
    """Cut off the end of a file."""
    path.write_bytes(path.read_bytes()[:-100])


def break_lines(path: Path) -> Path:
    """Put a line that is not JSON before the others, and return the path."""
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def edit_json(path: Path, *place: str, **values: Any) -> None:
    """Set values of an object in a JSON file; ``place`` are the keys that lead to the object."""
    content = json.loads(path.read_text(encoding="utf-8"))
    inner = content
    for key in place:
        inner = inner[key]
    inner.update(values)
    path.write_text(json.dumps(content), encoding="utf-8")


def record_calls(
    patch: pytest.MonkeyPatch, name: str, *modules: ModuleType, draw: bool = False
) -> dict[str, dict[str, Any]]:
    """Collect what modules give to a component or chart, by its key; the newest of each key.

    A dictionary has the arguments by name, and those without one as "given". Nothing is drawn
    unless ``draw`` says so.
    """
    seen: dict[str, dict[str, Any]] = {}
    for module in modules:

        def keep(*given: Any, real: Any = getattr(module, name), **named: Any) -> None:
            seen[named["key"]] = {"given": given} | named
            if draw:
                real(*given, **named)

        patch.setattr(module, name, keep)
    return seen


def view_of(app: AppTest) -> View:
    """Return what a person has chosen."""
    view: View = app.session_state["session"].view
    return view


def address(app: AppTest) -> dict[str, str]:
    """Return the address's parameters; AppTest has each as a text or as a list of one."""
    asked: dict[str, str | list[str]] = dict(app.query_params)
    return {name: given if isinstance(given, str) else given[0] for name, given in asked.items()}


def warnings(app: AppTest) -> list[str]:
    """Return the warnings of a page."""
    return [unescaped(warning.value) for warning in app.warning]


def unescaped(markdown: str) -> str:
    """Return escaped Markdown as the text that it shows."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown).replace("\u2060", "")


def errors(app: AppTest) -> list[str]:
    """Return the error messages of a page, which must not have crashed."""
    assert not app.exception
    return [unescaped(error.value) for error in app.error]


def texts(app: AppTest) -> list[str]:
    """Return what ``st.text`` shows, markup or not."""
    return [element.value for element in app.text]


def captions(app: AppTest) -> str:
    """Return all captions of a page, joined."""
    return unescaped(" ".join(caption.value for caption in app.caption))


def html(app: AppTest, containing: str = "") -> list[str]:
    """Return what the page draws as HTML and contains a text."""
    bodies = [element.proto.body for element in app.get("html")]
    return [body for body in bodies if containing in body]


def texts_in(markup: str, tag: str) -> list[str]:
    """Return the texts of the elements of one kind in HTML."""
    found = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", markup, re.DOTALL)
    return [unescape(re.sub("<[^>]*>", "", text)).strip() for text in found]


def token_row(app: AppTest, side: str) -> list[dict[str, Any]]:
    """Return the tokens of the source or the target above the maps, each with its title."""
    drawn = [row.proto for row in app.get("bidi_component") if f"{side}_tokens" in row.proto.id]
    assert len(drawn) == 1, f"{len(drawn)} rows of the {side}"
    tokens: list[dict[str, Any]] = json.loads(drawn[0].json)[0]["tokens"]
    return tokens


def charts(app: AppTest) -> dict[str, Any]:
    """Return the figure of each chart by its key, in the order of the page."""
    found = app.get("plotly_chart")
    return {chart.proto.id.split("-", 2)[2]: json.loads(chart.proto.spec) for chart in found}


def array(written: Any) -> np.ndarray:
    """Return an array that Plotly has written as a list or in base 64."""
    if isinstance(written, list):
        return np.array(written)
    flat = np.frombuffer(base64.b64decode(written["bdata"]), written["dtype"])
    return flat.reshape([int(n) for n in str(written.get("shape", flat.size)).split(",")])


def cells(app: AppTest, key: str) -> np.ndarray:
    """Return the numbers of a heat map."""
    return array(charts(app)[key]["data"][0]["z"])


def assert_cells(
    app: AppTest, key: str, expected: ArrayLike, *, operations: int = OPERATIONS
) -> None:
    """Check the numbers of a heat map as ``assert_drawn`` does."""
    assert_drawn(cells(app, key), expected, operations=operations)


def assert_drawn(found: ArrayLike, expected: ArrayLike, *, operations: int = OPERATIONS) -> None:
    """Check weights, probabilities or a stream by those of another pass, of the same operations.

    Both passes add in the same order but for where their arrays begin in memory.
    """
    expected = np.asarray(expected)
    size = float(np.nanmax(np.abs(expected), initial=1))
    assert_near(found, expected, dtype=np.float32, size=size, operations=operations)


def shown(
    template: str, *numbers: float, size: float | None = None, operations: int = OPERATIONS
) -> tuple[str, ...]:
    """Return the texts by which a page may show numbers of another pass through the model."""
    return tuple(printed(template, *numbers, dtype=np.float32, size=size, operations=operations))
