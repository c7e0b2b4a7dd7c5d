"""The page Translate, run without a browser on the tiny run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from streamlit.runtime.scriptrunner_utils.exceptions import StopException

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search, length_norm
from headwise.model.decoding.greedy import greedy
from headwise.model.interface import KINDS, Description, Head
from headwise.model.interventions import head_costs
from headwise.model.tokenizer import TokenizerPair
from headwise.model.turned import Turned, TurnedHead
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import next_token_label, token_label, token_labels
from headwise.viz_app.analysis.rollout import rollout_of
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.figures.heads import tile
from headwise.viz_app.measuring.contributions import mixed_tokens, residual_norm_maps
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.records.trace import Check, Floats, Tokens, Trace, Word
from headwise.viz_app.session import caches
from headwise.viz_app.session.head_choice import head_label
from headwise.viz_app.session.target import describe_ending, word_probabilities
from headwise.viz_app.trace import sentence
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate import shown_map
from headwise.viz_app.translate.sinks.found import Sink, Unread, costs_of_unread
from tests.floats import assert_near, near
from tests.viz_app.measures import made_up_means, made_up_measures
from tests.viz_app.pages.driver import (
    CATS,
    CATS_TRANSLATED,
    DOG,
    DOG_TRANSLATED,
    WIDGETS,
    Page,
    Start,
    array,
    assert_drawn,
    field_of,
    log_probability,
    patch_views,
    record_calls,
    shown,
    table,
    texts_in,
    traced,
    unescaped,
)

PAGE = "app"


def likeliest(trace: Trace, step: int) -> Floats:
    """Return the probabilities of the likeliest tokens at a step."""
    return np.exp(trace.predictions.top_log_probability[step])


# The sentence and its translation


def test_it_starts_with_an_example_by_the_newest_checkpoint(opened: Page, run: TrainedRun) -> None:
    assert (opened.widget("sentence").value, opened.widget("step").value) == (CATS, 60)
    assert CATS_TRANSLATED in opened.texts
    assert {*opened.charts} == {"mosaic", "large", "top_tokens", "rows_cross"}
    trace = traced(run)
    source, target = (opened.token_row(side) for side in ("source", "target"))
    assert [token["label"] for token in source] == token_labels(trace.source)
    assert [token["label"] for token in target] == token_labels(trace.predicted)
    told = f"probability {{:.3f}}, rank {trace.predictions.rank[1]}"
    probability = np.exp(trace.predictions.log_probability[1])
    assert target[1]["title"] in shown(told, probability, size=1)
    assert not opened.warning


def test_the_size_of_the_model_stands_below_its_name(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_DTYPE", "bfloat16")
    assert f"{run.parameters * 2 / 2**20:.1f} MiB; reads" in start().captions


def test_a_typed_sentence_is_encoded_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    page = start()
    counts: Counter[str] = Counter()

    def count(place: Any, name: str, what: str = "") -> None:
        function: Callable[..., Any] = getattr(place, name)

        def counted(*given: Any, **named: Any) -> Any:
            counts[what or name] += 1
            return function(*given, **named)

        monkeypatch.setattr(place, name, counted)

    count(TokenizerPair, "encode_source")
    count(TokenizerPair, "encode_target")
    for place in (sentence, caches):
        count(place, "require_source")
    count(Description, "__init__", "descriptions")
    count(os, "stat")
    page.choose(sentence="Where is the old cat?")
    assert not page.errors
    assert page.charts["large"]
    assert counts["encode_source"] == counts["require_source"] == 1
    assert counts["encode_target"] == 0
    assert counts["descriptions"] <= 1
    assert counts["stat"] <= 70, counts


def test_examples_and_another_checkpoint(start: Start, run: TrainedRun) -> None:
    app = start().menu_button(key="example").click("question").run()
    assert app.widget("sentence").value == DOG
    assert DOG_TRANSLATED in app.texts
    app.choose(step=0)
    expected = traced(run, DOG, step=0).target_text
    assert expected != DOG_TRANSLATED
    assert expected in app.texts
    assert "cut off at 26 tokens" in app.captions
    assert (app.address["q"], app.address["step"]) == (DOG, "0")


def test_of_a_long_map_a_stretch_is_drawn_that_one_moves(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first the rows around the chosen one, and the columns with most of their weight."""
    monkeypatch.setattr(shown_map, "MOST_LABELLED", 5)
    trace = traced(run, text=DOG)
    weights = trace.attention["cross"][1, 2]
    app = start(q=DOG, kind="cross", layer="2", head="3", at="4")
    rows, columns = app.widget("first_row").value, app.widget("first_column").value
    assert rows == 3
    sums = [weights[3:8, first : first + 5].sum() for first in range(weights.shape[1] - 4)]
    assert sums[columns] == near(max(sums), dtype=np.float32)
    app.expect_cells("large", weights[3:8, columns : columns + 5])
    other = 0 if columns else 1
    app.choose(first_row=2).choose(first_column=other)
    app.expect_cells("large", weights[2:7, other : other + 5])
    assert (app.address["first_row"], app.address["first_column"]) == ("2", str(other))
    labels = app.charts["large"]["layout"]["xaxis"]["labelalias"]
    assert labels["0"] == token_labels(trace.source)[other]


