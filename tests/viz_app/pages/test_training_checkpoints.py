"""Checkpoints beside each other on the page Training: compared, played, their embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run, weights_path
from headwise.model.config import BOS, EOS
from headwise.model.files import append_log
from headwise.model.interface import KINDS
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.attention import head_distances
from headwise.viz_app.analysis.embeddings import project_together
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.components.player import MapAnimation
from headwise.viz_app.figures.heads import tile
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session import caches, selection, slices
from headwise.viz_app.training import watch
from headwise.viz_app.why.word.account import run_account
from tests.floats import assert_near, rounding
from tests.viz_app.pages.driver import (
    CATS,
    CATS_TRANSLATED,
    DOG,
    DOG_TRANSLATED,
    STEPS,
    Calls,
    Start,
    array,
    assert_drawn,
    break_file,
    embedding_table,
    log_probability,
    patch_views,
    record_calls,
    shown,
    traced,
    unescaped,
    write_run,
)

PAGE = "training"
COMPARE = {"training": "compare"}
OF_HEADS = [0, 1, 2, 4, 5, 6, 8, 9, 10]
"""Columns of the distances that are no gap between two kinds."""


def shared_traces(run: TrainedRun, a: int, b: int, target: Any = None) -> tuple[Trace, Trace]:
    """Trace two steps on a target, or on what the newest makes of the sentence."""
    target = target or traced(run).target_ids
    return traced(run, step=a, target=target), traced(run, step=b, target=target)


# Compared


def test_the_chosen_head_of_both_and_the_signed_difference(start: Start, run: TrainedRun) -> None:
    """The earlier is A, whichever is selected; each has its own translation above."""
    forced = shared_traces(run, 20, 60)
    a, b = (trace.attention["decoder_self"] for trace in forced)
    for step, other in ((60, None), (20, 60)):  # at first the middle beside the end
        at = {"kind": "decoder_self", "layer": "2", "head": "3"} | COMPARE
        app = start(step=str(step), **({"other_step": str(other)} if other else {}), **at)
        app.expect_cells("difference", (b - a)[1, 2])
    drawn = app.charts["difference"]["data"]
    assert (drawn[0]["zmin"], drawn[0]["zmax"]) == (-1, 1)
    assert len(drawn) == 2  # masked cells lie over it
    own = [traced(run, step=step) for step in (20, 60)]
    translations = [trace.target_text for trace in own]
    assert [text for text in app.texts if text in translations][:2] == translations
    for trace, given in zip(own, forced, strict=True):
        said = "Log-probability {:.3g} nats; the shared target has {:.3g} here."
        assert app.says(said, log_probability(trace), log_probability(given))
    assert "the translation at step 60, given to both" in app.captions

    allowed = make_grid(forced[0], "decoder_self").allowed
    expected = tile(((b - a + 1) / 2).astype(np.float32), allowed)
    # One code more or less where a weight is beside a tie.
    np.testing.assert_allclose(app.cells("overview-mosaic"), expected, rtol=0, atol=1)
    app.choose(overview="B")
    np.testing.assert_allclose(app.cells("overview-mosaic"), tile(b, allowed), rtol=0, atol=1)
    app.expect_cells("map-B", b[1, 2])
    app.button(key="open-A").click().run()
    assert (app.session_state["opening"], app.view.step) == ("translate", 20)


def test_all_kinds_are_ranked(start: Start, run: TrainedRun) -> None:
    app = start(step="0", other_step="60", **COMPARE)
    a, b = shared_traces(run, 0, 60)
    distances = {
        kind: head_distances(
            a.attention[kind], b.attention[kind], allowed=make_grid(a, kind).allowed
        )
        for kind in KINDS
    }
    of_all = np.hstack([distances[kind] for kind in KINDS])
    assert_drawn(app.cells("distances")[:, OF_HEADS], of_all)
    farthest = app.button(key="farthest-0").label.split(" · ")[1]
    assert farthest in shown("{:.2f}", of_all.max(), size=1)


def test_heads_without_choice_are_unknown(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder's one row, which consumes the start and predicts the end, has one key."""
    monkeypatch.setattr(caches, "greedy", lambda *_: [[BOS, EOS]])
    app = start(q="Is it his?", step="0", other_step="60", **COMPARE)
    drawn = app.cells("distances")
    assert np.isnan(drawn[:, 4:7]).all()
    assert np.isfinite(drawn[:, [0, 1, 2, 8, 9, 10]]).all()
    named = [button.label for button in app.button if str(button.key).startswith("farthest-")]
    assert not [label for label in named if "Decoder" in label]


