"""The page Model, run without a browser on the tiny run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model import placement
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.config import TransformerConfig
from headwise.model.hooks import hook_names
from headwise.model.presets import PRESETS
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.records.trace import Check, Trace
from headwise.viz_app.session import caches, slices
from headwise.viz_app.session.markdown import power_of_ten
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, rounding
from tests.viz_app.pages.driver import (
    CATS,
    DOG,
    Page,
    Start,
    array,
    break_lines,
    open_page,
    patch_views,
    texts_in,
    traced,
    unescaped,
)

PAGE = "model"
Opened = Callable[[str], Page]


@pytest.fixture(scope="module")
def opened(run_root: Path) -> Iterator[Opened]:
    """Return a function that opens a section, once for all who only read it."""
    with pytest.MonkeyPatch.context() as patch:
        yield cache(lambda section: open_page(PAGE, run_root, patch, {"section": section}))


def rows_of(table: str) -> list[str]:
    return re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)


# The tree


@pytest.mark.parametrize(
    ("step", "target", "unfold", "levels"),
    [("60", "", "stacks", 2), ("20", "Los perros no ven el libro.", "everything", 5)],
)
def test_the_tree_has_every_hook_point_once_with_its_numbers(
    start: Start, run: TrainedRun, step: str, target: str, unfold: str, levels: int
) -> None:
    app = start(step=step, target=target, unfold=unfold)
    [tree] = app.markup('<div class="modules"')
    assert re.findall(r'data-hook="(.*?)"', tree) == hook_names(load_weights(run, 60).model)
    for seen in traced(run, step=int(step), target=target or None).summary:
        [row] = re.findall(rf'<tr data-hook="{re.escape(seen.name)}">(.*?)</tr>', tree)
        _, shape, *numbers, parameters = texts_in(row, "td")
        assert shape == " × ".join(map(str, seen.shape))
        values = [float(number.replace(",", "")) for number in numbers]
        expected = [seen.mean, seen.standard_deviation, seen.norm]
        off = 0.0005 + rounding(np.float32, max(expected))  # half a unit, and another pass
        np.testing.assert_allclose(values, expected, rtol=0, atol=off)
        assert parameters == ""
    depth = 0
    for tag in re.findall(r"<details[^>]*>|</details>", tree):
        depth += -1 if tag == "</details>" else 1
        if tag != "</details>":
            assert ("open" in tag) is (depth <= levels)


def test_every_choice_of_a_configuration_has_a_row(opened: Opened, run: TrainedRun) -> None:
    page = opened("presets")
    [table] = page.markup('<div class="comparison"')
    head, *rows = rows_of(table)
    assert texts_in(head, "th")[1:] == ["this run", *PRESETS]
    assert len(rows) == len(fields(TransformerConfig))
    by_label = {texts_in(row, "summary")[0].removeprefix("≠ "): texts_in(row, "td") for row in rows}
    assert by_label["d_k"] == ["5", "≠ 48", "≠ 64", "≠ 64", "≠ 32", "≠ 32", "≠ 32"]
    assert by_label["source tokens"][:2] == [f"{run.info.model.source_vocab_size}", "≠ 8,000"]


# Masks


def test_masks_are_of_the_sentence_and_its_batch(opened: Opened, run: TrainedRun) -> None:
    """Of 12 and 8 tokens; then the first but for one token, as there is no other sample."""
    page = opened("masks")
    trace = traced(run)
    key = "causal"
    figure = page.charts[key]
    np.testing.assert_array_equal(page.cells(key), np.tri(len(trace.consumed), dtype=bool))
    aliases = [unescape(a) for a in figure["layout"]["yaxis"]["labelalias"].values()]
    assert aliases == token_labels(trace.consumed)

    cats, dog = (token_labels(traced(run, text).source) for text in (CATS, DOG))
    assert (len(cats), len(dog)) == (12, 8)
    padded = [cats, [*dog, *["<pad> ×"] * 4], [*cats[:-2], cats[-1], "<pad> ×"]]
    assert drawn_masks(page) == [[cats], padded]


def drawn_masks(app: Page) -> list[list[list[str]]]:
    """Return the rows of the tables of padding: the sentence alone, and its batch."""
    tables = app.markup('<div class="padding"')
    return [[texts_in(row, "td") for row in rows_of(table)] for table in tables]


def test_broken_samples_leave_the_sentence_with_its_cuts(start: Start, own_root: Path) -> None:
    break_lines(own_root / "tiny" / "samples.jsonl")
    app = start(own_root, q=DOG, section="masks")
    (message,) = app.errors  # the frame's
    assert message.startswith("tiny/samples.jsonl, line 1: not JSON")
    [_, batch] = drawn_masks(app)
    assert [sum("×" not in cell for cell in row) for row in batch] == [8, 7, 6]


# The lens


def test_the_lens_says_what_each_layer_would_predict(opened: Opened, run: TrainedRun) -> None:
    page = opened("lens")
    [table] = page.markup('<div class="lens"')
    trace = traced(run)
    head, *rows, last = rows_of(table)
    columns = ["position: predicted ← consumed", "embedding", "layer 1", "layer 2"]
    assert texts_in(head, "th") == columns
    hits = trace.predictions.lens_ids[:, :, 0] == trace.predicted.ids  # (L + 1, T)
    for step, row in enumerate(rows):
        first = [token_label(of_layer[step][0]) for of_layer in trace.lens_tokens]
        seen = zip(first, hits[:, step], strict=True)
        marked = [f"✓ {label}" if hit else label for label, hit in seen]
        assert texts_in(row, "td") == marked
    assert texts_in(last, "td") == [f"{n} of {hits.shape[1]}" for n in hits.sum(axis=1)]


# Self-checks


@pytest.mark.parametrize(
    ("value", "decimals", "written"),
    [(3.01e-7, 0, "4e−07"), (1e-5, 0, "1e−05"), (2.34e-7, 1, "2.4e−07"), (0.5, 1, "5.0e−01")],
)
def test_what_something_is_off_by_is_never_less(value: float, decimals: int, written: str) -> None:
    assert power_of_ten(value, decimals) == written


def checks(app: Page) -> list[list[str]]:
    """Return of each line its sign, name, deviation, limit and what follows them."""
    [told] = [m.value for m in app.markdown if "off by at most" in m.value]
    line = r"- (:\S+\[. \w+\]) \*\*(.*)\*\*: off by at most (\S+); allowed is (\S+)\.(?: (.*))?"
    return [[*re.fullmatch(line, each).groups("")] for each in told.splitlines()]


def test_the_decoder_reads_all_layers(start: Start, opened: Opened, run: TrainedRun) -> None:
    """The last row is the model's own translation; so are all at the last layer by checkpoint."""
    page = opened("layers")
    [table] = page.dataframe
    assert table.value["encoder"].tolist()[0] == "embedding"
    assert table.value["the decoder writes"].tolist()[-1] == traced(run).target_text
    _, by_step = start(section="layers").choose(layers_by_step=True).dataframe
    assert by_step.value["step"].tolist() == run.steps()
    last = table.value["encoder"].tolist()[-1]
    assert set(by_step.value[last].dropna()) <= {100.0}  # none where the model writes nothing
    assert by_step.value["embedding"].dropna().between(0, 100).all()