def test_what_is_too_long_for_the_address_is_left_out_and_named(start: Start) -> None:
    app = start(q="The dog.")
    note = "Too long for the page's address, and left out of it: "
    # A Chinese letter is three bytes, each written as three characters.
    for count, kept in ((600, True), (670, False)):
        assert app.choose(sentence="字" * count).errors
        assert ("q" in app.query_params) is kept
        assert (f"{note}the sentence." in app.captions) is not kept
    assert app.choose(sentence="The dog.").choose(target="字" * 670).errors
    assert app.address["q"] == "The dog."
    assert "target" not in app.query_params
    assert f"{note}the forced translation." in app.captions


def test_a_text_of_more_than_20_000_characters_is_not_taken(start: Start) -> None:
    app = start(q=DOG)
    for field in ("sentence", "target"):
        app.choose(**{field: "a" * 20_001})
        [said] = app.warnings
        assert "20,001 characters was entered; at most 20,000 are read" in said
        assert DOG_TRANSLATED in app.texts
        assert app.widget("sentence").value == DOG
        assert app.run().warnings == []  # the browser has forgotten it


@pytest.mark.parametrize(
    ("ids", "step", "expected"),
    [
        ((5, 6, 3), -1, ""),
        ((3,), -1, "The model ended the sentence at once."),
        ((5, 6, 7), -1, "It did not end the sentence; cut off at 3 tokens."),
        ((2, 2, 2), 0, "The untrained model said nothing but <s>; cut off at 3 tokens."),
    ],
)
def test_how_targets_end(run: TrainedRun, ids: tuple[int, ...], step: int, expected: str) -> None:
    texts_of = tuple(run.tokenizers.target.tokens(ids))
    words = tuple(Word(text, at, at + 1) for at, text in enumerate(texts_of))
    text = run.tokenizers.target.decode(ids)
    predicted = Tokens(ids, texts_of, words)
    ended = replace(traced(run), step=run.steps()[step], predicted=predicted, target_text=text)
    assert unescaped(describe_ending(run, ended)) == expected


def test_a_self_check_that_fails_warns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Trace:
        return replace(run_trace(*args, **kwargs), checks=(Check("all is well", 0.5, 0.1),))

    monkeypatch.setattr(caches, "run_trace", broken)
    app = start(q="The cats see the old dog.")
    assert app.warnings == ["Do not trust these maps. Not so: all is well (off by 5.0e-01)"]


def test_what_a_browser_had_before_is_no_choice(start: Start) -> None:
    """It sends what all widgets have, of one in a closed menu what it had before it was set."""
    for head in (1, 2):
        app = start().choose(target=DOG_TRANSLATED)
        assert (app.view.target, app.view.head) == (DOG_TRANSLATED, 1)
        before = app.widget("head")
        for each in (each for kind in WIDGETS for each in getattr(app, kind)):
            each.set_value(each.value)  # else AppTest asks the server for it when it sends it
        app.choose(sentence=DOG)
        assert (app.view.target, app.view.head) == ("", 1)
        before.set_value(head).run()
        assert (app.view.target, app.view.head) == ("", head)


