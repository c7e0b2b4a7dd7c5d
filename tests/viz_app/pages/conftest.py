"""Pages that AppTest draws, inside the frame and without a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import tyro
from safetensors.torch import load_file, save_file

from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.model import projection
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.served import MODELS
from headwise.viz_app.session import download
from headwise.viz_app.training import embeddings as training_embeddings
from tests.viz_app.pages.driver import (
    Calls,
    Folders,
    Page,
    Start,
    open_page,
    record_calls,
    write_made_up,
)

SENTENCE = "The dog sees a red house."
TRAINER_STEPS = (10, 20)
_BESIDE_T5S_TOKENIZER: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("t5", {"feed_forward_proj": "gated-gelu"}),
    "t5_1_1": ("t5_1_1", {}),
    "pegasus": ("pegasus", {}),
    "t5gemma": ("t5gemma", {"bos_token_id": 0}),
    "t5gemma2": ("t5gemma2", {"bos_token_id": 0}),
}
"""Name → family and changes of the configuration of a model that T5's tokenizer fits."""


@pytest.fixture(scope="module", autouse=True)
def checked_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have Plotly check figures where all pages are drawn with all choices, once for all tests."""
    module = request.module.__name__.rpartition(".")[2]
    checked = module in ("test_every_page", "test_links", "test_pretrained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwise.viz_app.figures.theme.CHECKED", checked)
        yield


@pytest.fixture
def start_page(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Open a page by its module's name, on a folder of runs and an address's parameters.

    The page "app" is the whole app, at its first page. A test fails that does not look at errors.
    """
    opened: list[Page] = []

    def start(page: str, root: Path = run_root, **address: str) -> Page:
        opened.append(open_page(page, root, monkeypatch, address))
        return opened[-1]

    yield start
    assert [page.errors for page in opened if page.unread] == []


@pytest.fixture
def start(start_page: Start, request: pytest.FixtureRequest) -> Start:
    """Open the page that the test's module names in ``PAGE``, at what it gives in ``ADDRESS``."""
    return partial(start_page, request.module.PAGE, **getattr(request.module, "ADDRESS", {}))


@pytest.fixture(scope="module")
def opened(run_root: Path, request: pytest.FixtureRequest) -> Page:
    """The page that the test's module names, opened once for all who only read it."""
    address = getattr(request.module, "ADDRESS", {})
    with pytest.MonkeyPatch.context() as patch:
        page = open_page(request.module.PAGE, run_root, patch, address)
        assert page.errors == []
        return page


@pytest.fixture
def clouds(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Collect what pages give to the component ``scatter``; the newest is last."""
    given: list[dict[str, Any]] = []
    for view in (projection, training_embeddings):
        monkeypatch.setattr(
            view, "scatter", lambda a, **others: given.append({"cloud": a} | others)
        )
    return given


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Calls:
    """What the page that the test's module names gives to the component of lists."""
    return record_calls(monkeypatch, request.module.PAGE, "row_table")


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """What the menu of downloads offers: the name of a file → what makes it, when it is clicked."""
    given: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(
        download.st,
        "download_button",
        lambda _, data, file_name, **__: given.update({file_name: data}),
    )
    return given


@pytest.fixture
def measured(own_root: Path) -> dict[int, Measures]:
    """Made-up measures, written for all checkpoints of the run in ``own_root``."""
    return write_made_up(own_root)


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what reads the example sentences of a run read the first of them only."""
    encode = Sentences.examples
    monkeypatch.setattr(
        Sentences,
        "examples",
        lambda run, measures: encode(run, replace(measures, sentences=measures.sentences[:12])),
    )


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Folders:
    """Return a function that makes a folder of a Hugging Face model of a family, once.

    With ``trained=True`` it is that of a training, with two checkpoints. The T5 is gated, as newer
    ones are; "t5_relu" is as the first ones were, and has a prefix for its task.
    """
    from headwise.model.pretrained.folders import quiet  # these import transformers
    from tests.model.pretrained.tiny import FOLDERS, save_model

    rows = [json.loads(line) for line in (data_folder / "train.jsonl").read_text().splitlines()]
    sentences = {language: [row[language] for row in rows] for language in ("en", "es")}

    @cache
    def make(name: str, *, trained: bool = False) -> Path:
        if trained:
            return _train(make(name), tmp_path_factory.mktemp("training") / name)
        folder = tmp_path_factory.mktemp("single") / name
        folder.mkdir()
        with quiet():
            if name in FOLDERS and name not in _BESIDE_T5S_TOKENIZER:
                FOLDERS[name](folder, sentences)
            else:
                FOLDERS["t5"](folder, sentences)
            if name in _BESIDE_T5S_TOKENIZER:
                family, changes = _BESIDE_T5S_TOKENIZER[name]
                size = json.loads((folder / "config.json").read_text())["vocab_size"]
                save_model(folder, family, vocab_size=size, **changes)
        return folder

    return make


def _train(single: Path, folder: Path) -> Path:
    """Write what a training might leave: checkpoints whose weights differ, and the log."""
    log: list[dict[str, float]] = []
    for step in TRAINER_STEPS:
        place = shutil.copytree(single, folder / f"checkpoint-{step}")
        generator = torch.Generator().manual_seed(step)
        weights = load_file(place / "model.safetensors")
        for tensor in weights.values():
            tensor += 0.01 * torch.randn(tensor.shape, generator=generator)
        save_file(weights, place / "model.safetensors", {"format": "pt"})
        log += [{"step": step, "loss": 50 / step}, {"step": step, "eval_loss": 60 / step}]
        state = {"log_history": log, "max_steps": 20, "global_step": step}
        (place / "trainer_state.json").write_text(json.dumps(state))
    return folder


@pytest.fixture(scope="session")
def measured_folders(folders: Folders, data_folder: Path) -> Folders:
    """Return a function that makes the folder of a training whose heads are measured, once."""

    @cache
    def make(name: str) -> Path:
        trained = folders(name, trained=True)
        folder = shutil.copytree(trained, trained.parent / "measured")
        line = ["--run", str(folder), "--data", str(data_folder / "train.jsonl")]
        line += ["--columns", "en", "es", "--sentences", "3"]
        pairs = folder / "pairs.tsv"
        rows = ("source right wrong phenomenon", "cat gato perro word")
        pairs.write_text("".join(row.replace(" ", "\t") + "\n" for row in rows))
        line += ["--pairs", str(pairs)]
        main(tyro.cli(MeasureArguments, args=line))
        return folder

    return make


@pytest.fixture
def start_model(start_page: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Open a page by its module's name, on the folder of a model and an address's parameters."""

    def start(page: str, folder: Path, **address: str) -> Page:
        monkeypatch.setenv(MODELS, f"theirs\t{folder}")
        return start_page(page, tmp_path, **({"q": SENTENCE} | address))

    return start