def test_layers_are_translated_one_by_one_until_a_person_stops_them(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, sentence = start(section="layers"), "The cats see the old dog."

    def written() -> list[str]:
        texts: list[str] = app.dataframe[0].value["the decoder writes"].tolist()
        return texts

    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(sentence=sentence)
    assert [text == "…" for text in written()] == [False, True, True]
    [stop] = [button for button in app.button if button.label == "Stop"]
    stop.click().run()
    assert [text == "…" for text in written()] == [False, True, True]
    app.choose(from_layers=True)
    for _ in written():
        app.run()
    assert written()[-1] == traced(run, sentence).target_text


def test_the_largest_numbers_of_each_stream_are_drawn(opened: Opened, run: TrainedRun) -> None:
    page = opened("lens")
    trace = traced(run)
    for stack, stream in (("encoder", trace.encoder_stream), ("decoder", trace.decoder_stream)):
        drawn, *_ = page.charts[f"largest_{stack}"]["data"]
        for layer, numbers in enumerate(np.abs(stream).astype(np.float64)):
            expected = numbers.max(axis=-1) / np.median(numbers)
            assert_near(array(drawn["z"])[layer], expected, operations=8)
    layer, token = np.unravel_index(array(drawn["z"]).argmax(), array(drawn["z"]).shape)
    at = f"The largest is at {token_labels(trace.consumed)[token]}, "
    assert at + ("embedding" if layer == 0 else f"layer {layer}") in page.captions


def test_broken_checks_are_red_and_explained(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Trace] = []  # of the page: another pass may round otherwise

    def broken(*args: Any, **kwargs: Any) -> Trace:
        trace = run_trace(*args, **kwargs)
        worse, unknown = replace(trace.checks[1], deviation=0.25), Check("a | b", float("nan"), 0.5)
        told = (trace.checks[0], worse, *trace.checks[2:], unknown)
        traces.append(replace(trace, checks=told))
        return traces[-1]

    monkeypatch.setattr(caches, "run_trace", broken)
    app = start(q="Where are the old cats?", section="masks")
    assert app.errors == ["Do not trust what this sentence's pages show."]
    [trace], rows = traces, checks(app)
    good, bad = ":green-badge[✓ holds]", ":red-badge[✗ broken]"
    assert [row[0] for row in rows] == [good, bad, good, good, bad]
    assert [unescaped(row[1]) for row in rows] == [check.name for check in trace.checks]
    assert [bool(row[4]) for row in rows] == [True] * 4 + [False]  # what it would mean
    assert rows[1][2:4] == ["2.5e−01", "0"]


# Equations


def test_equations_have_the_sizes_of_the_sentence(opened: Opened, run: TrainedRun) -> None:
    page = opened("diagram")
    trace = traced(run)
    source, steps = len(trace.source), len(trace.consumed)
    told = page.captions
    for part in (
        "token 2 has pos 1, and at i = 0 0.841 and 0.540.",
        f"√d_k = √5 = 2.24. Weights are {source} × {source} in the encoder, {steps} × {steps} and "
        f"masked in the decoder, {steps} × {source} across",
        "Each of 3 heads projects from 14 to 5; W_O is 15 × 14. 6 such modules, 18 heads.",
        f"W₁ is 14 × 23, W₂ 23 × 14; at each of {source} + {steps} positions, in each of 4 layers.",
        "There are 10 of these, on rows of 14; and one more norm on top",
        f"({steps} × 14)(14 × 420) = {steps} × 420",
    ):
        assert part in told
    assert page.says("{:.3f}", np.exp(trace.predictions.log_probability[0]), size=1)
    assert [each for each in page.markdown if each.value.startswith("<svg")]


def test_a_large_model_computes_when_asked(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_LARGE", 1)
    app = start(section="layers", q="Where do the cats see a dog?")
    column = "the decoder writes"
    assert set(app.dataframe[0].value[column]) == {"…"}
    app.choose(from_layers=True)
    assert "…" not in set(app.dataframe[0].value[column])
    patch_views(monkeypatch, "model", _SHUFFLED_UNASKED=1)
    app = start(section="similarity", token="id:7")
    assert "By chance the nearest" not in app.captions
    [button] = [each for each in app.button if each.label == "Compare all tokens"]
    button.click().run()
    assert "By chance the nearest would be at" in app.captions