def test_what_was_drawn_in_a_run_that_was_overtaken_is_sent_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser may never have seen it: its widgets would show nothing chosen."""

    def sent(app: Page) -> tuple[list[str], bool]:
        drawn = app.widget("style")
        return drawn.value, drawn.proto.set_value

    def overtaken(*_: object) -> NoReturn:
        raise StopException  # as Streamlit does when another run begins

    app = start()
    assert sent(app.run()) == ("map", False)
    app.choose(compare=True)  # without the choice of a style
    with monkeypatch.context() as patch:
        patch_views(patch, "translate", _show_below=overtaken)
        app.choose(compare=False)
    assert sent(app.run()) == ("map", True)
    assert sent(app.run()) == ("map", False)


# Maps


def words(trace: Trace, layer: int, rows_by: str = "predicted") -> Floats:
    """Add weights of cross-attention over the tokens of a key's word; the mean over a query's."""
    weights = trace.attention["cross"][layer]
    rows = trace.predicted if rows_by == "predicted" else trace.consumed
    keys = [slice(word.start, word.stop) for word in trace.source.words]
    of_keys = np.stack([weights[..., key].sum(axis=-1) for key in keys], axis=-1)
    queries = [slice(word.start, word.stop) for word in rows.words]
    return np.stack([of_keys[..., query, :].mean(axis=-2) for query in queries], axis=-2)


def without_special(trace: Trace, weights: Floats) -> Floats:
    """Leave out </s> of the source and, of rows by what they predict, of the target."""
    return weights[..., :-1, :-1]


def renormalised(weights: Floats) -> Floats:
    return weights / weights.sum(axis=-1, keepdims=True)


def by_value_norms(trace: Trace) -> Floats:
    """Return the weights of cross-attention times their values' lengths, as shares of each row."""
    return renormalised(trace.attention["cross"] * trace.value_norms["cross"][:, :, None])


def test_alti_stands_beside_rollout_and_where_they_differ(start: Start, run: TrainedRun) -> None:
    """Of the second decoder layer; the strongest column of each row is compared."""
    trace, model = traced(run), load_weights(run, 60).model
    mixed = mixed_tokens(model, PaddedIds.of_trace(trace, model))
    app = start(show="rollout", layer="2")
    app.expect_cells("alti", mixed.maps["cross"][1])
    rolled = rollout_of(trace, "cross", 1, "weight")
    same = int((rolled.argmax(axis=1) == mixed.maps["cross"][1].argmax(axis=1)).sum())
    assert f"the same column in {same} of {len(rolled)} rows" in app.captions
    kept = ", ".join(f"{share:.2f}" for share in mixed.kept["cross"])
    assert f"keeps {kept}, layer by layer" in app.captions
    own = start(show="rollout", layer="1", kind="encoder_self", units="words")
    grid = make_grid(trace, "encoder_self", GridOptions("words"))
    own.expect_cells("alti", grid.apply(mixed.maps["encoder_self"][0]))


def test_norms_with_the_residual_stand_beside_those_without(start: Start, run: TrainedRun) -> None:
    trace, model = traced(run), load_weights(run, 60).model
    maps = residual_norm_maps(model, PaddedIds.of_trace(trace, model))
    app = start(show="mean", layer="1", cells="value norm")
    app.expect_cells("with-residual", maps["cross"][0][:, :-1])
    assert f"on average {maps['cross'][0][:, -1].mean():.2f} of a row" in app.captions
    own = start(show="mean", layer="2", kind="encoder_self", cells="value norm")
    own.expect_cells("with-residual", maps["encoder_self"][1])


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("kind=encoder_self layer=2 head=2 step=20", lambda t: t.attention["encoder_self"][1, 1]),
        ("layer=1 units=words show=max", lambda t: words(t, 0).max(axis=0)),
        ("layer=2 head=2 units=words rows=consumed", lambda t: words(t, 1, "consumed")[1]),
        ("layer=2 show=rollout", lambda t: rollout_of(t, "cross", 1, "weight")),
        (
            "layer=1 head=3 special=false renormalised=true cells=value+norm",
            lambda t: renormalised(without_special(t, by_value_norms(t)[0, 2])),
        ),
        (
            "layer=1 show=mean special=false cells=value+norm",
            lambda t: without_special(t, renormalised(t.head_sum_norms["cross"][0])),
        ),
    ],
)
def test_the_large_map_is_what_the_link_says(
    start: Start, run: TrainedRun, link: str, expected: Callable[[Trace], Floats]
) -> None:
    asked = dict(part.split("=") for part in link.replace("+", "_").split())
    asked = {name: value.replace("value_norm", "value norm") for name, value in asked.items()}
    app = start(**asked)
    trace = traced(run, step=int(asked.get("step", 60)))
    app.expect_cells("large", expected(trace))
    sums_to_1 = asked.get("show") != "max" and ("special" not in asked or "renormalised" in asked)
    assert ("Rows sum to 1." in app.captions) is sums_to_1


