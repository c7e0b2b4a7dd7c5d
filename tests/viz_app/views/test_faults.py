"""The disk changes under the open app: it says what is wrong in place, loses nothing, goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    load_weights,
    open_trained_run,
    save_weights,
    tokenizer_sha256,
    weights_path,
)
from headwise.model.run_info import Counts
from headwise.model.tokenizer import Tokenizer, TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.views.driver import (
    CATS,
    Start,
    break_file,
    choose,
    errors,
    every_page,
    texts,
    traced,
    widget,
)

TYPED = "Where is the cat?"
READ_NO_WEIGHTS = ("heads", "learn", "curves")
"""Pages, and sections of Training."""


def sentence(app: AppTest) -> str:
    shown: str = widget(app, "sentence").value
    return shown


@every_page
def test_runs_and_weights_go_and_come_back(
    start_page: Start, own_root: Path, page: str, address: dict[str, str]
) -> None:
    tiny, away = own_root / "tiny", own_root.parent / "away"
    app = start_page(page, own_root, **address)
    choose(app, sentence=TYPED)
    assert errors(app) == []

    tiny.rename(away)
    app.run()
    (problem,) = errors(app)
    assert problem.startswith(f"there is no run in {own_root.name}: train one with")

    shutil.copytree(away, own_root / "other")
    app.run()
    assert errors(app) == []
    assert (widget(app, "run").value, sentence(app)) == ("other", TYPED)

    away.rename(tiny)
    app.run()
    assert widget(app, "run").options == ["other", "tiny"]
    weights = weights_path(tiny, 60)
    content = weights.read_bytes()
    break_file(weights)
    choose(app, run="tiny")
    reads_weights = not {page, *address.values()} & set(READ_NO_WEIGHTS)
    named = [error.startswith(f"tiny/{weights.name}: truncated") for error in errors(app)]
    assert named == [True] * len(named)
    assert bool(named) is reads_weights
    assert all("restore the file or remove it" in error for error in errors(app))
    assert sentence(app) == TYPED

    weights.write_bytes(content)
    app.run()
    assert errors(app) == []
    assert (widget(app, "run").value, sentence(app)) == ("tiny", TYPED)


def test_another_checkpoint_can_be_chosen_meanwhile(
    start_page: Start, own_root: Path, run: TrainedRun
) -> None:
    weights_path(own_root / "tiny", 60).write_bytes(b"")
    app = start_page("translate", own_root, q=CATS)
    assert "truncated" in errors(app)[0]
    choose(app, step=20)
    assert errors(app) == []
    assert traced(run, step=20).target_text in texts(app)


def test_a_text_too_long_for_the_address_is_kept_too(start_page: Start, own_root: Path) -> None:
    app = start_page("training", own_root)
    long = "the " * 400
    choose(app, sentence=long)
    (own_root / "tiny").rename(own_root.parent / "away")
    app.run()
    assert errors(app)[0].startswith("there is no run")
    (own_root.parent / "away").rename(own_root / "tiny")
    app.run()
    assert sentence(app) == long


# Replaced


@pytest.fixture
def replace_run(run: TrainedRun) -> Callable[[Path], Callable[[int], Trace]]:
    """Puts another run into a folder; comes back with traces of ``CATS`` by it, by step.

    Its name, configuration and numbers of tokens are the same; its tokens and weights are not.
    """

    def put(folder: Path) -> Callable[[int], Trace]:
        numbers = [" ".join(map(str, range(1_000, 2_000)))]
        model = run.info.model
        sizes = model.source_vocab_size, model.target_vocab_size
        pair = TokenizerPair(*(Tokenizer.train(numbers, size) for size in sizes))
        info = replace(run.info, tokenizer_sha256=tokenizer_sha256(pair))
        shutil.rmtree(folder)
        create_run(folder, info, pair, Counts(*([1] * size for size in sizes)))
        for step in run.steps():
            torch.manual_seed(step)
            save_weights(folder, Transformer(model), run="tiny", step=step)
        new = open_trained_run("tiny", root=folder.parent)
        return lambda step: run_trace(load_weights(new, step).model, pair, CATS)

    return put


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("translate", {}),
        ("embeddings", {"section": "similarity"}),
        ("training", {"training": "play"}),
        ("training", {"training": "embeddings"}),
    ],
    ids=["translate", "embeddings", "play", "training-embeddings"],
)
def test_a_replaced_run_is_read_again(
    start_page: Start,
    own_root: Path,
    replace_run: Callable[[Path], Callable[[int], Trace]],
    page: str,
    address: dict[str, str],
) -> None:
    app = start_page(page, own_root, q=CATS, **address)
    trace_at = replace_run(own_root / "tiny")
    app.run()
    assert errors(app) == []
    if page == "translate":
        assert trace_at(60).target_text in texts(app)


@pytest.mark.parametrize(
    ("page", "address", "button"),
    [
        ("translate", {"compare": "true", "second": "20"}, "next"),
        ("training", {"training": "compare"}, "farthest-0"),
    ],
    ids=["translate", "training"],
)
def test_a_part_of_the_page_never_puts_old_tokens_and_new_weights_together(
    start_page: Start,
    own_root: Path,
    replace_run: Callable[[Path], Callable[[int], Trace]],
    page: str,
    address: dict[str, str],
    button: str,
) -> None:
    """Nor keeps what came of it for those who look at the run next."""
    app = start_page(page, own_root, q=CATS, **address)
    trace_at = replace_run(own_root / "tiny")
    app.button(key=button).click().run()  # draws some panels, with the run that they were given
    expected = {trace_at(step).target_text for step in (20, 60)}
    assert errors(app) == []
    assert expected <= set(texts(app))
    assert trace_at(60).target_text in texts(start_page("translate", own_root, q=CATS))


# A run.json that asks for too much


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (10**9, "n_encoder_layers: expected at most 1,000, got 1000000000"),
        (3, "the model is not that of the weights in this folder; restore run.json"),
    ],
)
def test_widgets_are_never_made_for_layers_that_are_not_there(
    start_page: Start, own_root: Path, layers: int, message: str
) -> None:
    """In this section they are drawn before weights are read, or with those read earlier."""
    address = {"training": "play", "shared": "own", "target": "El gato."}
    shutil.copytree(own_root / "tiny", own_root / "other")
    app = start_page("training", own_root, q=TYPED, run="tiny", **address)
    path = own_root / "tiny" / "run.json"
    values = json.loads(path.read_bytes())
    values["model"]["n_layers"] = layers
    path.write_text(json.dumps(values), encoding="utf-8")
    app.run()
    (problem,) = errors(app)
    assert problem.startswith(f"tiny/run.json: {message}")
    choose(app, run="other")
    assert errors(app) == []
    assert sentence(app) == TYPED
