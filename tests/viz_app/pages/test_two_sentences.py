"""The section *two sentences* of Why; ``tests/viz_app/why`` has its numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
import tyro

from headwise.model.checkpoint import (
    CHECKPOINTS,
    TrainedRun,
    list_runs,
    load_weights,
    open_trained_run,
)
from headwise.viz_app.patch import PatchArguments, main
from headwise.viz_app.session import slices
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.correspondence import corresponding
from headwise.viz_app.why.sentences.patches import (
    run_attribution,
    run_patched_translation,
    run_patching,
)
from headwise.viz_app.why.sentences.patching import Patching
from headwise.viz_app.why.sentences.section import maps as patch_maps
from headwise.viz_app.why.sentences.section.pair import (
    SentencePair,
    patching_of,
    prepared_pairs,
    with_word,
    words_in,
)
from tests.floats import rounding
from tests.imports import ROOT
from tests.viz_app.pages.driver import (
    CATS,
    DOG,
    STEPS,
    Page,
    Start,
    array,
    assert_same_arrays,
    patch_views,
    record_calls,
    traced,
    unescaped,
)

OTHER = "The cats see the dog."
AT = {"q": CATS, "why": "two sentences", "other": OTHER}
PARTING = {"parting": "1", "first_word": "perro", "second_word": "está"}
LOGITS = 40.0
"""Magnitude of what is added up."""


def patched(run: TrainedRun, words: tuple[str, str] = ("perro", "está"), at: int = 1):  # type: ignore[no-untyped-def]
    """What is asked of patches of the two sentences, without the page."""
    ids = tuple(run.tokenizers.target.encode(word)[0] for word in words)
    return traced(run, CATS), traced(run, OTHER).source, at, ids


def said(app: Page) -> str:
    """What the page says, and what it says behind its signs."""
    return unescaped(" ".join(f"{each.value} {each.proto.help}" for each in app.markdown))


def targets(app: Page, key: str) -> dict[str, str]:
    """What can be clicked in a map, with what is shown there."""
    markers = app.charts[key]["data"][-1]
    return dict(zip(markers["customdata"], markers["text"], strict=True))


def test_maps_are_restored_shares_of_the_exact_passes(start_page: Start, run: TrainedRun) -> None:
    app = start_page("why", **AT, **PARTING, patching="true")
    assert (app.errors, app.warnings) == ([], [])
    found = run_patching(load_weights(run, 60).model, *patched(run))
    assert f"**: {found.odds_a:+#.3g} after A, {found.odds_b:+#.3g} after B" in said(app)
    bound = rounding(np.float32, LOGITS / abs(found.odds_b - found.odds_a))
    for key, odds in {
        "patch_stream_encoder": found.stream_encoder,
        "patch_stream_decoder": found.stream_decoder,
        **{f"patch_heads_{kind}": odds for kind, odds in found.heads.items()},
        **{f"patch_sublayers_{stack}": odds for stack, odds in found.sublayers.items()},
    }.items():
        shares = (odds - found.odds_a) / (found.odds_b - found.odds_a)
        expected = np.where(np.isnan(shares), 0, shares)
        np.testing.assert_allclose(app.cells(key), expected, rtol=0, atol=bound)
        assert len(targets(app, key)) == np.isfinite(shares).sum()
    shares = (found.stream_decoder - found.odds_a) / (found.odds_b - found.odds_a)
    first = next(max(row) for row in shares.tolist() if max(row) >= 0.5)
    assert f"({first:+.2f}" in said(app).partition("decoder: ")[2]
    middle = (found.odds_a + found.odds_b) / 2
    likelier = "perro" if middle > 0 else "está"
    assert f"Halfway are log-odds of {middle:+.2f}, at which **{likelier}** is" in said(app)
    at_the_end = (found.restored(found.stream_decoder)[:-1] < 0.5).all()
    assert ("(+1.00, by construction)" in said(app).partition("decoder: ")[2]) == at_the_end
    grey = array(app.charts["patch_stream_encoder"]["data"][1]["z"]).astype(bool)
    np.testing.assert_array_equal(grey, np.isnan(found.stream_encoder))
    assert grey.any()


def test_a_patch_of_the_address_translates_anew(start_page: Start, run: TrainedRun) -> None:
    a, b, at, _ = patched(run)
    model = load_weights(run, 60).model
    for name in ("stream.encoder.2.3", "cross.2.1", "sublayer.decoder.1.cross"):
        app = start_page("why", **AT, **PARTING, patching="true", patch=name)
        assert (app.errors, app.warnings) == ([], [])
        prefix = run.tokenizers.prefix
        ids = run_patched_translation(model, a, b, at, name, prefix)
        assert (run.tokenizers.target.decode(ids) or "(no text)") in app.texts
        own = traced(run, OTHER).target_ids
        same = {a.target_ids: "as for A", own: "as for B"}.get(ids, "neither A's nor B's")
        [line] = [each for each in app.markdown if each.value.startswith("**A with it")]
        assert line.value.endswith(same)
    app = start_page("why", **AT, **PARTING, patching="true", patch="cross.9.9")
    assert "patch=cross.9.9" in app.warnings[0]


def test_the_menu_gives_what_the_command_writes(
    start_page: Start, run_root: Path, tmp_path: Path, downloads: dict[str, Callable[[], bytes]]
) -> None:
    """In a thread that has no page; nothing is offered while nothing is patched."""
    start_page("why", **AT, **PARTING)
    assert [name for name in downloads if "patches" in name] == []
    assert start_page("why", **AT, **PARTING, patching="true").errors == []
    line = ["--run", "tiny", "--text", CATS, "--other", OTHER, "--checkpoints", str(run_root)]
    line += ["--at", "2", "--words", "perro", "está", str(tmp_path / "out.npz")]
    main(tyro.cli(PatchArguments, args=line))
    with ThreadPoolExecutor() as elsewhere:
        found = elsewhere.submit(downloads["headwise-tiny-60-patches-2.npz"]).result()
    assert_same_arrays(found, tmp_path / "out.npz")


def test_a_sentence_beside_itself_has_nothing_to_restore(start_page: Start) -> None:
    app = start_page("why", q=CATS, why="two sentences")
    assert "Type a second sentence" in app.info[0].value
    assert app.charts == {}
    app = start_page("why", **(AT | {"other": CATS}), patching="true")
    assert any("There is nothing to restore" in each.value for each in app.info)
    assert app.charts == {}
    np.testing.assert_array_equal(app.choose(patching=False).cells("pair_difference"), 0)


def test_shares_of_next_to_nothing_are_not_drawn(
    start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where parts of B move A's odds far more than all of B does."""

    def nearly_equal(*asked: Any) -> Patching:
        found = patching_of(*asked)
        return replace(found, odds_b=found.odds_a + found.farthest / 20)

    monkeypatch.setattr(patch_maps, "patching_of", nearly_equal)
    app = start_page("why", **AT, **PARTING, patching="true")
    assert app.errors == []
    assert any("A and B hardly differ" in each.value for each in app.info)
    assert not [key for key in app.charts if key.startswith("patch_")]


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_maps_stand_side_by_side_and_their_difference_where_tokens_correspond(
    start_page: Start, run: TrainedRun, kind: str
) -> None:
    app = start_page("why", **AT, kind=kind, layer="2", head="3")
    a = traced(run, CATS)
    b = traced(run, OTHER, target=a.target_ids)
    stretches = corresponding(a.source, b.source)
    maps = [each.attention[kind][1, 2] for each in (a, b)]
    for letter, expected in zip("AB", maps, strict=True):
        app.expect_cells(f"pair_map_{letter}", expected)
    pairs = [pair for each in stretches for pair in each.pairs]
    every = [(n, n) for n in range(len(a.consumed))]
    rows = np.transpose(pairs if kind == "encoder_self" else every)  # of A, of B
    columns = np.transpose(every if kind == "decoder_self" else pairs)
    found, expected = app.cells("pair_difference"), np.full(maps[0].shape, np.nan)
    of_a, of_b = (cells[np.ix_(*at)] for cells, *at in zip(maps, rows, columns, strict=True))
    expected[np.ix_(rows[0], columns[0])] = of_b - of_a
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding(np.float32, 1.0))


