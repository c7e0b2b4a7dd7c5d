"""Measures on the pages Heads and Training, run without a browser on made-up ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights, write_info
from headwise.model.interface import KINDS
from headwise.viz_app.analysis.head_descriptions import describe_head
from headwise.viz_app.analysis.head_ranking import (
    emergence,
    head_values,
    rank_correlation,
    rank_heads,
    rank_ranges,
)
from headwise.viz_app.components.row_table import Bar, MarkedText, Row
from headwise.viz_app.measuring.files import measures_path, write_measures
from headwise.viz_app.records.measures import (
    FAILURES,
    STAGES,
    AlignmentBaselines,
    CorpusSummary,
    Measures,
    TranslatedSentence,
)
from headwise.viz_app.views.heads import examples
from headwise.viz_app.views.heads import page as overview
from headwise.viz_app.views.training import matrix as stages
from tests.floats import rounding
from tests.viz_app.measures import SENTENCES, made_up_measures
from tests.viz_app.views.driver import STEPS, Start, array, cells, charts, choose, unescaped

Lists = dict[str, dict[str, Any]]
WRITTEN = 0.5e-5 + rounding(np.float32, 1, operations=1)
"""How far values are off that files have with five decimals: half a unit, and the type."""


def assert_written(found: Any, expected: Any) -> None:
    """Check values that were read from files."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=WRITTEN)


def made_up(root: Path, step: int) -> Measures:
    """Made-up measures of a checkpoint that is there."""
    sha256 = load_weights(open_trained_run("tiny", root=root), step).sha256
    return made_up_measures(step, sha256=sha256)


@pytest.fixture
def measured(own_root: Path) -> dict[int, Measures]:
    """Made-up measures, written for all checkpoints of the run in ``own_root``."""
    every = {step: made_up(own_root, step) for step in STEPS}
    for measures in every.values():
        write_measures(own_root / "tiny", measures)
    return every


@pytest.fixture
def start(start_page: Start, own_root: Path) -> Start:
    """Open a page on ``own_root``."""
    return partial(start_page, root=own_root)


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    """What the pages give to the component, instead of to a browser, by key; the newest."""
    seen: Lists = {}

    def keep(titles: list[str], rows: list[Row], **given: Any) -> None:
        seen[given["key"]] = {"titles": titles, "rows": rows} | given

    for view in (overview, examples):
        monkeypatch.setattr(view, "row_table", keep)
    return seen


def said(app: AppTest) -> str:
    """Everything that messages, captions and commands say."""
    assert not app.exception
    parts = [*app.info, *app.warning, *app.error, *app.caption, *app.code]
    return unescaped("\n".join(part.value for part in parts))


def text(spans: MarkedText) -> str:
    return "".join(f"[{p.mark}: {p.text}]" if p.mark else p.text for p in spans.parts)


# The matrix


def matrix(start: Start, **address: str) -> AppTest:
    return start("training", training="heads", **address)


def test_every_head_stands_beside_every_checkpoint(
    start: Start, measured: dict[int, Measures]
) -> None:
    app = matrix(start, measure="end")
    drawn = cells(app, "head_matrix")
    for first, kind in ((1, "encoder_self"), (8, "cross")):  # the decoder has no </s> to look at
        expected = [measured[step].values["end"][kind].ravel() for step in STEPS]
        assert_written(drawn[first : first + 6], np.transpose(expected))
    assert drawn.shape == (14, 3)
    assert "has no meaning for Decoder self attention" in said(app)
    assert "six <sentences>: 600 sentences, 7,000 target tokens" in said(app)