def test_the_picture_of_all_heads_holds_every_weight(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start(kind="decoder_self")
    weights = traced(run).attention["decoder_self"]
    # One code more or less where a weight is beside a tie.
    expected = tile(weights, np.tri(weights.shape[-1], dtype=bool))
    np.testing.assert_allclose(app.cells("mosaic"), expected, rtol=0, atol=1)
    assert len(app.frames("mosaic")) == 1  # of the head that is shown large
    patch_views(monkeypatch, "translate", MOST_CELLS=6)
    app.choose(kind="encoder_self")
    assert app.cells("large").shape == (12, 12)
    assert app.cells("mosaic").shape == (2 * 7 - 1, 3 * 7 - 1)


def test_the_map_is_described_by_its_numbers(start: Start, run: TrainedRun) -> None:
    app = start(kind="decoder_self", layer="1", head="2")
    weights = traced(run).attention["decoder_self"][0, 1]
    [said] = [unescaped(m.value) for m in app.markdown if "In this sentence" in m.value]
    for template, value in (
        ("largest weight {:.2f}", weights[1:].max()),
        ("{:.2f} on <s>", weights[1:, 0].mean()),
        ("{:.2f} on the token itself", np.diag(weights)[1:].mean()),
    ):
        assert any(each in said for each in shown(template, value))
    assert re.search(r"Of all heads [A-Z][a-z ]+ \d\.\d rests most on punctuation", said)


# A step of decoding


def test_the_likeliest_tokens_of_the_chosen_step(start: Start, run: TrainedRun) -> None:
    app = start()
    trace = traced(run)
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    for step in (0, 2):
        app = app.choose(at=step).run()
        one_key = "There is only <s> to look at: each head has all its weight there."
        assert (one_key in app.captions) is ("rows_decoder_self" not in app.charts) is (step == 0)
        assert_drawn(array(app.charts["top_tokens"]["data"][0]["x"]), likeliest(trace, step))
        [frame] = app.frames("large")
        assert (frame["y0"], frame["y1"]) == (step - 0.5, step + 0.5)
        beside = [app.button(key=f"next-token-{place}") for place in range(5)]
        labels = [next_token_label(token, spaced=True) for token in trace.top_tokens[step][:5]]
        assert [each.label.rsplit(" ", 1)[0] for each in beside] == labels
        ids = trace.predictions.top_ids[step][:5]
        assert [each.disabled for each in beside] == [id == trace.predicted.ids[step] for id in ids]
        tokens = texts_in(app.markup("<bdi style")[0], "bdi")
        assert tokens == [*consumed[: step + 1], predicted[step]]


def test_sampling_changes_the_probabilities_of_the_step(start: Start, run: TrainedRun) -> None:
    app, expected = start(below="steps", at="1"), likeliest(traced(run), 1)
    assert "sampled" not in app.charts
    app.choose(sampling=True)
    drawn = array(app.charts["sampled"]["data"][0]["x"])
    assert_drawn(drawn[: len(expected)], expected[:10])
    app.choose(top_k=2, temperature=0.5)
    squares = expected[:2].astype(np.float64) ** 2
    assert_drawn(array(app.charts["sampled"]["data"][0]["x"])[:2], squares / squares.sum())
    assert f"2 of {run.description.target_vocab_size} tokens can be drawn" in app.captions
    assert f"once in {squares.sum() / squares[1]:,.0f}" in app.captions
    assert app.address["top_k"] == "2"


def test_a_forced_token_is_followed_by_the_model(start: Start, run: TrainedRun) -> None:
    """The fifth candidate in the fourth place, beside the map; chosen for that step only."""
    app, whole = start().choose(at=3), traced(run)
    app.button(key="next-token-4").click().run()
    prefix = [*whole.target_ids[:4], int(whole.predictions.top_ids[3][4])]
    [target] = greedy(load_weights(run, 60).model, [run.tokenizers.encode_source(CATS)], prefix)
    assert target[: len(prefix)] == prefix
    forked = traced(run, target=tuple(target))
    assert forked.target_text in app.texts
    scores = log_probability(forked), log_probability(whole)
    wanted = shown("Log-probability {:.2f} nats, against {:.2f} of the translation abo", *scores)
    assert [c for c in app.caption if c.value.startswith(wanted)]
    assert app.choose(at=2).widget("fork").value == ""


# Below the maps


@pytest.mark.parametrize(
    ("asked", "drawn", "left_out"),
    [
        ({}, "at", "strengths"),
        ({"off": "cross.1.1"}, "strengths", "at"),
        ({"rank": "true"}, "strengths", "at"),
        ({"decoding": "beam", "below": "beam"}, "tree", "at"),
        ({"below": "beam"}, "at", "tree"),  # greedy has none
    ],
)
def test_a_link_opens_the_section_of_its_choices_and_no_other(
    start: Start, asked: dict[str, str], drawn: str, left_out: str
) -> None:
    app = start(**asked)
    keys = {*map(field_of, [*app.selectbox, *app.multiselect])} | app.charts.keys()
    assert drawn in keys
    assert left_out not in keys
    assert asked.get("target", CATS_TRANSLATED) in app.texts


def test_beams_are_traced(start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    app = start().choose(decoding="beam")
    assert app.widget("beam").value == 4
    app.choose(beam=3)
    model = load_weights(run, 60).model
    [beam] = beam_search(model, [run.tokenizers.encode_source(CATS)], size=3)
    decode = run.tokenizers.target.decode
    options = [option.split("  ·  ", 1) for option in app.widget("hypothesis").options]
    best = decode(beam.hypotheses[0].target)
    for place, ((score, text), h) in enumerate(zip(options, beam.hypotheses, strict=True), 1):
        assert score.split(": ")[0] == str(place)
        assert score.split(": ")[1] in shown("{:.2f}", h.score)
        before, cut, after = text.rpartition("… ")
        assert best.startswith(decode(h.target).removesuffix(after)) if cut else before == ""
        assert decode(h.target).endswith(after)
    assert beam.hypotheses[0].target != beam.hypotheses[2].target

    app.choose(hypothesis=2, below="beam").run()
    trace = traced(run, target=tuple(beam.hypotheses[2].target))
    score = log_probability(trace) / length_norm(len(trace.predicted), 0.6)
    assert app.says("Its score in the beam, {:.2f}, is the log-probability divided by", score)
    app.expect_cells("large", trace.attention["cross"][-1, 0])
    tokens = run.tokenizers.target.tokens([node.id for node in beam.tree])
    for text, token in zip(app.charts["tree"]["data"][3]["text"], tokens, strict=True):
        assert token_label(token).startswith(unescape(text).removesuffix("…"))

    patch_views(monkeypatch, "translate", _MOST_STEPS=4)
    steps = [node.step for node in beam.tree]

    def drawn() -> list[int]:
        return [round(x + 0.34) for x in app.charts["tree"]["data"][3]["x"]]

    app.run()
    assert drawn() == [step for step in steps if step <= 4]
    last = int(app.widget("tree_from").max)
    app.choose(tree_from=last)
    assert drawn() == [step for step in steps if step >= last]
    assert app.choose(beam=2).widget("hypothesis").value == 0


def test_heads_off_change_the_translation_and_are_ranked(start: Start, run: TrainedRun) -> None:
    def without(off: Sequence[Head], target: Sequence[int] | None = None) -> Trace:
        model, turned = load_weights(run, 60).model, Turned.off(off)
        return run_trace(model, run.tokenizers, CATS, target, turned=turned)

    app, whole = start(below="off"), traced(run)
    off = [Head("cross", 1, 0), Head("cross", 1, 1), Head("cross", 1, 2), Head(KINDS[0], 0, 2)]
    app.choose(strengths=[TurnedHead(head) for head in off])
    own, forced = without(off), without(off, whole.target_ids)
    assert own.target_text != whole.target_text
    assert {whole.target_text, own.target_text} <= set(app.texts)
    before, after = log_probability(whole), log_probability(forced)
    wanted = "{:.2f} nats with all heads, {:.2f} without these ({:+.2f})."
    told = shown(wanted, before, after, after - before, size=max(abs(before), abs(after)))
    assert [caption for caption in app.caption if caption.value.endswith(told)]

    cost = before - log_probability(without([Head("cross", 1, 2)], whole.target_ids))
    size = abs(before) + abs(cost)  # of the sums that a cost is a difference of
    drawn = app.choose(rank=True).cells("costs")[1, 10]  # a column lies between two kinds
    assert drawn == near(cost, dtype=np.float32, size=size)


def test_heads_are_ranked_by_where_they_look_beside_an_even_head(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = record_calls(monkeypatch, "translate", "row_table")
    app, trace = start(below="off", rank="true", ranked_by="end"), traced(run)
    rows = lists["looking"]["given"][1]
    labels, bars, even = zip(*(row.cells for row in rows), strict=True)
    shares = {
        head_label(Head(kind, layer, head)): float(
            trace.attention[kind][layer, head, :, -1].mean(dtype=np.float64)
        )
        for kind in ("encoder_self", "cross")
        for layer in range(2)
        for head in range(3)
    }
    assert sorted(labels) == sorted(shares)
    values = [shares[label] for label in labels]
    assert values == sorted(values, reverse=True)
    for bar, value in zip(bars, values, strict=True):
        assert bar.value == near(value, dtype=np.float32)
    assert set(even) == {f"{1 / len(trace.source):.2f}"}
    app.button(key="costliest-off").click().run()
    assert [head_label(each.head) for each in app.view.strengths] == list(labels[:3])


def test_heads_are_ranked_by_the_mean_in_their_place_where_it_was_measured(
    start_page: Start, own_root: Path, run: TrainedRun
) -> None:
    folder, loaded = own_root / "tiny", load_weights(run, 60)
    at = {"q": CATS, "below": "off", "rank": "true", "ablation": "mean"}
    app = start_page("translate", own_root, **at)
    assert "have not been measured" in app.info[0].value
    assert any("--steps 60 --only means" in code.value for code in app.code)
    assert "costs" not in app.charts

    means = made_up_means(60, sha256=loaded.sha256)
    means.write(folder)
    app = start_page("translate", own_root, **at)
    trace = traced(run)
    tensors = {kind: torch.tensor(array) for kind, array in means.means.items()}
    costs = head_costs(loaded.model, trace.source.ids, trace.target_ids, means=tensors)
    drawn, size = app.cells("costs"), abs(log_probability(trace)) + 10
    for place, kind in enumerate(KINDS):
        expected = costs[kind].numpy(force=True)
        assert_near(drawn[:, 4 * place : 4 * place + 3], expected, dtype=np.float32, size=size)
    zero = head_costs(loaded.model, trace.source.ids, trace.target_ids)
    rho = spearmanr(*(torch.cat([of[kind].ravel() for kind in KINDS]) for of in (zero, costs)))
    told = f"The rank correlation with what zero in its place costs is {rho.statistic:+.2f}, "
    assert told in app.captions

    measures = made_up_measures(60, sha256=loaded.sha256)
    write_measures(folder, measures)
    app = start_page("translate", own_root, **at)
    here, there = (
        np.concatenate([np.ravel(of[kind]) for kind in KINDS])
        for of in (costs, measures.values["mean_ablation"])
    )
    rank, rho = 1 + (there > there[here.argmax()]).sum(), spearmanr(here, there).statistic
    assert f"is number {rank} of 18 there, {there[here.argmax()]:.3f} " in app.captions
    assert f"The rank correlation of the two rankings is {rho:+.2f}, " in app.captions

    made_up_means(60, sha256="other").write(folder)
    app = start_page("translate", own_root, **at)
    assert "the means are of other weights; measure again" in app.warnings[0]


# Two checkpoints


def test_two_checkpoints_side_by_side(start: Start, run: TrainedRun) -> None:
    app = start()
    app.button(key="beside-first").click().run()
    assert (app.widget("compare").value, app.widget("second").value) == (True, 0)
    drawn = app.charts
    assert {"earlier_map", "later_map", "difference", "mosaic"} <= drawn.keys()
    assert "large" not in drawn
    target = traced(run).target_ids
    a, b = (traced(run, step=step, target=target).attention["cross"][1, 0] for step in (0, 60))
    app.expect_cells("earlier_map", a)
    app.expect_cells("later_map", b)
    app.expect_cells("difference", b - a)
    assert drawn["difference"]["data"][0]["zmin"] == -1
    labels = [drawn[key]["layout"]["yaxis"]["labelalias"] for key in ("earlier_map", "later_map")]
    assert labels[0] == labels[1]
    assert "Checkpoint 60 minus 0" in app.texts
    assert {CATS_TRANSLATED, traced(run, step=0).target_text} <= set(app.texts)

    app = start(step="0", compare="true", second="60")  # the newer translation is shared here too
    app.expect_cells("earlier_map", a)
    assert app.choose(step=60).widget("second").value != 60


# What is done with a head, and what was likely beside the map


def test_words_of_several_tokens_have_the_product_of_their_probabilities(run: TrainedRun) -> None:
    trace = traced(run)
    probabilities = np.exp(trace.predictions.log_probability.astype(np.float64))
    found = word_probabilities(trace)
    assert found
    assert len(found) == sum(word.stop - word.start > 1 for word in trace.predicted.words)
    for start, stop, probability in found:
        assert_near(probability, probabilities[start:stop].prod(), dtype=np.float32)


def test_a_beam_that_writes_something_else_is_shown_beside(start: Start, run: TrainedRun) -> None:
    """In the run after the first, for which a browser asks once it rests."""
    app, whole = start(below="steps"), traced(run)
    model = load_weights(run, 60).model
    [beam] = beam_search(model, [whole.source.ids], size=4, prefix=run.tokenizers.prefix)
    best = beam.hypotheses[0].target
    app.run()
    if tuple(best) == whole.target_ids:
        assert "A beam of 4 writes the same" in app.captions
        return
    other = run_trace(model, run.tokenizers, CATS, tuple(best))
    assert other.target_text in app.texts
    scores = log_probability(other), log_probability(whole)
    told = shown("log-probability {:.2f} nats, greedy {:.2f}.", *scores)
    assert any(each in app.captions for each in told)
    app = app.button(key="take-beam").click().run()
    assert app.address["decoding"] == "beam"
    assert whole.target_text not in app.texts


# Attention sinks


def test_sinks_open_heads(start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    app = start(below="sinks", kind="cross")
    assert "none of these 6 heads has most of its weight on one token" in app.captions

    trace = traced(run)
    sink = Sink(Head("cross", 1, 2), (len(trace.source) - 1,), 0.9, 0.1, 2.0, 4.0)
    patch_views(monkeypatch, "translate", find_sinks=lambda trace, kind: [sink])
    tables = record_calls(monkeypatch, "translate", "row_table")
    app = start(below="sinks", kind="cross")
    [row] = table(tables, "sink_table")
    assert row[:2] == ["Cross 2.3", "</s>"]
    assert row[3:5] == ["0.90 (0.10)", "2.0 / 4.0"]
    model, asked = load_weights(run, 60).model, [Unread(sink.head, sink.keys)]
    cost = float(costs_of_unread(model, trace.source.ids, trace.target_ids, asked))
    assert float(row[5]) == pytest.approx(cost, abs=0.001)
    chosen: list[dict[str, Any]] = []
    patch_views(monkeypatch, "translate", change_view=lambda *_, **choices: chosen.append(choices))
    tables["sink_table"]["on_click"]("0")
    assert chosen == [{"kind": "cross", "layer": 2, "head": 3}]


def test_weight_on_tokens_without_content_is_said_and_left_out_by_a_click(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "on special tokens and punctuation" not in start(kind="cross").captions
    patch_views(monkeypatch, "translate", rest_without_content=lambda trace, head: (0.8, 0.2))
    app = start(kind="cross")
    assert "0.80 of the weight is on special tokens and punctuation (0.20 if even)" in app.captions
    app = app.button(key="leave-out-special").click().run()
    titles = [each["text"] for each in app.charts["large"]["layout"]["annotations"]]
    expected = "source (key), no special tokens or punctuation, rows sum to 1 again"
    assert titles[1].replace("<br>", " ") == expected
    assert app.cells("large").sum(axis=1) == near(1.0, dtype=np.float32)
    assert "0.80 of the weight" not in app.captions