@pytest.fixture(scope="module")
def patchings(run: TrainedRun) -> list[tuple[Patching, Patching]]:
    """Attribution patching and exact patching at each step."""
    models = [load_weights(run, step).model for step in STEPS]
    ways = run_attribution, run_patching
    return [tuple(way(model, *patched(run)) for way in ways) for model in models]  # type: ignore[misc]


@pytest.mark.parametrize("shown", ["streams", "heads", "sublayers"])
def test_every_checkpoint_has_the_shares_of_attribution_patching(
    start_page: Start, patchings: list[tuple[Patching, Patching]], shown: str
) -> None:
    asked = {"patching": "true", "attributed": "true", "attributed_map": shown, "compared": "true"}
    app = start_page("why", **AT, **PARTING, **asked)
    assert (app.errors, app.warnings) == ([], [])
    drawn = app.cells("patch_training")
    [table] = [each.value for each in app.dataframe]
    assert table["training step"].tolist() == list(STEPS)
    for column, (step, (near, exact)) in enumerate(zip(STEPS, patchings, strict=True)):
        odds, others = (parts_of(each)[shown] for each in (near, exact))
        shares = (odds - near.odds_a) / (near.odds_b - near.odds_a)
        bound = rounding(np.float32, LOGITS / abs(near.odds_b - near.odds_a))
        if not near.nothing_to_restore:
            drawn_there = drawn[:, column]
            np.testing.assert_allclose(drawn_there, np.nan_to_num(shares), rtol=0, atol=bound)
        differs = np.isfinite(odds) & (others != exact.odds_a)
        ranks = (np.argsort(np.argsort(each[differs])) for each in (odds, others))
        expected = np.corrcoef(*ranks)[0, 1]
        assert table[shown.capitalize()][column] == pytest.approx(expected, abs=0.02)
        if step == STEPS[-1]:
            assert f"{shown} {table[shown.capitalize()][column]:.2f}" in app.captions


