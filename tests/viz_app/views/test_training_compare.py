"""The section "compare" of the page Training, run without a browser on tiny runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    load_weights,
    open_trained_run,
    save_weights,
    tokenizer_sha256,
    weights_path,
)
from headwise.model.config import BOS, EOS
from headwise.model.files import append_log
from headwise.model.interface import KINDS, Kind
from headwise.model.run_info import Counts
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.differences import head_distances
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.figures.mosaic import MASKED, tile
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.shared.head_choice import head_label
from headwise.viz_app.views.training import shared_target
from tests.viz_app.views.driver import (
    CATS,
    CATS_TRANSLATED,
    DOG,
    DOG_TRANSLATED,
    Start,
    assert_cells,
    assert_drawn,
    break_file,
    captions,
    cells,
    charts,
    choose,
    errors,
    shown,
    texts,
    traced,
    unescaped,
    widget,
)

PAGE, ADDRESS = "training", {"training": "compare"}


@pytest.fixture
def word_root(own_root: Path, run: TrainedRun, make_model: Callable[..., Transformer]) -> Path:
    """Beside ``tiny`` a run of the same languages that reads words, of 2 layers of 2 heads."""
    pairs = [(CATS, CATS_TRANSLATED), (DOG, DOG_TRANSLATED)]
    tokenizers = TokenizerPair.train(pairs, kind="word", vocab_sizes=(40, 43), shared=False)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = make_model(source_vocab_size=sizes[0], target_vocab_size=sizes[1], n_heads=2)
    info = replace(
        run.info, name="words", model=model.config, tokenizer_sha256=tokenizer_sha256(tokenizers)
    )
    counts = Counts([1] * sizes[0], [1] * sizes[1])
    create_run(own_root / "words", info, tokenizers, counts)
    save_weights(own_root / "words", model, run="words", step=7)
    other = replace(run.info, name="others", target_language="fr")
    create_run(own_root / "others", other, run.tokenizers, run.counts)
    save_weights(own_root / "others", load_weights(run, 0).model, run="others", step=0)
    return own_root


def shared_traces(run: TrainedRun, a: int, b: int) -> tuple[Trace, Trace]:
    """Of two steps, on what the newest makes of the sentence."""
    target = traced(run).target_ids
    return traced(run, step=a, target=target), traced(run, step=b, target=target)


# Two checkpoints


def test_the_chosen_head_of_both_and_the_signed_difference(start: Start, run: TrainedRun) -> None:
    app = start(step="0", other_step="20", kind="decoder_self", layer="2", head="3")
    assert errors(app) == []
    a, b = (trace.attention["decoder_self"][1, 2] for trace in shared_traces(run, 0, 20))
    assert_cells(app, "map-A", a)
    assert_cells(app, "map-B", b)
    assert_cells(app, "difference", b - a)
    drawn = charts(app)["difference"]["data"]
    assert (drawn[0]["zmin"], drawn[0]["zmax"]) == (-1, 1)
    assert len(drawn) == 2  # masked cells lie over it


def test_translations_stand_side_by_side_with_their_log_probabilities(
    start: Start, run: TrainedRun
) -> None:
    app = start(step="60", other_step="20")
    own = [traced(run, step=step) for step in (20, 60)]
    drawn = texts(app)
    assert [text for text in drawn if text in {trace.target_text for trace in own}][:2] == [
        trace.target_text for trace in own
    ]
    notes = captions(app)
    for trace, forced in zip(own, shared_traces(run, 20, 60), strict=True):
        total, given = (float(t.predictions.log_probability.sum()) for t in (trace, forced))
        said = "log-probability {:.2f} nats. The shared target has {:.2f} nats here."
        assert any(told in notes for told in shown(said, total, given))
    assert "the translation at step 60, given to both" in notes


@pytest.mark.parametrize(("step", "other"), [("60", "20"), ("20", "60")])
def test_the_earlier_checkpoint_is_a_whichever_is_selected(
    start: Start, run: TrainedRun, step: str, other: str
) -> None:
    app = start(step=step, other_step=other, kind="cross", layer="1", head="1")
    a, b = (trace.attention["cross"][0, 0] for trace in shared_traces(run, 20, 60))
    assert_cells(app, "difference", b - a)
    link = app.button(key="open-A")
    assert link.label == "Open step 20 on Translate"
    link.click().run()
    assert (app.session_state["opening"], app.session_state["session"].view.step) == (
        "translate",
        20,
    )


@pytest.mark.parametrize(("step", "expected"), [("60", 20), ("20", 60)])
def test_at_first_it_is_set_against_the_end_or_the_middle(
    start: Start, step: str, expected: int
) -> None:
    app = start(step=step)
    assert widget(app, "other_step").value == expected


def test_a_checkpoint_is_never_compared_with_itself(start: Start) -> None:
    app = start(step="60", other_step="20")
    choose(app, step=20)
    assert errors(app) == []
    assert widget(app, "other_step").options == ["0", "60"]


def test_all_kinds_are_ranked_and_a_button_opens_a_head(start: Start, run: TrainedRun) -> None:
    app = start(step="0", other_step="60")
    traces = shared_traces(run, 0, 60)
    distances: dict[Kind, Any] = {
        kind: head_distances(
            *(trace.attention[kind] for trace in traces), allowed=make_grid(traces[0], kind).allowed
        )
        for kind in KINDS
    }
    drawn = cells(app, "distances")
    expected = np.hstack([distances[kind] for kind in KINDS])
    assert_drawn(drawn[:, [0, 1, 2, 4, 5, 6, 8, 9, 10]], expected)
    order = rank_heads(distances)[:5]
    named = [app.button(key=f"farthest-{place}").label for place in range(5)]
    for label, (head, distance) in zip(named, order, strict=True):
        assert label in shown(f"{head_label(head)} · {{:.2f}}", distance, size=1)
    assert "mean over rows with more than one key" in captions(app)
    assert "no row has more than one key" not in captions(app)


def test_heads_without_a_choice_of_keys_have_no_distance(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder's one row, which consumes the start and predicts the end, has one key."""
    monkeypatch.setattr(shared_target, "translation_of", lambda *_: (BOS, EOS))
    app = start(step="0", other_step="60")
    assert errors(app) == []
    drawn = cells(app, "distances")
    assert np.isnan(drawn[:, 4:7]).all()
    assert np.isfinite(drawn[:, [0, 1, 2, 8, 9, 10]]).all()
    named = [button.label for button in app.button if str(button.key).startswith("farthest-")]
    assert len(named) == 5
    assert not [label for label in named if "Decoder" in label]
    assert "“–”: no row has more than one key." in captions(app)


