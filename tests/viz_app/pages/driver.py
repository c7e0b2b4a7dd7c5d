"""Drive a page that AppTest has drawn, and read it as people see it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import ArrayLike
from streamlit import config
from streamlit.components.v2 import manifest_scanner
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.runtime.state.common import TESTING_KEY
from streamlit.testing.v1 import AppTest, app_test
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    load_weights,
    open_trained_run,
    save_weights,
    steps_of,
    tokenizer_sha256,
    weights_path,
)
from headwise.model.config import Counts
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.components.row_table import Cell, MarkedText
from headwise.viz_app.figures.matrix import MARK
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session import slices
from headwise.viz_app.session.state import CHOICES, View
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import OPERATIONS, assert_near, printed
from tests.viz_app.measures import made_up_measures

APP = Path(__file__).resolve().parents[3] / "viz_app" / "script.py"
CATS, DOG = "The cats don't see the dog.", "Where is the old dog?"
"""The sample sentences of the run."""
CATS_TRANSLATED, DOG_TRANSLATED = "Los gatos no ven al perro.", "¿Dónde está el perro viejo?"
STEPS = (0, 20, 60)
WIDGETS = (
    *("text_area", "text_input", "segmented_control", "selectbox", "select_slider", "toggle"),
    *("multiselect", "slider", "number_input"),
)

# Streamlit looks through all installed packages for components, anew for each page of a test.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
# Streamlit's tests do not read this file.
_options = tomllib.loads((APP.parent / ".streamlit/config.toml").read_text())
for _section in ("global", "browser"):
    for _name, _value in _options[_section].items():
        config.set_option(f"{_section}.{_name}", _value)

OPENED = ("download-menu", "seen_below_maps")
"""A menu that is open, and a place that has been in sight: a browser says that of them."""

Start = Callable[..., "Page"]
Folders = Callable[..., Path]
SECTIONED = ("inside", "training", "heads", "errors")
"""Pages whose choice of a section has the page's name."""


def _options(kind: Any) -> list[str]:
    """Return the texts of a ``Literal``, which may be one of several types."""
    options = [option for each in get_args(kind) for option in get_args(each) or (each,)]
    return [option for option in options if isinstance(option, str)]


_OF_MODEL: tuple[str, ...] = get_args(CHOICES["section"].kind)
_NAMES = {path.parent.name for path in APP.parent.glob("*/page.py")}
PAGES: list[tuple[str, dict[str, str]]] = [
    *((name, {}) for name in sorted(_NAMES.difference((*SECTIONED, "model")))),
    *(("model", {"section": section}) for section in _OF_MODEL),
    ("why", {"why": "two sentences", "other": DOG, "patching": "true", "attributed": "true"}),
    *((name, {name: section}) for name in SECTIONED for section in _options(CHOICES[name].kind)),
]
"""Each page, and of Model, Why and those in ``SECTIONED`` each section."""
every_page = pytest.mark.parametrize(
    ("page", "address"),
    PAGES,
    ids=["-".join([page, *[*address.values()][:1]]) for page, address in PAGES],
)


class _PanelRunner(LocalScriptRunner):
    """Draws a panel again by itself, as a browser asks for it, beside what was drawn before."""

    panel = ""
    drawn: Sequence[ForwardMsg] = ()

    def request_rerun(self, rerun_data: RerunData) -> bool:
        if self.panel:
            self.forward_msg_queue._queue = list(self.drawn)
            rerun_data = replace(rerun_data, fragment_id=self.panel)
        return super().request_rerun(rerun_data)