def parts_of(found: Patching) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """The patches of each map, in the order of its rows."""
    return {
        "streams": np.concatenate([found.stream_encoder.ravel(), found.stream_decoder.ravel()]),
        "heads": np.concatenate([each.ravel() for each in found.heads.values()]),
        "sublayers": np.concatenate([each.ravel() for each in found.sublayers.values()]),
    }


def test_the_target_of_b_can_be_shared_and_ones_own(start_page: Start, run: TrainedRun) -> None:
    app = start_page("why", **AT).choose(shared_by="B")
    own = traced(run, OTHER)
    shared = traced(run, CATS, target=own.target_ids)
    app.expect_cells("pair_map_A", shared.attention["cross"][-1, 0])
    # The step stays where both translations have it.
    app = start_page("why", **AT, parting="2").choose(shared_by="B").run()
    assert app.view.why.parting == 2
    app = start_page("why", **AT, target="El perro.")
    forced = traced(run, CATS, target="El perro.")
    app.expect_cells("pair_map_A", forced.attention["cross"][-1, 0])
    assert "your translation" in said(app)


def test_a_token_of_either_translation_is_asked_about_with_that_translation(
    start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    patch_views(monkeypatch, "why", change_view=lambda *_, **choices: seen.append(choices))
    rows = record_calls(monkeypatch, "session", "token_buttons")
    start_page("why", **AT, **PARTING)
    assert (rows["pair-A"]["chosen"], rows["pair-B"]["chosen"]) == (1, None)
    for letter, place in (("B", 2), ("A", 0)):
        rows[f"pair-{letter}"]["on_click"](place)
    # A step of A's is one of the page's own target, which other pages show.
    assert seen == [{"shared_by": "B", "parting": 2}, {"shared_by": "A", "parting": 0, "at": 0}]


def test_at_first_words_are_where_translations_part(start_page: Start, run: TrainedRun) -> None:
    app = start_page("why", q=CATS, why="two sentences", other=DOG)
    a, b = traced(run, CATS).predicted, traced(run, DOG).predicted
    both = enumerate(zip(a.ids, b.ids, strict=False))
    place = next(n for n, (first, second) in both if first != second)
    words = (a.texts[place].strip(), b.texts[place].strip())
    assert f"Log-odds of **{words[0]}** and **{words[1]}**: " in said(app)


def test_changing_a_word_makes_b_and_swapping_exchanges_both(start_page: Start) -> None:
    app = start_page("why", q=CATS, why="two sentences", changed_word="1")
    app.choose(in_its_place="dogs")
    assert app.view.why.other == "The dogs don't see the dog."
    app.choose(in_its_place="cats").choose(in_its_place="dogs")  # of B as it is
    assert app.view.why.other == "The dogs don't see the dog."
    app.button(key="swap").click().run()
    assert app.view.sentence == "The dogs don't see the dog."
    assert app.view.why.other == CATS
    app.choose(sentence=DOG)
    assert app.view.why.other == CATS


def test_a_word_is_replaced_or_left_out() -> None:
    assert words_in("I don't know.") == ["I", "don't", "know", "."]
    assert with_word("I don't know.", 1, "didn’t") == "I didn’t know."
    assert with_word("Where is it?", 3, "!") == "Where is it!"
    assert with_word("The red  cat.", 1, " ") == "The cat."


def test_prepared_pairs_are_those_of_the_languages_whose_words_the_run_knows(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted((ROOT / "viz_app" / "sentences").glob("two-*.jsonl"))
    languages = ["de-en", "en-es", "symbols-copy"]
    assert [path.stem for path in files] == [f"two-{each}" for each in languages]
    written = {}
    for path in files:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert len({(row["a"], row["b"]) for row in rows if row["a"] != row["b"]}) == len(rows)
        written[path.stem] = [row["a"] for row in rows]
    for name in list_runs():
        shipped = open_trained_run(name)
        expected = written[f"two-{shipped.source_language}-{shipped.target_language}"]
        assert [pair.a for pair in prepared_pairs(shipped)] == expected
    assert [pair.a for pair in prepared_pairs(run)] == written["two-en-es"]
    st.cache_resource.clear()
    vocabulary = type(run.tokenizers.source)
    monkeypatch.setattr(vocabulary, "unknown", lambda _, text: ["cats"] * ("cats" in text))
    kept = [pair.a for pair in prepared_pairs(run)]
    rows = files[1].read_text(encoding="utf-8").splitlines()
    assert kept == [json.loads(row)["a"] for row in rows if "cats" not in row]
    assert 0 < len(kept) < len(rows)
    st.cache_resource.clear()


def test_what_is_typed_as_a_leaves_b_as_it_is(start_page: Start) -> None:
    """Also where it is the first sentence of a prepared pair; B was of none, or of another one."""
    for before, second in (("I am hungry.", ""), ("He was alone.", "She was alone.")):
        app = start_page("why", q=before, why="two sentences")
        assert app.widget("other").value == second
        app.choose(sentence="He is tired.")
        assert app.widget("other").value == second


def pair_of(a: str, b: str, shared: str = "A") -> tuple[TrainedRun, SentencePair]:
    """Two sentences of the run that ships, and the target of one of them given to both."""
    run = open_trained_run("en-es")
    model = run.load(run.steps()[-1]).model
    own = [run_trace(model, run.tokenizers, text) for text in (a, b)]
    target = own["AB".index(shared)].target_ids
    given = [run_trace(model, run.tokenizers, text, target) for text in (a, b)]
    return run, SentencePair(*own, *given)


@pytest.mark.parametrize(
    ("a", "b", "shared", "words"),
    [
        (
            "The boy is tired.",
            "The girls are tired.",
            "A",
            {"El": "El Las", "cansado": "cansado cansados"},
        ),
        ("The boy is tired.", "The girls are tired.", "B", {"cansados": "cansado cansados"}),
        ("She is at home.", "She is not at home.", "A", {"está": "está no"}),
    ],
)
def test_the_words_that_compete_are_those_of_the_two_translations(
    a: str, b: str, shared: str, words: dict[str, str]
) -> None:
    run, pair = pair_of(a, b, shared)
    for word, competing in words.items():
        ids = pair.first_words(pair.a.predicted.texts.index(f" {word}"))
        assert " ".join(run.tokenizers.target.decode([id]) for id in ids) == competing


def test_where_both_have_the_same_word_the_likeliest_other_one_competes() -> None:
    _, pair = pair_of("The man was there.", "The men were there.")
    at = pair.a.predicted.texts.index(".")
    word, other = pair.first_words(at)
    likeliest = [id for id in pair.b.predictions.top_ids[at] if id != word]
    assert (word, other) == (pair.own_a.predicted.ids[at], likeliest[0])


def test_where_both_prefer_one_word_there_is_no_answer_to_bring_back(start_page: Start) -> None:
    """The shared start of the target has decided it; a click asks where the translations part."""
    address = {"q": "The boy is tired.", "other": "The girls are tired.", "why": "two sentences"}
    app = start_page("why", CHECKPOINTS, run="en-es", parting="3", **address)
    info = unescaped(" ".join(each.value for each in app.info))
    assert "After both sentences **cansado** is likelier here than **cansados**" in info
    app.button(key="to-parting").click().run()
    assert app.view.why.parting is None
    assert not any("After both sentences" in each.value for each in app.info)


def test_patching_in_slices_is_stopped(start_page: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.model.interventions.POSITIONS_AT_A_TIME", 100)
    app = start_page("why", **AT, parting="1")
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(patching=True)
    assert "patch_stream_encoder" not in app.charts
    app.button(key="stop-patching-progress").click().run()
    assert not app.view.why.patching
    assert "Chosen again, it goes on from there" in app.captions
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    app.choose(patching=True)
    assert "patch_stream_encoder" in app.charts
    app.choose(patching=False)
    assert "goes on from there" not in app.captions


def test_where_exact_passes_would_take_too_long_attribution_patching_is_drawn_alone(
    start_page: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is run, whatever the address asks for; what is drawn is called an approximation."""
    monkeypatch.setattr("headwise.viz_app.why.sentences.patches.A_SECOND", 1)
    monkeypatch.setattr("headwise.viz_app.why.sentences.patches.patched_odds", None)
    asked = {"patching": "true", "attributed": "true", "compared": "true", "patch": "cross.2.1"}
    app = start_page("why", **AT, **PARTING, **asked)
    [warning] = app.warnings
    assert "give a shorter sentence, or ask about an earlier token" in warning
    model = load_weights(run, 60).model
    found = run_attribution(model, *patched(run))
    bound = rounding(np.float32, LOGITS / abs(found.odds_b - found.odds_a))
    shares = (found.heads["cross"] - found.odds_a) / (found.odds_b - found.odds_a)
    np.testing.assert_allclose(app.cells("patch_heads_cross"), shares, rtol=0, atol=bound)
    said_of_each = targets(app, "patch_heads_cross").values()
    assert all("restored to first order" in each for each in said_of_each)
    assert app.cells("patch_training").shape[1] == len(STEPS)
    assert list(app.dataframe) == []  # nothing to compare with
