"""The page Data flow, run without a browser on the tiny run."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.checkpoint import Run, load_weights
from model.config import TransformerConfig
from model.data import pad
from model.hooks import hook_names
from model.masks import causal_mask, padding_mask
from model.presets import PRESETS
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.analysis.lens import read_lens
from viz_app.records import Check, Trace
from viz_app.trace import run_trace
from viz_app.views import _session
from viz_app.views._widgets import plain
from viz_app.views.flow.checks import IF_NOT
from viz_app.views.flow.equations import equations_of
from viz_app.views.flow.lens import _caveat
from viz_app.views.flow.modules import tree_of
from viz_app.views.flow.presets import _ROWS

CATS, DOG = "The cats don't see the dog.", "Where is the old dog?"

Start = Callable[..., AppTest]


@pytest.fixture
def start(start_page: Callable[..., AppTest]) -> Start:
    """Open the page."""
    return partial(start_page, "flow")


def traced(run: Run, text: str = CATS, *, step: int = 60, target: str | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, text, target)


def html(app: AppTest, kind: str) -> list[str]:
    """What the page draws as HTML of a kind, by its class."""
    bodies = [element.proto.body for element in app.get("html")]
    return [body for body in bodies if body.startswith(f'<div class="{kind}"')]


def texts(row: str, tag: str) -> list[str]:
    cells = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", row, re.DOTALL)
    return [unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in cells]


def errors(app: AppTest) -> list[str]:
    assert not app.exception
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", error.value) for error in app.error]


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


# The tree


def test_the_tree_has_every_hook_point_once_with_its_numbers(start: Start, run: Run) -> None:
    app = start()
    assert errors(app) == []
    [tree] = html(app, "modules")
    assert re.findall(r'data-hook="(.*?)"', tree) == hook_names(load_weights(run, 60).model)
    for seen in traced(run).summary:
        [row] = re.findall(rf'<tr data-hook="{re.escape(seen.name)}">(.*?)</tr>', tree)
        _, shape, *numbers, parameters = texts(row, "td")
        assert shape == " × ".join(map(str, seen.shape))
        values = [float(number.replace(",", "")) for number in numbers]
        expected = [seen.mean, seen.standard_deviation, seen.norm]
        np.testing.assert_allclose(values, expected, atol=6e-4)
        assert parameters == ""


def test_the_number_of_parameters_is_the_run_s(start: Start, run: Run) -> None:
    app = start()
    [tree] = html(app, "modules")
    totals = [int(n.replace(",", "")) for n in re.findall(r'title="parameters">([\d,]+)<', tree)]
    assert totals[0] == run.info.parameters
    assert f"{run.info.parameters:,} in all" in captions(app)
    rows = re.findall(r'<tr data-module="(.*?)">(.*?)</tr>', tree)
    of = {name: int(texts(row, "td")[-1].replace(",", "")) for name, row in rows}
    assert sum(of.values()) == run.info.parameters
    assert of["unembedding"] == 0  # tied to the decoder's table


def test_the_tree_is_that_of_the_trace_and_the_step(start: Start, run: Run) -> None:
    app = start(step="20", target="Los perros no ven el libro.")
    trace = traced(run, step=20, target="Los perros no ven el libro.")
    [seen] = [seen for seen in trace.summary if seen.name == "logits"]
    [row] = re.findall(r'<tr data-hook="logits">(.*?)</tr>', html(app, "modules")[0])
    assert texts(row, "td")[1:5] == [
        f"1 × {len(trace.consumed)} × 420",
        *(f"{n:.3f}" for n in (seen.mean, seen.standard_deviation, seen.norm)),
    ]


@pytest.mark.parametrize(("unfold", "levels"), [("stacks", 3), ("layers", 4), ("everything", 5)])
def test_levels_are_unfolded(start: Start, unfold: str, levels: int) -> None:
    app = start(unfold=unfold)
    assert errors(app) == []
    [tree] = html(app, "modules")
    depth = 0
    for tag in re.findall(r"<details[^>]*>|</details>", tree):
        depth += -1 if tag == "</details>" else 1
        if tag != "</details>":
            assert ("open" in tag) is (depth <= levels)


def test_formulas_are_those_of_the_run(start: Start) -> None:
    [tree] = html(start(), "modules")
    assert "x + FFN(LayerNorm(x))" in tree
    assert "LayerNorm(x + FFN(x))" not in tree
    assert "W_O + b_O" in tree


# Presets


def test_every_choice_of_a_configuration_has_a_row(start: Start, run: Run) -> None:
    names = {
        "head_width" if field.name == "d_k" else field.name for field in fields(TransformerConfig)
    }
    assert set(_ROWS) == names
    [table] = html(start(), "comparison")
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert texts(rows[0], "th")[1:-1] == ["this run", *PRESETS]
    assert len(rows) == 1 + len(names)
    by_label = {texts(row, "th")[0].removeprefix("≠ "): texts(row, "td") for row in rows[1:]}
    assert by_label["d_k"][:-1] == ["5", "≠ 48", "≠ 64", "≠ 64", "≠ 32", "≠ 32", "≠ 32"]
    assert by_label["norm"][:-1] == ["pre", "pre", "≠ post", "pre", "≠ post", "pre", "pre"]
    assert by_label["output bias"][:5] == ["no", "no", "no", "no", "≠ yes"]
    assert by_label["source pieces"][:2] == [f"{run.info.model.source_vocab_size}", "≠ 8,000"]
    assert all(values[-1].endswith(".") for values in by_label.values())


# Masks


def test_the_causal_mask_is_the_model_s(start: Start, run: Run) -> None:
    app = start()
    trace = traced(run)
    [chart] = app.get("plotly_chart")
    figure = json.loads(chart.proto.spec)
    z = figure["data"][0]["z"]
    cells = np.frombuffer(base64.b64decode(z["bdata"]), z["dtype"]).reshape(
        [int(n) for n in z["shape"].split(",")]
    )
    steps = len(trace.consumed)
    np.testing.assert_array_equal(cells, causal_mask(steps, steps)[0, 0])
    aliases = [unescape(a) for a in figure["layout"]["yaxis"]["labelalias"].values()]
    assert aliases == piece_labels(trace.consumed)


def drawn_masks(app: AppTest) -> list[list[list[str]]]:
    return [
        [texts(row, "td") for row in re.findall(r"<tr>(.*?)</tr>", table)]
        for table in html(app, "padding")
    ]


def test_padding_masks_are_the_model_s(start: Start, run: Run) -> None:
    """Of 12 and 10 pieces; then the first but for one piece, as there is no other sample."""
    encode = run.tokenizers.encode_source
    alone, batch = drawn_masks(start())
    ids = [encode(CATS), encode(DOG)]
    ids.append([*ids[0][:-2], ids[0][-1]])
    assert len({len(row) for row in ids}) == 3
    padded = pad(ids)
    allowed = padding_mask(padded)[:, 0, 0].tolist()
    expected = [
        [
            piece_label(piece) + ("" if may else " ×")
            for piece, may in zip(run.tokenizers.source.pieces(row), seen, strict=True)
        ]
        for row, seen in zip(padded.tolist(), allowed, strict=True)
    ]
    assert batch == expected
    assert alone == [expected[0]]
    assert "<pad> ×" in batch[1]


def test_broken_samples_leave_the_sentence_with_its_cuts(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "samples.jsonl"
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    app = start(own_root, q=DOG)
    (message,) = errors(app)  # the frame's
    assert message.startswith(f"{path}, line 1: not JSON")
    [_, batch] = drawn_masks(app)
    assert [sum("×" not in cell for cell in row) for row in batch] == [
        len(batch[0]),
        len(batch[0]) - 1,
        len(batch[0]) - 2,
    ]


# The lens


def test_the_lens_is_that_of_the_trace(start: Start, run: Run) -> None:
    [table] = html(start(), "lens")
    lens = read_lens(traced(run))
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    assert texts(rows[0], "th") == ["step: predicted ← consumed", "embedding", "layer 1", "layer 2"]
    for row, labels, actual in zip(rows[1:-1], lens.labels, lens.actual, strict=True):
        expected = [
            ("✓ " if hit else "") + label for label, hit in zip(labels, actual, strict=True)
        ]
        assert texts(row, "td") == expected
    assert texts(rows[-1], "td") == [f"{n} of {len(lens.labels)}" for n in lens.actual.sum(axis=0)]
    titles = [unescape(title) for title in re.findall(r'title="(.*?)"', table, re.DOTALL)]
    assert titles == [note for row in lens.notes for note in row]
    assert titles[0].count("\n") == 4


def test_the_caveat_is_that_of_the_norm(start: Start) -> None:
    assert _caveat(False) in captions(start())
    assert "never meant for the unembedding" in _caveat(True)
    assert "never meant for the unembedding" not in _caveat(False)


# Self-checks


def checks(app: AppTest) -> list[list[str]]:
    [table] = [m.value for m in app.markdown if m.value.startswith("| |")]
    return [[cell.strip() for cell in row.split(" | ")] for row in table.splitlines()[2:]]


def test_every_check_says_what_it_would_mean_if_it_failed(start: Start, run: Run) -> None:
    trace = traced(run)
    assert {check.name for check in trace.checks} == set(IF_NOT)
    app = start()
    rows = checks(app)
    for row, check in zip(rows, trace.checks, strict=True):
        assert row[0] == "| :green-badge[✓ holds]"
        assert row[1] == plain(check.name)
        assert row[4].removesuffix(" |") == plain(IF_NOT[check.name])
        deviation, limit = (float(cell.replace("−", "-")) for cell in row[2:4])
        assert deviation == pytest.approx(check.deviation, rel=0.05, abs=1e-12)
        assert limit == pytest.approx(check.limit)


def test_a_broken_trace_turns_its_check_red(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Trace:
        trace = run_trace(*args, **kwargs)
        worse = replace(trace.checks[1], deviation=0.25)
        unknown = Check("a | b", float("nan"), 0.5)
        return replace(trace, checks=(trace.checks[0], worse, *trace.checks[2:], unknown))

    monkeypatch.setattr(_session, "run_trace", broken)
    app = start(q="Where are the old cats?")
    assert errors(app) == ["Do not trust what this sentence's pages show."]
    rows = checks(app)
    signs = [row[0].removeprefix("| ") for row in rows]
    good, bad = ":green-badge[✓ holds]", ":red-badge[✗ broken]"
    assert signs == [good, bad, good, good, bad]
    assert rows[1][2:4] == ["2.5e−01", "0"]


# Equations


def test_equations_have_the_sizes_of_the_sentence(start: Start, run: Run) -> None:
    app = start()
    trace = traced(run)
    source, steps = len(trace.source), len(trace.consumed)
    assert len(app.get("latex") or [m for m in app.markdown if m.value.startswith("$$")]) == 7
    told = captions(app)
    for part in (
        f"{source} × 14 for the source, {steps} × 14 for the target.",
        "At pos 1, i = 0: 0.841 and 0.540.",
        "times √14 = 3.74",
        f"√d_k = √5 = 2.24. Weights are {source} × {source} in the encoder, {steps} × {steps} and "
        f"masked in the decoder, {steps} × {source} across",
        "Each of 3 heads projects from 14 to 5; W_O is 15 × 14. 6 such modules, 18 heads.",
        f"W₁ is 14 × 23, W₂ 23 × 14; at each of {source} + {steps} positions, in each of 4 layers.",
        "10 times, on rows of 14; and a norm on top",
        f"({steps} × 14)(14 × 420) = {steps} × 420",
        f"{np.exp(trace.predictions.log_probability[0]):.3f}",
    ):
        assert part in told
    for page in ("Inside a head", r"Embeddings \& positions", "Translate"):
        assert f"Followed on the page **{page}**" in told


def test_equations_are_those_of_the_variant(run: Run) -> None:
    model = replace(
        run.info.model,
        norm="post",
        final_norm=False,
        attention_bias=False,
        scale_embeddings=False,
        output_bias=True,
    )
    other = replace(run, info=replace(run.info, model=model))
    selection = _session.Selection(other, 60, CATS, _session.theme_named("light"))
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


# What a person types


MARKUP = "<b>a</b> $x$ **c** %{z} &lt;"


def test_markup_in_sentence_and_target_is_shown_as_text(start: Start, run: Run) -> None:
    app = start(q=MARKUP, target=MARKUP)
    assert errors(app) == []
    everything = "".join(element.proto.body for element in app.get("html"))
    assert "<b>" not in everything
    for element in [*app.markdown, *app.caption]:
        assert not [part for part in MARKUP.split() if part in element.value]
    [(row,), _] = drawn_masks(app)
    labels = [piece_label(piece) for piece in traced(run, MARKUP).source.pieces]
    assert (
        row == labels
        if len(labels) <= 16
        else [*labels[:4], f"… {len(labels) - 5} more", labels[-1]]
    )


def test_an_empty_sentence_invites_to_type(start: Start) -> None:
    app = start(q=" ")
    assert errors(app) == []
    assert [info.value for info in app.info] == [
        "Type a sentence above and press Enter, or choose an example."
    ]
    assert not app.get("plotly_chart")


def test_too_long_a_sentence_says_how_long_is_allowed(start: Start) -> None:
    app = start(q="the" + " the" * 30)
    assert errors(app) == ["the sentence has 32 pieces, the model takes at most 31; shorten it"]
    assert not html(app, "modules")


def test_a_beam_s_hypothesis_is_traced_here_too(start: Start) -> None:
    app = start(decoding="beam", beam="3")
    assert errors(app) == []
    assert app.selectbox(key="hypothesis").value == 0
    assert html(app, "modules")