class Page(AppTest):
    """A page, or the whole app, that AppTest draws without a browser."""

    _panel = ""
    """The panel that is drawn again; empty: the whole page is."""
    _drawn: Sequence[ForwardMsg] = ()
    unread = False
    """Whether it was drawn with errors that nobody has looked at since."""

    @property
    def error(self) -> Any:
        """The error messages, which now are read."""
        self.unread = False
        return super().error

    @property
    def exception(self) -> Any:
        """What went wrong in the program, which now is read."""
        self.unread = False
        return super().exception

    def _run(self, *args: Any, **named: Any) -> Page:
        assert not self.unread, self.errors
        made: list[_PanelRunner] = []

        def make(*args: Any, **named: Any) -> _PanelRunner:
            made.append(_PanelRunner(*args, **named))
            made[0].panel, made[0].drawn = self._panel, self._drawn
            return made[0]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app_test, "LocalScriptRunner", make)
            super()._run(*args, **named)
        self._drawn = made[0].forward_msgs()
        self.unread = bool(self.error or self.exception)
        return self

    def panel_of(self, field: str) -> str:
        """Return the panel that a widget is in; empty if it is in none."""
        wanted = self.widget(field).id
        for delta in (message.delta for message in self._drawn):
            kind = delta.new_element.WhichOneof("type")
            if kind and getattr(getattr(delta.new_element, kind), "id", "") == wanted:
                return delta.fragment_id
        raise AssertionError(f"{field} was not drawn")

    def use(self, field: str, value: Any) -> Page:
        """Set a widget by its field, as a browser does: only the panel that it is in runs again.

        Of a list, a slider or a row of buttons the value is the label of an option.
        """
        widget = self.widget(field)
        self._panel = self.panel_of(field)
        if hasattr(widget, "options"):
            widget.root.session_state[TESTING_KEY][widget.id] = str
        widget.set_value(value)
        try:
            self.run()
        finally:
            self._panel = ""
        return self

    def widget(self, field: str) -> Any:
        """Return the widget of a field of the view."""
        drawn = (each for kind in WIDGETS for each in getattr(self, kind))
        found = [each for each in drawn if field_of(each) == field]
        assert len(found) == 1, f"{len(found)} widgets of {field}"
        return found[0]

    def choose(self, **choices: Any) -> Page:
        """Set widgets by their fields, all at once, and draw the page again."""
        for field, value in choices.items():
            self.widget(field).set_value(value)
        self.run()
        return self

    @property
    def view(self) -> View:
        """What a person has chosen."""
        view: View = self.session_state["session"].view
        return view

    @property
    def address(self) -> dict[str, str]:
        """The address's parameters; AppTest has each as a text or as a list of one."""
        asked: dict[str, str | list[str]] = dict(self.query_params)
        return {name: each if isinstance(each, str) else each[0] for name, each in asked.items()}

    @property
    def errors(self) -> list[str]:
        """The error messages of the page, which must not have crashed."""
        assert not self.exception
        return [unescaped(error.value) for error in self.error]

    @property
    def warnings(self) -> list[str]:
        """The warnings of the page."""
        return [unescaped(warning.value) for warning in self.warning]

    @property
    def texts(self) -> list[str]:
        """What ``st.text`` shows, markup or not, and the targets, which may be folded."""
        folded = [texts_in(markup, "bdi")[0] for markup in self.markup('class="folded"')]
        return [element.value for element in self.text] + folded

    @property
    def captions(self) -> str:
        """All captions of the page, joined, and what stands behind ⓘ beside texts."""
        helps = [each.proto.help for each in (*self.caption, *self.markdown)]
        return unescaped(" ".join([*(each.value for each in self.caption), *helps]))

    def says(self, template: str, *numbers: float, **bounds: Any) -> bool:
        """Whether a caption has a text with numbers of another pass, as ``shown`` writes them."""
        captions = self.captions
        return any(told in captions for told in shown(template, *numbers, **bounds))

    @property
    def said(self) -> str:
        """Everything that messages, captions and commands say."""
        parts = [*self.info, *self.warning, *self.error, *self.caption, *self.code]
        return unescaped("\n".join(part.value for part in parts))

    def markup(self, containing: str = "") -> list[str]:
        """Return what the page draws as HTML and contains a text."""
        bodies = [element.proto.body for element in self.get("html")]
        return [body for body in bodies if containing in body]

    def token_row(self, side: str) -> list[dict[str, Any]]:
        """Return the tokens of the source or the target above the maps, each with its title."""
        rows = [row.proto for row in self.get("bidi_component")]
        [drawn] = [row for row in rows if f"{side}_tokens" in row.id]
        tokens: list[dict[str, Any]] = json.loads(drawn.json)[0]["tokens"]
        return tokens

    @property
    def charts(self) -> dict[str, Any]:
        """The figure of each chart and map by its key, in the order of the page."""
        found: dict[str, Any] = {}
        for each in self._tree:
            proto = getattr(each, "proto", None)
            if each.type == "plotly_chart":
                found[proto.id.split("-", 2)[2]] = json.loads(proto.spec)
            elif each.type == "bidi_component" and proto.component_name == "headwise_heat_map":
                [data] = json.loads(proto.json)
                found[proto.id.split("-", 2)[2]] = json.loads(data["figure"])
        return found

    def frames(self, key: str) -> list[dict[str, Any]]:
        """The frames around what is chosen in a map."""
        shapes = self.charts[key]["layout"].get("shapes", [])
        return [each for each in shapes if (each.get("name"), each["type"]) == (MARK, "rect")]

    def cells(self, key: str) -> np.ndarray:
        """Return the numbers of a heat map."""
        return array(self.charts[key]["data"][0]["z"])

    def expect_cells(self, key: str, expected: ArrayLike, **bounds: Any) -> None:
        """Check the numbers of a heat map as ``assert_drawn`` does."""
        assert_drawn(self.cells(key), expected, **bounds)


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