def test_the_target_is_a_reference_or_own(start: Start, own_root: Path, run: TrainedRun) -> None:
    row = {"step": 0, "source": CATS, "reference": CATS_TRANSLATED, "shows": "reference"}
    append_log(own_root / "tiny" / "samples.jsonl", [row])
    at = {"step": "0", "other_step": "60", "layer": "1", "head": "2", "units": "words"} | COMPARE
    app = start(own_root, q=CATS, shared="reference", **at)
    assert f"the reference, given to both: {CATS_TRANSLATED}" in app.captions
    for target in (CATS_TRANSLATED, "El perro <b>"):
        if target != CATS_TRANSLATED:
            app.choose(shared="own").choose(target=target)
        a, b = shared_traces(run, 0, 60, target)
        words = make_grid(a, "cross", GridOptions("words"))
        difference = b.attention["cross"] - a.attention["cross"]
        app.expect_cells("difference", words.apply(difference)[0, 1])
    assert "your translation, given to both" in app.captions


@pytest.fixture
def word_root(own_root: Path, run: TrainedRun, make_model: Callable[..., Transformer]) -> Path:
    """Beside ``tiny`` a run of the same languages that reads words, of 2 layers of 2 heads."""
    pairs = [(CATS, CATS_TRANSLATED), (DOG, DOG_TRANSLATED)]
    tokenizers = TokenizerPair.train(pairs, kind="word", vocab_sizes=(40, 43), shared=False)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = make_model(source_vocab_size=sizes[0], target_vocab_size=sizes[1], n_heads=2)
    write_run(own_root, run, {7: model}, tokenizers, name="words")
    untrained = load_weights(run, 0).model
    write_run(own_root, run, {0: untrained}, name="others", target_language="fr")
    return own_root


def test_other_tokenizers_meet_by_word(start: Start, word_root: Path, run: TrainedRun) -> None:
    own = {"shared": "own", "target": CATS_TRANSLATED, "layer": "2", "head": "2"}
    app = start(word_root, run="tiny", q=CATS, other_run="words", **own, **COMPARE)
    assert app.widget("other_run").options == ["tiny", "words"]
    words = open_trained_run("words", root=word_root)
    a, b = (
        make_grid(trace, "cross", GridOptions("words")).apply(trace.attention["cross"])[1]
        for trace in (
            traced(run, target=CATS_TRANSLATED),
            traced(words, step=7, target=CATS_TRANSLATED),
        )
    )
    assert a[0].shape == b[0].shape
    app.expect_cells("difference", b[1] - a[1])
    assert "distances" not in app.charts
    app.choose(unpaired=True).choose(other_head=1)
    app.expect_cells("difference", b[0] - a[1])
    app.choose(head=3)  # of which the other has none
    app.choose(overview="B")
    app.expect_cells("map-B", b[0])


def test_runs_that_do_not_fit_are_not_compared(start: Start, word_root: Path) -> None:
    assert start(word_root, run="others", q=CATS, **COMPARE).info[0].value == (
        "The run has one checkpoint only, and there is no other run of its languages."
    )
    # A space is a token, and no word of the other.
    app = start(word_root, run="tiny", q="The  cats", other_run="words", **COMPARE)
    [info] = app.info
    assert unescaped(info.value).startswith("Word 2 of the source is “␣” for tiny and “cats” for")
    assert list(app.charts) == ["overview-mosaic", "map-A"]