def test_all_heads_of_a_kind_are_drawn_as_differences(start: Start, run: TrainedRun) -> None:
    app = choose(start(step="0", other_step="60"), kind="decoder_self")
    traces = shared_traces(run, 0, 60)
    a, b = (trace.attention["decoder_self"] for trace in traces)
    allowed = make_grid(traces[0], "decoder_self").allowed
    drawn = cells(app, "overview-mosaic")  # one code more or less where a weight is beside a tie
    np.testing.assert_allclose(
        drawn, tile(((b - a + 1) / 2).astype(np.float32), allowed), rtol=0, atol=1
    )
    assert MASKED in drawn
    choose(app, overview="A")
    np.testing.assert_allclose(cells(app, "overview-mosaic"), tile(a, allowed), rtol=0, atol=1)


def test_words_instead_of_tokens(start: Start, run: TrainedRun) -> None:
    app = start(step="0", other_step="60", units="words", layer="1", head="2")
    a, b = (
        make_grid(trace, "cross", GridOptions("words")).apply(trace.attention["cross"])[0, 1]
        for trace in shared_traces(run, 0, 60)
    )
    assert_cells(app, "difference", b - a)


# The shared target


def test_a_sample_s_reference_can_be_shared(start: Start, own_root: Path, run: TrainedRun) -> None:
    row = {"step": 0, "source": CATS, "reference": CATS_TRANSLATED, "shows": "reference"}
    append_log(own_root / "tiny" / "samples.jsonl", [row])
    app = start(own_root, q=CATS, shared="reference", step="0", other_step="60", layer="1")
    assert CATS_TRANSLATED in texts(app)
    a, b = (
        traced(run, step=step, target=CATS_TRANSLATED).attention["cross"][0, 0] for step in (0, 60)
    )
    assert_cells(app, "difference", b - a)


