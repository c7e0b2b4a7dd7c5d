"""The page Architecture, run without a browser on the tiny run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.config import TransformerConfig
from headwise.model.hooks import hook_names
from headwise.model.masks import causal_mask, pad, padding_mask
from headwise.model.presets import PRESETS
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.records.trace import Check, HookSummary, Trace
from headwise.viz_app.trace.sentence import run_trace, to_tokens
from headwise.viz_app.views import caches
from headwise.viz_app.views.architecture.equations import equations_of
from headwise.viz_app.views.architecture.modules import _ROWS, tree_of
from headwise.viz_app.views.architecture.page import CONSEQUENCES, _caveat
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from tests.floats import near, rounding
from tests.viz_app.views.driver import (
    CATS,
    DOG,
    Start,
    break_lines,
    captions,
    cells,
    charts,
    errors,
    html,
    shown,
    texts_in,
    traced,
    widget,
)

PAGE = "architecture"


# The tree


def expect_numbers(written: Sequence[str], seen: HookSummary) -> None:
    """They are the mean, the standard deviation and the mean norm, written with three decimals."""
    values = [float(number.replace(",", "")) for number in written]
    expected = [seen.mean, seen.standard_deviation, seen.norm]
    off = 0.0005 + rounding(np.float32, max(expected))  # half a unit, and another pass
    np.testing.assert_allclose(values, expected, rtol=0, atol=off)


def test_the_tree_has_every_hook_point_once_with_its_numbers(
    opened: AppTest, run: TrainedRun
) -> None:
    assert errors(opened) == []
    [tree] = html(opened, '<div class="modules"')
    assert re.findall(r'data-hook="(.*?)"', tree) == hook_names(load_weights(run, 60).model)
    for seen in traced(run).summary:
        [row] = re.findall(rf'<tr data-hook="{re.escape(seen.name)}">(.*?)</tr>', tree)
        _, shape, *numbers, parameters = texts_in(row, "td")
        assert shape == " × ".join(map(str, seen.shape))
        expect_numbers(numbers, seen)
        assert parameters == ""


def test_the_number_of_parameters_is_the_run_s(opened: AppTest, run: TrainedRun) -> None:
    [tree] = html(opened, '<div class="modules"')
    totals = [int(n.replace(",", "")) for n in re.findall(r'title="parameters">([\d,]+)<', tree)]
    assert totals[0] == run.info.parameters
    assert f"{run.info.parameters:,} in all" in captions(opened)
    rows = re.findall(r'<tr data-module="(.*?)">(.*?)</tr>', tree)
    of = {name: int(texts_in(row, "td")[-1].replace(",", "")) for name, row in rows}
    assert sum(of.values()) == run.info.parameters
    assert of["unembedding"] == 0  # tied to the decoder's table


def test_the_tree_is_that_of_the_trace_and_the_step(start: Start, run: TrainedRun) -> None:
    app = start(step="20", target="Los perros no ven el libro.")
    trace = traced(run, step=20, target="Los perros no ven el libro.")
    [seen] = [seen for seen in trace.summary if seen.name == "logits"]
    [row] = re.findall(r'<tr data-hook="logits">(.*?)</tr>', html(app, '<div class="modules"')[0])
    shape, *numbers = texts_in(row, "td")[1:5]
    assert shape == f"1 × {len(trace.consumed)} × 420"
    expect_numbers(numbers, seen)


@pytest.mark.parametrize(("unfold", "levels"), [("stacks", 3), ("layers", 4), ("everything", 5)])
def test_levels_are_unfolded(start: Start, unfold: str, levels: int) -> None:
    app = start(unfold=unfold)
    assert errors(app) == []
    [tree] = html(app, '<div class="modules"')
    depth = 0
    for tag in re.findall(r"<details[^>]*>|</details>", tree):
        depth += -1 if tag == "</details>" else 1
        if tag != "</details>":
            assert ("open" in tag) is (depth <= levels)


def test_formulas_are_those_of_the_run(opened: AppTest) -> None:
    [tree] = html(opened, '<div class="modules"')
    assert "x + FFN(LayerNorm(x))" in tree
    assert "LayerNorm(x + FFN(x))" not in tree
    assert "W_O + b_O" in tree


# Presets


def test_every_choice_of_a_configuration_has_a_row(opened: AppTest, run: TrainedRun) -> None:
    names = {
        "head_width" if field.name == "d_k" else field.name for field in fields(TransformerConfig)
    }
    assert set(_ROWS) == names
    [table] = html(opened, '<div class="comparison"')
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert texts_in(rows[0], "th")[1:-1] == ["this run", *PRESETS]
    assert len(rows) == 1 + len(names)
    by_label = {texts_in(row, "th")[0].removeprefix("≠ "): texts_in(row, "td") for row in rows[1:]}
    assert by_label["d_k"][:-1] == ["5", "≠ 48", "≠ 64", "≠ 64", "≠ 32", "≠ 32", "≠ 32"]
    assert by_label["norm"][:-1] == ["pre", "pre", "≠ post", "pre", "≠ post", "pre", "pre"]
    assert by_label["output bias"][:5] == ["no", "no", "no", "no", "≠ yes"]
    assert by_label["source tokens"][:2] == [f"{run.info.model.source_vocab_size}", "≠ 8,000"]
    assert all(values[-1].endswith(".") for values in by_label.values())


# Masks


def test_the_causal_mask_is_the_model_s(opened: AppTest, run: TrainedRun) -> None:
    trace = traced(run)
    [(key, figure)] = charts(opened).items()
    steps = len(trace.consumed)
    np.testing.assert_array_equal(cells(opened, key), causal_mask(steps, steps)[0, 0])
    aliases = [unescape(a) for a in figure["layout"]["yaxis"]["labelalias"].values()]
    assert aliases == token_labels(trace.consumed)


def drawn_masks(app: AppTest) -> list[list[list[str]]]:
    return [
        [texts_in(row, "td") for row in re.findall(r"<tr>(.*?)</tr>", table)]
        for table in html(app, '<div class="padding"')
    ]


def test_padding_masks_are_the_model_s(opened: AppTest, run: TrainedRun) -> None:
    """Of 12 and 10 tokens; then the first but for one token, as there is no other sample."""
    encode = run.tokenizers.encode_source
    alone, batch = drawn_masks(opened)
    ids = [encode(CATS), encode(DOG)]
    ids.append([*ids[0][:-2], ids[0][-1]])
    assert len({len(row) for row in ids}) == 3
    padded = pad(ids)
    allowed = padding_mask(padded)[:, 0, 0].tolist()
    expected = [
        [
            label + ("" if may else " ×")
            for label, may in zip(
                token_labels(to_tokens(run.tokenizers.source, row)), seen, strict=True
            )
        ]
        for row, seen in zip(padded.tolist(), allowed, strict=True)
    ]
    assert batch == expected
    assert alone == [expected[0]]
    assert "<pad> ×" in batch[1]


def test_broken_samples_leave_the_sentence_with_its_cuts(start: Start, own_root: Path) -> None:
    break_lines(own_root / "tiny" / "samples.jsonl")
    app = start(own_root, q=DOG)
    (message,) = errors(app)  # the frame's
    assert message.startswith("tiny/samples.jsonl, line 1: not JSON")
    [_, batch] = drawn_masks(app)
    longest = len(batch[0])
    kept = [sum("×" not in cell for cell in row) for row in batch]
    assert kept == [longest, longest - 1, longest - 2]


# The lens


def test_the_lens_is_that_of_the_trace(opened: AppTest, run: TrainedRun) -> None:
    [table] = html(opened, '<div class="lens"')
    lens = read_lens(traced(run))
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    assert texts_in(rows[0], "th") == [
        "step: predicted ← consumed",
        "embedding",
        "layer 1",
        "layer 2",
    ]
    for row, labels, actual in zip(rows[1:-1], lens.labels, lens.actual, strict=True):
        expected = [
            ("✓ " if hit else "") + label for label, hit in zip(labels, actual, strict=True)
        ]
        assert texts_in(row, "td") == expected
    assert texts_in(rows[-1], "td") == [
        f"{n} of {len(lens.labels)}" for n in lens.actual.sum(axis=0)
    ]
    titles = [unescape(title) for title in re.findall(r'title="(.*?)"', table, re.DOTALL)]
    assert titles == [note for row in lens.notes for note in row]
    assert titles[0].count("\n") == 4


def test_the_caveat_is_that_of_the_norm(opened: AppTest) -> None:
    assert _caveat(False) in captions(opened)
    assert "never meant for the unembedding" in _caveat(True)
    assert "never meant for the unembedding" not in _caveat(False)


# Self-checks


def checks(app: AppTest) -> list[list[str]]:
    """Return of each line its sign, name, deviation, limit and what follows them."""
    [told] = [m.value for m in app.markdown if "off by at most" in m.value]
    line = r"- (:\S+\[. \w+\]) \*\*(.*)\*\*: off by at most (\S+); allowed is (\S+)\.(?: (.*))?"
    return [[*re.fullmatch(line, each).groups("")] for each in told.splitlines()]


def test_every_check_says_what_it_would_mean_if_it_failed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces: list[Trace] = []  # of the page: another pass may round otherwise

    def noted(*args: Any, **kwargs: Any) -> Trace:
        traces.append(run_trace(*args, **kwargs))
        return traces[-1]

    monkeypatch.setattr(caches, "run_trace", noted)
    rows = checks(start(q="Are the old cats here?"))
    [trace] = traces
    assert {check.name for check in trace.checks} == set(CONSEQUENCES)
    for row, check in zip(rows, trace.checks, strict=True):
        assert row[0] == ":green-badge[✓ holds]"
        assert row[1] == escape_markdown(check.name)
        assert row[4] == escape_markdown(CONSEQUENCES[check.name])
        deviation, limit = (float(cell.replace("−", "-")) for cell in row[2:4])
        # Of the page's own pass: they differ by half a unit of the second digit that is written.
        assert deviation == pytest.approx(check.deviation, rel=0.05, abs=0)
        assert limit == near(check.limit)


def test_a_broken_trace_turns_its_check_red(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Trace:
        trace = run_trace(*args, **kwargs)
        worse = replace(trace.checks[1], deviation=0.25)
        unknown = Check("a | b", float("nan"), 0.5)
        return replace(trace, checks=(trace.checks[0], worse, *trace.checks[2:], unknown))

    monkeypatch.setattr(caches, "run_trace", broken)
    app = start(q="Where are the old cats?")
    assert errors(app) == ["Do not trust what this sentence's pages show."]
    rows = checks(app)
    signs = [row[0] for row in rows]
    good, bad = ":green-badge[✓ holds]", ":red-badge[✗ broken]"
    assert signs == [good, bad, good, good, bad]
    assert rows[1][2:4] == ["2.5e−01", "0"]


# Equations


def test_equations_have_the_sizes_of_the_sentence(opened: AppTest, run: TrainedRun) -> None:
    trace = traced(run)
    source, steps = len(trace.source), len(trace.consumed)
    assert len(opened.get("latex") or [m for m in opened.markdown if m.value.startswith("$$")]) == 7
    told = captions(opened)
    for part in (
        f"{source} × 14 for the source, {steps} × 14 for the target.",
        "token 2 has pos 1, and at i = 0 0.841 and 0.540.",
        "multiplied by √14 = 3.74",
        f"√d_k = √5 = 2.24. Weights are {source} × {source} in the encoder, {steps} × {steps} and "
        f"masked in the decoder, {steps} × {source} across",
        "Each of 3 heads projects from 14 to 5; W_O is 15 × 14. 6 such modules, 18 heads.",
        f"W₁ is 14 × 23, W₂ 23 × 14; at each of {source} + {steps} positions, in each of 4 layers.",
        "There are 10 of these, on rows of 14; and one more norm on top",
        f"({steps} × 14)(14 × 420) = {steps} × 420",
    ):
        assert part in told
    first = np.exp(trace.predictions.log_probability[0])
    assert any(each in told for each in shown("{:.3f}", first, size=1))
    links = {button.label for button in opened.button}
    for page in ("Inside a head", "Embeddings & positions", "Translate"):
        assert f"Follow it on {page}" in links


def test_equations_are_those_of_the_variant(run: TrainedRun) -> None:
    model = replace(
        run.info.model,
        norm="post",
        final_norm=False,
        attention_bias=False,
        scale_embeddings=False,
        output_bias=True,
    )
    other = replace(run, info=replace(run.info, model=model))
    selection = Selection(other, 60, CATS, LIGHT)
    trace = traced(run)
    found = {e.title.split(" (")[0]: e for e in equations_of(selection, trace)}
    assert r"\sqrt{D}" not in found["Embeddings"].formula
    assert "b_O" not in found["Multi-head attention"].formula
    assert r"(x + \mathrm{Sublayer}(x))" in found["Residual connection and norm"].formula
    assert "on top" not in found["Residual connection and norm"].here
    assert "+ b" in found["Output"].formula
    assert "LayerNorm(x + FFN(x))" in {
        n.formula for n in tree_of(selection, trace).walk() if hasattr(n, "formula")
    }


def test_a_beam_s_hypothesis_is_traced_here_too(start: Start) -> None:
    app = start(decoding="beam", beam="3")
    assert errors(app) == []
    assert widget(app, "hypothesis").value == 0
    assert html(app, '<div class="modules"')


def test_the_page_begins_with_a_drawing_and_links_to_its_parts(opened: AppTest) -> None:
    [drawing] = opened.image
    assert drawing.proto.imgs[0].alt.startswith("Encoder: ")
    [contents] = [each.value for each in opened.markdown if "](#" in each.value]
    titles = [each.value for each in opened.markdown if each.value.startswith("##### ")]
    assert re.findall(r"\[(.*?)\]\(#[a-z-]+\)", contents) == [each[6:] for each in titles]
    assert "(#the-lens-what-each-layer-would-already-say)" in contents