def field_of(drawn: Any) -> str:
    """Return the field of the view that a widget shows, or the key of one that shows none."""
    return (drawn.key or "").rstrip()


def _script(page: str) -> None:
    from importlib import import_module

    from headwise.viz_app.frame import frame
    from headwise.viz_app.session.errors import show_user_errors
    from headwise.viz_app.session.view import note_unread, write_address

    selection = frame.select(page)
    if selection is not None:
        with show_user_errors():
            import_module(f"headwise.viz_app.{page}.page").page(selection)
    note_unread()
    write_address()


def open_page(
    page: str, root: Path, monkeypatch: pytest.MonkeyPatch, address: dict[str, str]
) -> Page:
    """Open a page by its module's name, or the whole app, on a folder of runs.

    Its menu of downloads is open, all of it has been in sight, and long computations are made in
    one slice. A page has a script of its own:
    Streamlit's tests can switch to file pages only.
    """
    script = APP if page == "app" else AppTest.from_function(_script)._script_path
    app = Page(str(script), default_timeout=300, args=(page,))
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(root))
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    for key in OPENED:
        app.session_state[key] = True
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    return app


def traced(
    run: TrainedRun, text: str = CATS, *, step: int = 60, target: str | Sequence[int] | None = None
) -> Trace:
    """Return the trace that a page shows of a sentence at a step."""
    return run_trace(load_weights(run, step).model, run.tokenizers, text, target)


def log_probability(trace: Trace) -> float:
    """Return the log-probability of a whole target, in nats."""
    return float(trace.predictions.log_probability.sum())


def write_run(
    root: Path,
    like: TrainedRun,
    models: Mapping[int, Transformer],
    tokenizers: TokenizerPair | None = None,
    **changes: str,
) -> TrainedRun:
    """Write a run as another, but for its models, its tokenizers and what ``run.json`` says."""
    tokenizers = tokenizers or like.tokenizers
    [config, *_] = [model.config for model in models.values()]
    sha256 = tokenizer_sha256(tokenizers)
    info = replace(like.info, model=config, tokenizer_sha256=sha256, **changes)
    counts = Counts([1] * config.source_vocab_size, [1] * config.target_vocab_size)
    create_run(root / info.name, info, tokenizers, counts)
    for step, model in models.items():
        save_weights(root / info.name, model, run=info.name, step=step)
    return open_trained_run(info.name, root=root)