def test_without_a_reference_none_is_offered(start: Start) -> None:
    assert widget(start(), "shared").options == [
        "newest checkpoint's output",
        "your own",
    ]


def test_a_translation_of_ones_own_can_be_shared(start: Start, run: TrainedRun) -> None:
    app = start(shared="own", step="0", other_step="60", layer="2", head="1")
    assert "the translation at step 60, given to both" in captions(app)
    choose(app, target="El perro <b>")
    assert "your translation, given to both" in captions(app)
    a, b = (
        traced(run, step=step, target="El perro <b>").attention["cross"][1, 0] for step in (0, 60)
    )
    assert_cells(app, "difference", b - a)


# Two runs


def test_only_runs_of_the_same_languages_are_offered(start: Start, word_root: Path) -> None:
    assert widget(start(word_root, run="tiny"), "other_run").options == ["tiny", "words"]
    assert start(word_root, run="others", q=CATS).info[0].value == (
        "The run has one checkpoint only, and there is no other run of its languages."
    )


def test_runs_with_other_tokenizers_are_compared_by_words(
    start: Start, word_root: Path, run: TrainedRun
) -> None:
    app = start(
        word_root,
        run="tiny",
        q=CATS,
        other_run="words",
        shared="own",
        target=CATS_TRANSLATED,
        layer="2",
        head="2",
    )
    assert errors(app) == []
    words = open_trained_run("words", root=word_root)
    a, b = (
        make_grid(trace, "cross", GridOptions("words")).apply(trace.attention["cross"])[1, 1]
        for trace in (
            traced(run, step=60, target=CATS_TRANSLATED),
            traced(words, step=7, target=CATS_TRANSLATED),
        )
    )
    assert a.shape == b.shape
    assert_cells(app, "map-B", b)
    assert_cells(app, "difference", b - a)
    notes = captions(app)
    assert "compared by words" in notes
    assert "do not compare their log-probabilities" in notes
    assert "Not ranked: here A has 2 layers of 3 heads, B 2 of 2" in notes
    assert "distances" not in charts(app)

    choose(choose(app, unpaired=True), other_head=1)
    b = make_grid(
        traced(words, step=7, target=CATS_TRANSLATED), "cross", GridOptions("words")
    ).apply(traced(words, step=7, target=CATS_TRANSLATED).attention["cross"])[1, 0]
    assert_cells(app, "difference", b - a)
    choose(app, head=3)  # of which the other has none
    assert errors(app) == []
    assert_cells(app, "map-B", b)


def test_other_words_are_named_and_maps_stand_side_by_side(
    start: Start, word_root: Path, run: TrainedRun
) -> None:
    twice = "The  cats"  # a space is a token, and no word of the other
    app = start(word_root, run="tiny", q=twice, other_run="words")
    assert errors(app) == []
    [info] = app.info
    assert unescaped(info.value).startswith("Word 2 of the source is “␣” for tiny and “cats” for")
    assert list(charts(app)) == ["map-A", "map-B"]


def test_a_broken_checkpoint_of_the_other_is_named(start: Start, own_root: Path) -> None:
    path = weights_path(own_root / "tiny", 0)
    break_file(path)
    app = start(own_root, other_step="0")
    (message,) = errors(app)
    assert message.startswith(f"tiny/{path.name}: truncated")
    choose(app, other_step=20)
    assert errors(app) == []
    assert "difference" in charts(app)
