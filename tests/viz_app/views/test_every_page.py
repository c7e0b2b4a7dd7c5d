"""Every page: of a model with 3 + 2 layers, in a read-only folder, with odd sentences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import tyro

from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.trace.saved import read_trace, to_npz
from tests.viz_app.conftest import ENGLISH, SPANISH
from tests.viz_app.views.driver import (
    CATS,
    DOG,
    Start,
    assert_cells,
    charts,
    choose,
    errors,
    every_page,
    field_of,
    html,
    traced,
)

TRACED = {"translate", "inside", "architecture", "embeddings", "translations", "compare", "play"}
"""Pages, and sections of Training, that send the sentence through the model."""
LAYERS = {"encoder_self": 3, "decoder_self": 2, "cross": 2}


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


MARKUP = "<b>a</b> $x$ **c** %{z} &lt;"


@every_page
def test_every_page_is_drawn_from_a_read_only_folder(
    start_page: Start,
    measured_root: Path,
    read_only: Callable[[Path], AbstractContextManager[list[str]]],
    page: str,
    address: dict[str, str],
) -> None:
    at = {"q": CATS, "kind": "encoder_self", "layer": "3", "rank": "true"}
    with read_only(measured_root) as refused:
        app = start_page(page, measured_root, **at, **address)
        for kind in ("encoder_self", "cross"):
            if "kind" in map(field_of, app.segmented_control):
                app = choose(app, kind=kind).run()
            assert errors(app) == []
            assert [warning.value for warning in app.warning] == []
    assert refused == []


@every_page
def test_markup_and_sentences_too_long_or_empty(
    start_page: Start, run_root: Path, page: str, address: dict[str, str]
) -> None:
    app = start_page(page, q=MARKUP, target=MARKUP, shared="own", **address)
    assert errors(app) == []
    assert "<b>a" not in "".join(html(app))
    for element in [*app.markdown, *app.caption]:
        assert not [part for part in MARKUP.split() if part in element.value]

    app = choose(app, sentence="the" + " the" * 30)
    assert all("at most 31" in error and "shorten" in error for error in errors(app))
    assert bool(errors(app)) is bool({page, *address.values()} & TRACED)
    app = choose(app, sentence=" ")
    assert errors(app) == []
    (invitation,) = app.info
    assert invitation.value == "Type a sentence above and press Enter."
    assert not charts(app)
    assert errors(choose(app, sentence=DOG)) == []


def test_maps_of_all_layers_are_those_of_the_model(
    start_page: Start, unequal_root: Path, tmp_path: Path
) -> None:
    trace = traced(open_trained_run("tiny", root=unequal_root))
    assert {kind: len(maps) for kind, maps in trace.attention.items()} == LAYERS
    saved = tmp_path / "trace.npz"
    saved.write_bytes(to_npz(trace))
    assert read_trace(saved).shapes == trace.shapes
    for kind, layers in LAYERS.items():
        at = {"q": CATS, "kind": kind, "layer": str(layers)}
        app = start_page("translate", unequal_root, **at)
        options = next(each for each in app.button_group if field_of(each) == "layer").options
        assert len(options) == layers
        assert "mosaic" in charts(app)
        assert_cells(app, "large", trace.attention[kind][-1, 0])