@pytest.mark.parametrize("section", ["compare", "watch"])
def test_a_broken_checkpoint_is_named_and_the_others_are_shown(
    start: Start, own_root: Path, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weights_path(own_root / "tiny", 20)
    break_file(path)
    if section == "compare":
        app = start(own_root, training=section, other_step="20")
        (message,) = app.errors
        assert message.startswith(f"tiny/{path.name}: truncated")
        app.choose(other_step=0)
        assert "difference" in app.charts
    else:
        played = players(monkeypatch)
        app = start(own_root, training=section)
        (warning,) = app.warnings
        assert warning.startswith("Step 20 is left out")
        assert [frame.step for frame in played()[0].frames] == [0, 60]
        assert len(played()[0].maps) == 2


# Played


def players(patch: pytest.MonkeyPatch) -> Callable[[], tuple[MapAnimation, dict[str, Any]]]:
    """Return a function for what the page gave to the component last, instead of to a browser."""
    calls: Calls = record_calls(patch, "training", "player")

    def newest() -> tuple[MapAnimation, dict[str, Any]]:
        [given] = calls.values()
        return given["given"][0], given

    return newest


def test_a_head_is_played_through_all_checkpoints_on_one_target(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's own translation runs along."""
    assert start(training="watch").errors == []  # the component itself can be mounted
    played = players(monkeypatch)
    app = start(training="watch", playing="head", kind="decoder_self", layer="2", head="3")
    animation, given = played()
    target = traced(run).target_ids
    forced = [traced(run, step=step, target=target) for step in STEPS]
    maps = np.stack([trace.attention["decoder_self"][1:2, 2:3] for trace in forced])
    assert_drawn(animation.maps, maps)
    grid = make_grid(traced(run), "decoder_self")
    assert (animation.rows, animation.columns) == (grid.rows, grid.columns)
    np.testing.assert_array_equal(animation.allowed, grid.allowed)
    assert (animation.selected, given["language"]) == (None, "es")
    assert (given["start"], given["opens"]) == (60, 60)
    assert tuple(frame.step for frame in animation.frames) == STEPS
    for frame, on_target in zip(animation.frames, forced, strict=True):
        own = traced(run, step=frame.step)
        assert list(frame.tokens) == token_labels(own.predicted)
        assert_drawn(frame.probabilities, np.exp(own.predictions.log_probability))
        totals = [log_probability(own), log_probability(on_target)]
        found = [float(n) for n in re.findall(r"(-?[\d.]+) nats", frame.score)]
        np.testing.assert_allclose(found, totals, rtol=0.006)  # half a unit, and another pass

    app.choose(playing="all", units="words", kind="cross").run()
    words = make_grid(forced[0], "cross", GridOptions("words"))
    expected = np.stack([words.apply(trace.attention["cross"]) for trace in forced])
    assert_drawn(played()[0].maps, expected)
    assert played()[0].selected == (1, 2)


def test_heads_play_from_the_first_checkpoint_and_the_largest_change_is_said(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = players(monkeypatch)
    app = start(kind="cross", layer="1", head="2")
    animation, given = played()
    assert (given["start"], given["opens"], app.address["training"]) == (60, 0, "watch")
    target = traced(run).target_ids
    maps = [traced(run, step=step, target=target).attention["cross"] for step in STEPS]
    first, second = (
        float(jensenshannon(a[0, 1], b[0, 1], base=2, axis=-1).mean()) for a, b in pairwise(maps)
    )
    course = animation.course
    assert course.changed == (1 if first > second else 2)
    ends = "0 and 20" if first > second else "20 and 60"
    assert course.said.startswith(f"Cross 1.2 changed most between steps {ends} ")
    assert abs(float(course.said.split()[-1][:-2]) - max(first, second)) < 0.0006
    assert tuple(course.steps) == STEPS


def test_checkpoints_are_drawn_as_they_come(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    played = players(monkeypatch)
    app = start(training="curves", step="20")
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(training="watch")
    there = []
    for _ in STEPS:
        animation, _ = played()
        there.append([frame.step for frame in animation.frames])
        assert tuple(animation.course.steps) == STEPS
        assert bool(animation.course.said) == (len(there[-1]) == len(STEPS))
        app.run()
    assert there == [[20], [0, 20], [0, 20, 60]]


def test_a_long_translation_is_cut_and_said(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    played = players(monkeypatch)
    monkeypatch.setattr(watch, "_MOST_TOKENS", 3)
    start(training="watch")
    frame = played()[0].frames[-1]
    assert len(frame.tokens) == len(frame.probabilities) == 3
    assert frame.tokens[-1] == "…"


# Embeddings


def pair_cosines(tables: list[Floats], tokens: list[int]) -> Floats:
    """Return the cosine of each two tokens at each checkpoint, (checkpoints, pairs)."""
    pairs = np.triu_indices(len(tokens), 1)
    rows = [table[tokens] / np.linalg.norm(table[tokens], axis=1)[:, None] for table in tables]
    return np.stack([(each @ each.T)[pairs] for each in rows])


@pytest.mark.parametrize("side", ["source", "target"])
def test_pairs_and_the_vocabulary_are_drawn_at_every_checkpoint(
    start: Start, clouds: list[dict[str, Any]], run: TrainedRun, side: str
) -> None:
    app = start(training="embeddings", q=CATS, side=side)
    every = [embedding_table(run, side, step=step) for step in STEPS]
    names = app.widget("pair_tokens").value
    tokens = [int(name.removeprefix("id:")) for name in names]
    assert len(tokens) == 4
    [figure] = app.charts.values()
    lines = np.stack([array(trace["y"]) for trace in figure["data"]], 1)
    assert_near(lines, pair_cosines(every, tokens), dtype=np.float32, size=1)
    app.choose(followed="vocabulary")
    drawn = clouds[-1]
    points, _ = project_together(every, every[-1])  # all tokens: they occur equally often here
    assert_near(drawn["frames"].points, points, dtype=np.float32)
    np.testing.assert_array_equal(drawn["cloud"].points, drawn["frames"].points[-1])
    assert drawn["frames"].names == ["step 0", "step 20", "step 60"]
    assert drawn["searched"] == tokens
    app.choose(moving_frame=0)
    points, _ = project_together(every, every[0])
    assert_near(clouds[-1]["frames"].points, points, dtype=np.float32)
    app.choose(followed="pairs").choose(pair_tokens=["id:7"])
    assert "Choose two tokens or more." in [info.value for info in app.info]


@pytest.mark.parametrize("section", ["watch", "embeddings", "heads"])
def test_of_many_checkpoints_some_are_drawn_and_this_is_said(
    start: Start,
    tmp_path: Path,
    run: TrainedRun,
    clouds: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    section: str,
) -> None:
    """The first, the last, the one in use, and others."""
    model = load_weights(run, 60).model
    write_run(tmp_path, run, dict.fromkeys(range(0, 90, 10), model), name="long")
    monkeypatch.setattr(selection, "MOST_STEPS", 6)
    app = start(tmp_path, training=section, q=CATS, step="30", followed="vocabulary")
    assert "Shown are 6 of 9 checkpoints" in app.captions
    if section == "embeddings":
        assert clouds[-1]["frames"].names == [f"step {step}" for step in (0, 20, 30, 40, 60, 80)]


# Direct effects on a word


DIRECT = {"training": "heads", "matrix_over": "sentence", "q": CATS, "at": "2", "step": "20"}


def test_each_head_s_direct_effect_stands_at_every_checkpoint(
    start_page: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are given what the newest writes, and asked for the two words of the chosen one."""
    app = start_page("training", **DIRECT)
    target = traced(run).target_ids
    likeliest = traced(run, step=20, target=target).predictions.top_ids[2].tolist()
    word = target[3]
    other = next(id for id in likeliest if id != word)
    rows = [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20]
    drawn = app.cells("head_matrix")[rows]
    for column, step in enumerate(STEPS):
        trace = traced(run, step=step, target=target)
        account = run_account(load_weights(run, step).model, trace, 2, other)
        encoder = dict(account.from_encoder.named())
        names = [f"encoder_self.{layer}.{head}" for layer in (1, 2) for head in (1, 2, 3)]
        expected = [encoder[name].sum() for name in names]
        for kind in ("decoder_self", "cross"):
            expected += account.parts.heads[kind].sum(axis=-1).ravel().tolist()
        bound = rounding(np.float32, 40.0)
        np.testing.assert_allclose(drawn[:, column], expected, atol=bound)
    figures, opened = record_calls(monkeypatch, "training", "show_figure"), list[Any]()
    patch_views(monkeypatch, "training", open_page=lambda page, **at: opened.append((page, at)))
    patch_views(monkeypatch, "training", clicked_value=lambda _: "cross,1,2,60")
    start_page("training", **DIRECT)
    figures["head_matrix"]["on_select"]()
    [(page, given)] = opened
    head = {"kind": "cross", "layer": 2, "head": 3}
    asked = {"step": 60, "at": 2, "target": traced(run).target_text, "instead": f"id:{other}"}
    assert (page, given) == ("why", asked | head)