def write_made_up(root: Path) -> dict[int, Measures]:
    """Write made-up measures for all checkpoints of the run ``tiny`` in a folder."""
    run = open_trained_run("tiny", root=root)
    made = {step: made_up_measures(step, sha256=load_weights(run, step).sha256) for step in STEPS}
    for measures in made.values():
        write_measures(run.folder, measures)
    return made


def assert_same_arrays(found: bytes, expected: Path) -> None:
    """Check the arrays of two NumPy archives; passes of other batches round otherwise."""
    with np.load(io.BytesIO(found)) as here, np.load(expected) as there:
        assert here.files == there.files
        for name in here.files:
            if here[name].dtype.kind == "f":
                assert_near(here[name], there[name], dtype=np.float32, size=40)
            else:
                np.testing.assert_array_equal(here[name], there[name])


def embedding_table(run: TrainedRun, side: str, *, step: int = 60) -> Floats:
    """Return the embeddings of the source's or the target's tokens, (V, D)."""
    model = load_weights(run, step).model
    stack = model.encoder if side == "source" else model.decoder
    table: Floats = stack.embedding.table.weight.numpy(force=True)
    return table


def without_weights(run: Path, *steps: int) -> Path:
    """Remove the weights of these steps, or of all, and return the run's folder."""
    for step in steps or steps_of(run):
        weights_path(run, step).unlink()
    return run


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


def patch_views(patch: pytest.MonkeyPatch, page: str, **values: Any) -> None:
    """Replace names wherever modules of a page's folders, or of the session, have them."""
    folder = f"headwise.viz_app.{page}."
    import_module(f"{folder}page" if page != "session" else f"{folder}view")
    for name, value in values.items():
        modules = [module for key, module in sys.modules.items() if key.startswith(folder)]
        found = [module for module in modules if hasattr(module, name)]
        assert found, f"nothing in {folder} has {name}"
        for module in found:
            patch.setattr(module, name, value)


Calls = dict[str, dict[str, Any]]


def record_calls(patch: pytest.MonkeyPatch, page: str, name: str) -> Calls:
    """Collect, instead of drawing it, what a page gives to a component or chart, by its key.

    The newest of each key; what was given without a name is "given".
    """
    seen: Calls = {}

    def keep(*given: Any, **named: Any) -> None:
        seen[named["key"]] = {"given": given} | named

    patch_views(patch, page, **{name: keep})
    return seen


def table(calls: Calls, key: str) -> list[list[str]]:
    """Return the texts of a table that was given to ``row_table``, a marked one in brackets."""
    _, rows = calls[key]["given"]
    return [[_written(cell) for cell in row.cells] for row in rows]


def _written(cell: Cell) -> str:
    if isinstance(cell, MarkedText):
        parts = (f"[{p.mark}: {p.text}]" if p.mark else p.text for p in cell.parts)
        return "".join(parts)
    return cell if isinstance(cell, str) else cell.text


def row_names(calls: Calls, key: str) -> list[str]:
    """Return what the rows of a table give to ``on_click``."""
    return [row.name for row in calls[key]["given"][1]]


def unescaped(markdown: str) -> str:
    """Return escaped Markdown as the text that it shows."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown).replace("\u2060", "")


def texts_in(markup: str, tag: str) -> list[str]:
    """Return the texts of the elements of one kind in HTML."""
    found = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", markup, re.DOTALL)
    return [unescape(re.sub("<[^>]*>", "", text)).strip() for text in found]


def array(written: Any) -> np.ndarray:
    """Return an array that Plotly has written as a list or in base 64."""
    if isinstance(written, list):
        return np.array(written)
    flat = np.frombuffer(base64.b64decode(written["bdata"]), written["dtype"])
    return flat.reshape([int(n) for n in str(written.get("shape", flat.size)).split(",")])


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