def test_of_many_checkpoints_the_ends_the_chosen_one_and_some_between_are_shown(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    """There are 203 checkpoints, of which the last is not measured."""
    folder = own_root / "tiny"
    model = load_weights(open_trained_run("tiny", root=own_root), 60).model
    for step in range(100, 300):
        sha256 = save_weights(folder, model, run="tiny", step=step)
        if step < 299:
            write_measures(folder, replace(measured[60], step=step, sha256=sha256))
    app = matrix(start, step="178")
    cell_values = charts(app)["head_matrix"]["data"][2]["customdata"]
    shown = sorted({int(value.split(",")[-1]) for value in cell_values})
    assert {0, 178, 298, 299} <= set(shown)
    assert len(shown) <= 63
    assert max(np.diff(shown[3:])) <= 4
    assert "Shown are" in said(app)
    assert "of 203 checkpoints" in said(app)
    assert "Not measured: step 299." in said(app)
    assert np.isnan(cells(app, "head_matrix")[1:7]).any(axis=0).tolist() == [
        step == 299 for step in shown
    ]


def test_rows_are_sorted_by_what_came_last(start: Start, measured: dict[int, Measures]) -> None:
    app = matrix(start, matrix_rows="last value")
    drawn = cells(app, "head_matrix")
    for first, kind in zip((1, 8, 15), KINDS, strict=True):
        expected = np.sort(measured[60].values["cost"][kind].ravel())[::-1]
        assert_written(drawn[first : first + 6, -1], expected)


def test_the_lines_are_of_the_chosen_head(start: Start, measured: dict[int, Measures]) -> None:
    app = matrix(start, measure="same", kind="encoder_self", layer="1", head="2")
    line = charts(app)["head_lines"]["data"][0]
    assert line["name"] == "same token"
    expected = [measured[step].values["same"]["encoder_self"][0, 1] for step in STEPS]
    assert_written(array(line["y"]), expected)


def test_a_button_opens_the_head_as_a_click_does(
    start: Start, measured: dict[int, Measures]
) -> None:
    app = matrix(start, kind="encoder_self", layer="1", head="2", step="20")
    button = app.button(key="open_head")
    assert button.label == "Open Encoder self 1.2 at step 20 on Translate"
    button.click().run()
    assert app.session_state["opening"] == "translate"
    shown = app.session_state["session"].view
    assert (shown.run, shown.step, shown.sentence) == ("tiny", 20, SENTENCES[0].source)
    assert (shown.kind, shown.layer, shown.head) == ("encoder_self", 1, 2)


def test_a_head_is_opened_beside_the_token_that_was_forced(
    start: Start, measured: dict[int, Measures]
) -> None:
    app = start("heads", at="1", fork="perro", kind="encoder_self", layer="1", head="2")
    app.button(key="open_head").click().run()
    shown = app.session_state["session"].view
    chosen = shown.translate
    assert (app.session_state["opening"], chosen.at, chosen.fork) == ("translate", 1, "perro")


def test_a_run_without_measures_says_how_to_make_them(
    start: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the runs is named from where the app was started, if it is in there."""
    command = "python -m headwise.viz_app.measure --run tiny --data valid.jsonl --checkpoints"
    for page in (matrix(start), start("heads")):
        assert "not been measured yet" in said(page)
        assert f"{command} PATH/{own_root.name}" in said(page)
        assert not page.get("plotly_chart")
    monkeypatch.chdir(own_root.parent.parent)
    assert f"{command} {own_root.relative_to(own_root.parent.parent)}" in said(start("heads"))


def test_a_run_is_measured_on_what_it_held_back(start: Start, own_root: Path) -> None:
    info = open_trained_run("tiny", root=own_root).info
    assert info.data is not None
    write_info(own_root / "tiny", replace(info, data=replace(info.data, held_back=6)))
    assert "python -m headwise.viz_app.measure --run tiny --checkpoints" in said(start("heads"))


def test_checkpoints_that_are_missing_stale_or_broken_are_named_and_the_rest_is_drawn(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    folder = own_root / "tiny"
    measures_path(folder, 0).write_text("{")
    app = matrix(start)
    broken = "tiny/measures/step-0000000.json: not measures of step 0, or damaged"
    assert broken in said(app)
    assert str(own_root) not in said(app)
    assert "--steps 0" in said(app)
    assert np.isnan(cells(app, "head_matrix")[:, 0]).all()
    assert "Grey cells have no value" in said(app)
    assert "head_lines" in charts(app)
    write_measures(folder, replace(measured[20], sha256="another"))
    app = matrix(start)
    assert "Of step 20 the weights have changed since they were measured" in said(app)
    measures_path(folder, 0).unlink()
    app = matrix(start)
    assert "Not measured: step 0." in said(app)
    assert "--steps 0 20" in said(app)
    assert "One checkpoint is measured, that of step 60" in said(app)
    drawn = cells(app, "head_matrix")
    assert drawn.shape[1] == 1
    assert_written(drawn[1:7, 0], measured[60].values["cost"]["encoder_self"].ravel())
    assert "head_lines" not in charts(app)


def test_measures_are_read_again_when_files_change(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    matrix(start)
    write_measures(
        own_root / "tiny", replace(measured[60], corpus=CorpusSummary("new", "5ha", 9, 99))
    )
    assert "new: 9 sentences" in said(matrix(start))
    assert "measured on different sentences" in said(matrix(start))
    run = open_trained_run("tiny", root=own_root)
    save_weights(own_root / "tiny", load_weights(run, 0).model, run="tiny", step=60)
    assert "Of step 60 the weights have changed" in said(matrix(start))


def with_stages(measures: Measures, **stages: float) -> Measures:
    return replace(measures, stages=dict.fromkeys(STAGES, np.nan) | stages)


def test_stages_stand_below_the_columns_of_the_matrix(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    likely, chrf = {0: -9.0, 20: -4.5, 60: -3.0}, {0: 1.0, 20: np.nan, 60: 75.0}
    for step in STEPS:
        values = {"language_model": likely[step], "chrf": chrf[step]}
        stages = with_stages(measured[step], **values, language_model_reference=-2.5)
        write_measures(own_root / "tiny", stages)
    app = matrix(start, step="20")
    drawn = charts(app)["stages"]
    assert [line["name"] for line in drawn["data"]] == ["log-probability as text", "chrF"]
    for line, values in zip(drawn["data"], (likely, chrf), strict=True):
        np.testing.assert_array_equal(array(line["y"]), [values[step] for step in STEPS])
    dotted, chosen = drawn["layout"]["shapes"]
    assert (dotted["yref"], dotted["y0"]) == ("y", -2.5)
    assert chosen["x0"] == STEPS.index(20)
    assert drawn["layout"]["width"] == charts(app)["head_matrix"]["layout"]["width"]
    assert "vertical line is at step 20, and a click takes the checkpoint" in said(app)
    assert "the greedy ones of 2 sentences" in said(app)
    formulas = " ".join(formula.value for formula in app.latex)
    assert "beta" in formulas
    assert "C - 1" not in formulas  # the order has no value at any step


def test_a_click_on_a_stage_takes_its_checkpoint(
    start: Start, measured: dict[int, Measures], monkeypatch: pytest.MonkeyPatch
) -> None:
    clicked: dict[str, Any] = {}
    chosen: list[dict[str, int]] = []
    monkeypatch.setattr(stages, "show_figure", lambda _, **given: clicked.update(given))
    monkeypatch.setattr(stages, "change_view", lambda **choices: chosen.append(choices))
    monkeypatch.setattr(stages, "redraw_all", lambda: None)
    matrix(start)
    for value in ("20", None):
        monkeypatch.setattr(stages, "clicked_value", lambda _, value=value: value)
        clicked["on_select"]()
    assert chosen == [{"step": 20}]
    assert "log-probability as text from 0.38 to 0.38" in clicked["alt"]


def test_checkpoints_without_stages_have_no_charts(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    for step in STEPS:
        write_measures(own_root / "tiny", with_stages(measured[step]))
    app = matrix(start)
    assert "head_matrix" in charts(app)
    assert "stages" not in charts(app)


# Heads, examples, failures


def test_heads_are_listed_in_words_by_a_measure(
    start: Start, measured: dict[int, Measures], lists: Lists
) -> None:
    app = start("heads", measure="cost")
    assert lists["head_table"]["titles"] == ["head", "rank", "cost of switching off", "in words"]
    rows = lists["head_table"]["rows"]
    expected = rank_heads(measured[60].values["cost"])
    assert [row.name for row in rows] == [",".join(map(str, head)) for head, _ in expected]
    ranges = rank_ranges([value for _, value in expected], [0.05] * len(expected))
    assert any(first < last for first, last in ranges)
    for row, (head, value), (first, last) in zip(rows, expected, ranges, strict=True):
        label, rank, bar, words = row.cells
        assert label.endswith(f" {head[1] + 1}.{head[2] + 1}")
        assert rank == (f"{first}–{last}" if first < last else f"{first}")
        assert isinstance(bar, Bar)
        assert_written(bar.value, value)
        values = head_values(measured[60].values, head)
        assert words.startswith(describe_head(values, head[0])[0][:-20])
        assert "± 0.050 nats" in words
    assert lists["head_table"]["chosen"] == "cross,1,0"
    of_heads = [head_values(measured[60].values, head) for head, _ in expected]
    both = rank_correlation([v["cost"] for v in of_heads], [v["gradient"] for v in of_heads])
    assert f"the cost with the importance by gradient is {both:+.2f}" in said(app)


def test_alignment_errors_stand_beside_the_best_and_the_diagonal(
    start: Start, measured: dict[int, Measures], lists: Lists
) -> None:
    app = start("heads", measure="aer_predicted")
    assert measured[60].alignment == AlignmentBaselines(lowest=0.06, diagonal=0.61)
    assert "the rate is at least 0.06 here" in said(app)
    assert "it is 0.61" in said(app)


def test_emergence_is_found_from_all_checkpoints(
    start: Start, measured: dict[int, Measures], lists: Lists
) -> None:
    start("heads", measure="emergence", step="20")
    found = emergence(STEPS, [measured[step].values["from_first"] for step in STEPS])
    rows = lists["head_table"]["rows"]
    assert [row.name for row in rows] == [",".join(map(str, head)) for head, _ in rank_heads(found)]
    assert {row.cells[1].text for row in rows} <= {f"{step:,}" for step in STEPS}


def test_heads_are_filtered(start: Start, measured: dict[int, Measures], lists: Lists) -> None:
    address = {"measure": "end", "heads_kind": "cross", "heads_order": "smallest first"}
    app = start("heads", heads_least="0.4", step="20", **address)
    expected = rank_heads(measured[20].values["end"], kinds=["cross"], descending=False, least=0.4)
    assert 0 < len(expected) < 6
    assert [row.name for row in lists["head_table"]["rows"]] == [
        ",".join(map(str, head)) for head, _ in expected
    ]
    choose(app, heads_least=2.0)
    assert "No head has a value of “on </s>” here of 2.000 or more." in said(app)


@pytest.mark.parametrize(("step", "told"), [("20", True), ("60", False)])
def test_the_last_checkpoint_is_not_said_to_be_near_itself(
    start: Start, measured: dict[int, Measures], step: str, told: bool
) -> None:
    app = start("heads", step=step)
    assert measured[60].distance_to == 60
    assert ("last checkpoint: distance" in said(app)) is told


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        (
            "encoder_self",
            "[key: Where] is [query: the] <b>old</b> dog? </s>",
            "<s> ¿Dónde está el perro viejo? </s>",
        ),
        (
            "decoder_self",
            "Where is the <b>old</b> dog? </s>",
            "<s> [key: ¿]Dónde [query: está] el perro viejo? </s>",
        ),
        (
            "cross",
            "[key: Where] is the <b>old</b> dog? </s>",
            "<s> ¿Dónde está [query: el] perro viejo? </s>",
        ),
    ],
)
def test_examples_have_their_two_words_marked(
    start: Start, measured: dict[int, Measures], lists: Lists, kind: str, source: str, target: str
) -> None:
    app = start("heads", kind=kind, layer="2", head="3")
    strongest = lists["example_table"]["rows"][0]
    assert [text(cell) for cell in strongest.cells[1:]] == [source, target]
    assert strongest.cells[0] == "0.900"
    choose(app, layer=1)
    assert "No example of this head was kept." in said(app)


def test_an_example_opens_with_its_target_and_a_failure_with_none(
    start: Start, measured: dict[int, Measures], lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    for view in (examples, overview):
        monkeypatch.setattr(view, "open_page", lambda _, **given: opened.append(given))
    start("heads", kind="cross", layer="2", head="3", step="20")
    lists["example_table"]["on_click"]("0")
    lists["failure_table"]["on_click"]("1")
    sentence = SENTENCES[1]
    example, failure = opened
    assert (example["kind"], example["layer"], example["head"]) == ("cross", 2, 3)
    assert (example["sentence"], example["target"]) == (sentence.source, sentence.reference)
    assert (failure["sentence"], failure["target"]) == (sentence.source, "")


@pytest.mark.parametrize(
    ("name", "sign"),
    [("log_probability", 1), ("least_attended", 1), ("left_out", 1), ("repetition", -1)],
)
def test_sentences_are_listed_the_worst_first(
    start: Start, measured: dict[int, Measures], lists: Lists, name: str, sign: int
) -> None:
    app = start("heads", failure=name)
    figures = [translated.figures[name] for translated in measured[60].translated]
    order = sorted(range(2), key=lambda place: sign * figures[place])
    rows = lists["failure_table"]["rows"]
    assert [row.name for row in rows] == [str(place) for place in order]
    worst = order[0]
    assert rows[0].cells[0] == f"{figures[worst]:.2f}"
    shown = [text(cell) for cell in rows[0].cells[1:]]
    assert shown == [SENTENCES[worst].source, f"_{worst}_", SENTENCES[worst].reference]
    assert "Over 2 example sentences its rank correlation with chrF" in said(app)


def with_figures(
    measures: Measures, name: str, figures: list[float], chrf: list[float]
) -> Measures:
    """The measures with one figure, and chrF, replaced; the two sentences occur again and again."""
    translated = tuple(
        TranslatedSentence("", dict.fromkeys(FAILURES, 0.5) | {name: figure}, score)
        for figure, score in zip(figures, chrf, strict=True)
    )
    return replace(measures, sentences=SENTENCES * (len(figures) // 2), translated=translated)


def test_a_failure_is_compared_with_chrf(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Lists
) -> None:
    figures, chrf = [0.1, np.nan, 0.3, 0.2], [10.0, 90.0, 20.0, 30.0]
    write_measures(own_root / "tiny", with_figures(measured[60], "least_attended", figures, chrf))
    app = start("heads", failure="least_attended")
    assert [row.name for row in lists["failure_table"]["rows"]] == ["0", "3", "2"]
    assert "Over 3 example sentences its rank correlation with chrF" in said(app)
    assert "is +0.50: at +1 it would find the same" in said(app)


def test_sentences_without_a_repetition_are_not_listed(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Lists
) -> None:
    for figures, listed in (([0.0, 0.25, 0.0, 0.5], ["3", "1"]), ([0.0] * 4, [])):
        lists.clear()
        chrf = [90.0, 20.0, 80.0, 10.0]
        write_measures(own_root / "tiny", with_figures(measured[60], "repetition", figures, chrf))
        app = start("heads", failure="repetition")
        rows = lists["failure_table"]["rows"] if "failure_table" in lists else []
        assert [row.name for row in rows] == listed
        none = "No translation repeats more of its pairs of words than its source does."
        assert (none in said(app)) is not listed
    assert "is –: at -1 it would find the same" in said(app)


def test_a_link_with_a_failure_of_old_shows_the_first(
    start: Start, measured: dict[int, Measures], lists: Lists
) -> None:
    app = start("heads", failure="coverage")
    assert lists["failure_table"]["titles"][0] == "log-probability"
    assert "failure=coverage, which cannot be used here. By: log-probability." in said(app)


def test_a_checkpoint_without_measures_is_said_to_have_none(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Lists
) -> None:
    measures_path(own_root / "tiny", 20).unlink()
    app = start("heads", step="20")
    assert "This checkpoint has not been measured yet" in said(app)
    assert "--steps 20" in said(app)
    assert not lists
    st.cache_resource.clear()
