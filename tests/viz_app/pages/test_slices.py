"""What is computed in slices goes on where it was, and nothing is loaded or computed twice."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from headwise.model.checkpoint import Checkpoint, TrainedRun
from headwise.model.interface import Seq2SeqModel
from headwise.viz_app.core.computed import Computed
from headwise.viz_app.session import cache, slices
from headwise.viz_app.training.checkpoints import coarse_first
from tests.viz_app.pages.driver import CATS, STEPS, Start, patch_views

CATS_AT = {"q": CATS, "at": "2", "step": "20"}
"""The checkpoint that is open is neither the first that is asked nor the last."""
TWO = {"why": "two sentences", "other": "The dog sees the red house.", "patching": "true"}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The steps that are loaded, where no two models fit into memory."""
    steps: list[int] = []
    load = TrainedRun.load

    def note(run: TrainedRun, step: int, *others: Any) -> Checkpoint:
        steps.append(step)
        return load(run, step, *others)

    monkeypatch.setattr(cache, "MODEL_BYTES", 1)  # less than any model
    monkeypatch.setattr(TrainedRun, "load", note)
    st.cache_resource.clear()
    yield steps
    st.cache_resource.clear()  # of other tests' size


@pytest.mark.parametrize(
    ("page", "place", "name", "address", "chosen", "key"),
    [
        pytest.param(
            *("training", "why", "run_account", {"training": "heads"}),
            *({"matrix_over": "sentence"}, "checkpoints"),
            id="heads on this sentence",
        ),
        pytest.param(
            *("why", "why", "run_account", {}, {"answer": "training"}, "checkpoints"),
            id="through training",
        ),
        pytest.param(
            *("why", "why", "run_attribution", TWO, {"attributed": True}, "attributed"),
            id="attribution patching",
        ),
        pytest.param(
            *("heads", "heads", "composition", {"heads": "feeds"}, {"edge_training": True}, "edge"),
            id="what feeds what",
        ),
        pytest.param(
            *("heads", "heads", "copying", {"kind": "decoder_self", "heads": "writes"}),
            *({"dictionary_training": True}, "dictionary"),
            id="what heads write",
        ),
    ],
)
def test_each_checkpoint_is_computed_and_loaded_once_in_slices_of_one(
    start_page: Start,
    own_root: Path,
    measured: object,
    monkeypatch: pytest.MonkeyPatch,
    loaded: list[int],
    page: str,
    place: str,
    name: str,
    address: dict[str, str],
    chosen: dict[str, Any],
    key: str,
) -> None:
    """However short a slice is, and however few models are kept; a button ends it before that."""
    app = start_page(page, own_root, **CATS_AT, **address)
    folder = f"headwise.viz_app.{place}."
    [compute, *_] = [
        getattr(each, name)
        for path, each in sys.modules.items()
        if path.startswith(folder) and hasattr(each, name)
    ]
    computed: list[int] = []

    def note(model: Seq2SeqModel, *given: Any, **named: Any) -> Any:
        computed.append(model.origin.step)
        return compute(model, *given, **named)

    declared = isinstance(compute, Computed)
    instead = replace(compute, function=note) if declared else note
    patch_views(monkeypatch, place, **{name: instead})
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(**chosen)
    app.button(key=f"stop-{key}-progress").click().run()
    assert [app.widget(field).value for field in chosen] != [*chosen.values()]
    app.choose(**chosen)
    loaded.clear()  # what was asked of others than the checkpoints in turn
    counts = [len(computed)]
    while [each for each in app.button if each.key == f"stop-{key}-progress"]:
        assert len(counts) <= len(STEPS), "it does not come to an end"
        app.run()
        counts.append(len(computed))
    assert {0, 60} <= {*computed} <= {*STEPS}
    assert max(Counter(computed).values()) == 1
    assert max(Counter(loaded).values(), default=0) <= 1
    assert len(counts) >= len(STEPS) - 1  # a slice for each that was not known, but the last


@pytest.mark.parametrize("section", ["watch", "translations", "embeddings"])
def test_a_section_that_is_drawn_again_loads_nothing(
    start_page: Start, own_root: Path, measured: object, loaded: list[int], section: str
) -> None:
    app = start_page("training", own_root, **CATS_AT, training=section)
    loaded.clear()
    app.run()
    assert (app.errors, loaded) == ([], [])


@pytest.mark.parametrize("count", [1, 2, 3, 16, 59, 60, 200])
def test_however_few_checkpoints_are_drawn_they_are_spread_over_the_training(count: int) -> None:
    steps = [100 * n for n in range(count)]
    order = coarse_first(steps)
    assert sorted(order) == steps
    for taken in range(1, count + 1):
        drawn = sorted([*order[:taken], steps[-1] + 100])
        assert max(b - a for a, b in pairwise(drawn)) <= 4 * 100 * count / taken
