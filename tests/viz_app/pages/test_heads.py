"""Measures on the pages Heads and Training, run without a browser on made-up ones."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import spearmanr

from headwise.model.checkpoint import (
    TrainedRun,
    load_weights,
    open_trained_run,
    save_weights,
    write_info,
)
from headwise.model.interface import KINDS, Head
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.components.row_table import Bar
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.compared import (
    all_costs,
    changed,
    cost_change,
    difference_errors,
    resampled_change_errors,
    resampled_errors,
    stand_apart,
)
from headwise.viz_app.heads.together.cost import joint_cost
from headwise.viz_app.measuring.alignments import Alignments, write_alignments
from headwise.viz_app.measuring.checkpoint_measures import STAGES
from headwise.viz_app.measuring.files import measures_path, write_measures
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES
from headwise.viz_app.measuring.head_words import describe_head, in_a_line
from headwise.viz_app.measuring.tensor_files import Resamples
from headwise.viz_app.records.measures import CorpusSummary, Measures, OwnMeasure
from headwise.viz_app.session.state import chosen
from headwise.viz_app.session.view import WHOLE_PAGE
from tests.floats import near, rounding
from tests.viz_app.measures import SENTENCES, made_up_costs, made_up_resamples
from tests.viz_app.pages.driver import (
    STEPS,
    Calls,
    Start,
    array,
    patch_views,
    record_calls,
    row_names,
    table,
    traced,
    unescaped,
)

PAGE = "heads"
HEADS = [Head(kind, layer, head) for kind in KINDS for layer in range(2) for head in range(3)]


@pytest.fixture
def start(start_page: Start, own_root: Path, measured: dict[int, Measures]) -> Start:
    """Open the page Heads on ``own_root``."""
    return partial(start_page, "heads", own_root)


@pytest.fixture
def matrix(start_page: Start, own_root: Path, measured: dict[int, Measures]) -> Start:
    """Open the matrix of heads and checkpoints on ``own_root``."""
    return partial(start_page, "training", own_root, training="heads")


def assert_five_decimals(found: Any, expected: Any) -> None:
    """Values that files have are off by half a unit of the fifth decimal, and by the type."""
    bound = 0.5e-5 + rounding(np.float32, 1, operations=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def by_head(measures: Measures, name: str) -> dict[Head, float]:
    """Return the value of a measure for each head."""
    return {head: float(measures.values[name][head.kind][head[1:]]) for head in HEADS}


def ranked(values: dict[Head, float]) -> list[str]:
    """Return the names of heads, the largest value first."""
    order = sorted(values, key=lambda head: -values[head])
    return [",".join(map(str, head)) for head in order]


# The matrix


def test_each_head_stands_by_each_checkpoint(matrix: Start, measured: dict[int, Measures]) -> None:
    app = matrix(measure="end", kind="encoder_self", layer="1", head="2", step="20")
    drawn = app.cells("head_matrix")
    for first, kind in ((1, "encoder_self"), (8, "cross")):  # the decoder has no </s> to look at
        expected = [measured[step].values["end"][kind].ravel() for step in STEPS]
        assert_five_decimals(drawn[first : first + 6], np.transpose(expected))
    assert drawn.shape == (14, 3)
    line = app.charts["head_lines"]["data"][0]
    assert unescape(line["name"]) == "on </s>"
    expected = [measured[step].values["end"]["encoder_self"][0, 1] for step in STEPS]
    assert_five_decimals(array(line["y"]), expected)
    names = {DESCRIBED[name].name: name for name in MEASURES}
    told = re.findall(r"- \*\*(.+?)\*\*: (.+)", "\n".join(each.value for each in app.markdown))
    assert told
    for measure, phases in told:
        for step, value in re.findall(r"(\d+) \(([+-]?\d\.\d+)", phases):
            written = measured[int(step)].values[names[measure]]["encoder_self"][0, 1]
            assert float(value) == pytest.approx(written, abs=0.005)
    app.button(key="head-translate").click().run()  # does as a click
    shown = app.view
    assert (app.session_state["opening"], shown.run, shown.step) == ("translate", "tiny", 20)
    assert (shown.kind, shown.layer, shown.head) == ("encoder_self", 1, 2)
    assert shown.sentence == SENTENCES[0].source


def test_a_cell_is_judged_by_itself_at_step_0(matrix: Start, measured: dict[int, Measures]) -> None:
    app = matrix(measure="by_token", kind="encoder_self", layer="1", head="2", step="20")
    said = [unescape(text) for text in app.charts["head_matrix"]["data"][-1]["text"]]
    for head in HEADS:
        first = by_head(measured[0], "by_token")[head]
        name = f"{KIND_NAMES[head.kind]} {head.layer + 1}.{head.head + 1}, step 60<br>"
        [told] = [text for text in said if name in text or name.lower() in text.lower()]
        assert f"checkpoint 0 had {first:.2f}" in told


def test_a_measure_that_somebody_added_is_on_both_pages(
    matrix: Start, start: Start, own_root: Path, measured: dict[int, Measures], lists: Calls
) -> None:
    """Its name and note are text; at a checkpoint that lacks it there is no value."""
    note = "How <b>far</b> it *looks*."
    reach = {kind: 3 + measured[60].values["entropy"][kind] for kind in KINDS}
    full = {kind: np.ones((2, 3), np.float32) for kind in KINDS}
    for step in (20, 60):
        values = {**measured[step].values, "reach": reach, "full": full}
        own = {"reach": OwnMeasure(note), "full": OwnMeasure("All of it.", "share")}
        write_measures(own_root / "tiny", replace(measured[step], values=values, own=own))
    app = matrix(measure="reach")
    drawn = app.cells("head_matrix")
    assert np.isnan(drawn[1:7, 0]).all()
    assert_five_decimals(drawn[1:7, 2], reach["encoder_self"].ravel())
    assert note in unescaped(app.widget("measure").help)
    assert "full" in [line["name"] for line in app.charts["head_lines"]["data"]]
    start(measure="reach", step="60")
    expected = {head: float(reach[head.kind][head[1:]]) for head in HEADS}
    assert lists["head_table"]["given"][0][1] == "reach"
    assert row_names(lists, "head_table") == ranked(expected)
    start(measure="reach", step="0")  # where there is none of it
    assert "reach" not in lists["head_table"]["given"][0]


def test_rows_are_sorted_by_what_came_last(matrix: Start, measured: dict[int, Measures]) -> None:
    drawn = matrix(matrix_rows="last value").cells("head_matrix")
    for first, kind in zip((1, 8, 15), KINDS, strict=True):
        expected = np.sort(measured[60].values["cost"][kind].ravel())[::-1]
        assert_five_decimals(drawn[first : first + 6, -1], expected)


def test_a_run_without_measures_says_how_to_make_them(
    start_page: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the runs is named from where the app was started, if it is in there."""
    command = "python -m headwise.viz_app.measure --run tiny --data valid.jsonl"
    newest = f"{command} --steps 60 --checkpoints"
    for page, asked in (("training", f"{command} --checkpoints"), ("heads", newest)):
        app = start_page(page, own_root, training="heads")
        assert "not been measured yet" in app.said
        assert f"{asked} PATH/{own_root.name}" in app.said
        assert not app.charts
    monkeypatch.chdir(own_root.parent.parent)
    place = own_root.relative_to(own_root.parent.parent)
    assert f"{newest} {place}" in start_page("heads", own_root).said
    info = open_trained_run("tiny", root=own_root).info
    assert info.data is not None
    write_info(own_root / "tiny", replace(info, data=replace(info.data, held_back=6)))
    assert newest.replace("--data valid.jsonl ", "") in start_page("heads", own_root).said


def test_checkpoints_that_are_missing_stale_or_broken_are_named_and_the_rest_is_drawn(
    start: Start, matrix: Start, own_root: Path, measured: dict[int, Measures], lists: Calls
) -> None:
    """Files are read again when they change."""
    folder = own_root / "tiny"
    measures_path(folder, 0).write_text("{")
    app = matrix()
    broken = "tiny/measures/step-0000000.json: not measures of step 0, or damaged"
    for told in (broken, "--steps 0", "Grey cells have no value"):
        assert told in app.said
    assert str(own_root) not in app.said
    assert np.isnan(app.cells("head_matrix")[:, 0]).all()
    assert "head_lines" in app.charts
    write_measures(folder, replace(measured[20], sha256="another"))
    write_measures(folder, replace(measured[60], corpus=CorpusSummary("new", "5ha", 9, 99)))
    app = matrix()
    assert "Of checkpoint 20 the weights have changed since they were measured" in app.said
    assert "new: 9 sentences" in app.said
    measures_path(folder, 0).unlink()
    app = matrix()
    for told in ("Not measured: checkpoint 0.", "--steps 0 20", "One checkpoint is measured"):
        assert told in app.said
    drawn = app.cells("head_matrix")
    assert drawn.shape[1] == 1
    assert_five_decimals(drawn[1:7, 0], measured[60].values["cost"]["encoder_self"].ravel())
    assert "head_lines" not in app.charts
    assert "One checkpoint is measured, that of step 60" in matrix(training="stages").said
    assert "This checkpoint has not been measured yet" in start(step="0").said
    assert not lists
    write_measures(folder, measured[0])
    assert "measured on different sentences" in matrix().said
    run = open_trained_run("tiny", root=own_root)
    save_weights(folder, load_weights(run, 0).model, run="tiny", step=60)
    assert "Of checkpoint 20, 60 the weights have changed" in matrix().said
    st.cache_resource.clear()


def test_stages_of_a_training_and_its_sinks_are_drawn(
    matrix: Start, own_root: Path, measured: dict[int, Measures], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(step: int, **stages: float) -> None:
        every = dict.fromkeys(STAGES, np.nan) | stages
        write_measures(own_root / "tiny", replace(measured[step], stages=every))

    likely, chrf = {0: -9.0, 20: -4.5, 60: -3.0}, {0: 1.0, 20: np.nan, 60: 75.0}
    for step in STEPS:
        values = {"language_model": likely[step], "chrf": chrf[step]}
        write(step, **values, language_model_reference=-2.5)
    stages = partial(matrix, training="stages")
    app = stages(step="20")
    drawn = app.charts["stages"]
    assert [line["name"] for line in drawn["data"]] == ["log-probability as text", "chrF"]
    for line, values in zip(drawn["data"], (likely, chrf), strict=True):
        np.testing.assert_array_equal(array(line["y"]), [values[step] for step in STEPS])
    dotted, chosen = drawn["layout"]["shapes"]
    assert (dotted["yref"], dotted["y0"]) == ("y", -2.5)
    assert chosen["x0"] == STEPS.index(20)
    formulas = " ".join(formula.value for formula in app.latex)
    assert "beta" in formulas
    assert "C - 1" not in formulas  # the order has no value at any step

    with monkeypatch.context() as patch:  # a click on a point, then beside all
        figures, taken = record_calls(patch, "training", "show_figure"), []
        stages()
        patch_views(
            patch,
            "training",
            change_view=lambda *panels, **choices: taken.append((panels, choices)),
        )
        for value in ("20", None):
            patch_views(patch, "training", clicked_value=lambda _, value=value: value)
            figures["stages"]["on_select"]()
    assert taken == [((WHOLE_PAGE,), {"step": 20})]
    for step in STEPS:
        write(step)
    app = stages()
    assert not {"stages", "sizes"} & app.charts.keys()

    # Sinks, and the largest numbers of the stream.
    for step, largest in zip(STEPS, (4.0, 9.0, 10.0), strict=True):
        write(step, largest_encoder=largest)
    app = stages()
    resting, sizes = app.charts["sizes"]["data"]
    assert array(sizes["y"]).tolist() == [4, 9, 10]
    for step, drawn_weight in zip(STEPS, array(resting["y"]), strict=True):
        kept = measured[step].values
        heads = [kept[name][kind] for kind in KINDS for name in ("begin", "end", "punctuation")]
        count = sum(kept["end"][kind].size for kind in KINDS)
        assert drawn_weight == near(sum(map(np.nansum, heads)) / count, dtype=np.float32)


# Heads, examples


def test_heads_stand_in_words(start: Start, measured: dict[int, Measures], lists: Calls) -> None:
    app = start(measure="cost")
    titles, rows = lists["head_table"]["given"]
    assert titles == ["head", "rank", "cost of switching off, nats per token", "in words"]
    costs = by_head(measured[60], "cost")
    assert [row.name for row in rows] == ranked(costs)
    labels, ranks, _, words = zip(*table(lists, "head_table"), strict=True)
    bars = [row.cells[2].value for row in rows if isinstance(row.cells[2], Bar)]
    assert_five_decimals(bars, sorted(costs.values(), reverse=True))
    first = max(costs, key=lambda head: costs[head])
    assert labels[0].endswith(f"\u00a0{first.layer + 1}.{first.head + 1}")
    # Errors of 0.05 make heads whose costs are near share their ranks.
    spans = [[int(part) for part in rank.split("–")] for rank in ranks]
    assert all(span[0] <= place <= span[-1] for place, span in enumerate(spans, 1))
    assert sum(len(span) == 2 for span in spans) > 0
    of_first = {name: by_head(measured[60], name)[first] for name in MEASURES}
    striking = in_a_line(describe_head(of_first, first.kind).values()).partition(", ")[0]
    assert words[0].startswith(striking)
    assert lists["head_table"]["chosen"] == "cross,1,0"
    for name, said in (
        ("gradient", "importance by gradient"),
        ("mean_ablation", "cost of the mean in its place"),
    ):
        both = spearmanr([*costs.values()], [*by_head(measured[60], name).values()]).statistic
        assert f"with “{said}” is {both:+.2f}, 95% interval" in app.said
    assert "as if each head were measured on other sentences" in app.said


def test_costs_are_compared_on_the_same_sentences(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Calls
) -> None:
    """Then those of one checkpoint are of other weights, and then of both."""
    tables = {
        step: made_up_costs(step, sha256=measured[step].sha256, corpus=measured[step].corpus)
        for step in (20, 60)
    }
    for costs in tables.values():
        costs.write(own_root / "tiny")
    app = start(measure="cost", kind="cross", layer="2", head="3")
    errors = difference_errors(all_costs(tables[60]), tables[60].tokens)
    values = np.array([by_head(measured[60], "cost")[head] for head in HEADS], np.float32)
    apart = stand_apart(values, errors)
    assert f"Of 153 pairs of these heads {apart.differ} differ" in app.said
    assert "on the same 4 sentences. If no two heads differed, some 7 would by chance" in app.said
    order = sorted(HEADS, key=lambda head: -values[HEADS.index(head)])
    one, after = (order[order.index(Head("cross", 1, 2)) + more] for more in (0, 1))
    at = HEADS.index(one), HEADS.index(after)
    apart_by, own_error = float(values[at[0]] - values[at[1]]), float(errors[at])
    next_label = f"{KIND_NAMES[after.kind]} {after.layer + 1}.{after.head + 1}"
    assert f"less the next, {next_label}: {apart_by:+.3f} ± {own_error:.3f}" in app.said
    difference, error = cost_change(tables[60], tables[20], Head("cross", 1, 2)) or (0, 0)
    changed = f"from checkpoint 20 to 60 its cost changed by {difference:+.3f} ± {error:.3f} nats"
    assert changed in app.said
    replace(tables[20], sha256="other").write(own_root / "tiny")
    assert "its cost changed" not in start(measure="cost").said
    replace(tables[60], sha256="other").write(own_root / "tiny")
    assert "as if each head were measured on other sentences" in start(measure="cost").said


def test_other_measures_are_compared_on_the_same_resamples(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Calls
) -> None:
    """Two heads, and a head at two checkpoints; nothing is said where there are none of both."""
    tables = {
        step: made_up_resamples(step, sha256=measured[step].sha256, corpus=measured[step].corpus)
        for step in (20, 60)
    }

    def columns(**asked: str) -> list[str]:
        start(**asked)
        return list(lists["head_table"]["given"][0])

    assert "rank" not in columns(measure="entropy")
    for resamples in tables.values():
        resamples.write(own_root / "tiny")
    app = start(measure="entropy", kind="cross", layer="2", head="3")
    assert lists["head_table"]["given"][0][1] == "rank"
    now, then = (np.stack([tables[at].of("entropy", head) for head in HEADS], 1) for at in (60, 20))
    values = [
        np.array([by_head(measured[step], "entropy")[head] for head in HEADS], np.float32)
        for step in (60, 20)
    ]
    apart = stand_apart(values[0], resampled_errors(now))
    assert f"Of 153 pairs of these heads {apart.differ} differ" in app.said
    differences, errors = values[0] - values[1], resampled_change_errors(now, then)
    count = changed(differences, errors).differ
    assert f"From checkpoint 20 to 60, {count} of these 18 heads have changed" in app.said
    place = HEADS.index(Head("cross", 1, 2))
    change = f"changed by {differences[place]:+.3f} ± {errors[place]:.3f}, on the same sentences"
    assert change in app.said
    assert columns(measure="by_token")[1] == "rank"
    before = {kind: of_kind[:15] for kind, of_kind in tables[60].deviations.items()}
    replace(tables[60], deviations=before).write(own_root / "tiny")
    assert "rank" not in columns(measure="by_token")
    replace(tables[20], sha256="other").write(own_root / "tiny")
    assert "heads have changed" not in start(measure="entropy").said
    path = Resamples.path(own_root / "tiny", 60)
    path.write_bytes(path.read_bytes()[:300])
    assert "resamples of step 60, or" in start(measure="entropy").said


def test_chosen_heads_are_off_together(start: Start, own_root: Path, run: TrainedRun) -> None:
    app = start(heads="off together")
    app = app.choose(heads_together=[Head("cross", 0, 0), Head("decoder_self", 1, 2)])
    pairs = [(each.source, each.reference) for each in SENTENCES]
    sentences = Sentences.of(run.tokenizers, pairs, max_length=31)
    heads = frozenset([Head("cross", 0, 0), Head("decoder_self", 1, 2)])
    found = joint_cost(load_weights(run, 60).model, sentences, heads)
    assert f"All off together they cost {found.together:+.3f} nats" in app.said
    assert f"their sum is {found.summed:+.3f}. What" in app.said
    assert {*app.view.heads.heads_together} == heads


def test_other_measures_are_listed_and_heads_are_filtered(
    start: Start, own_root: Path, measured: dict[int, Measures], lists: Calls
) -> None:
    app = start(measure="aer_predicted", step="20")
    assert "the rate is at least 0.06 here" in app.said
    assert "last checkpoint: distance" in app.said
    lines = [line for line in start(step="60").said.splitlines() if line.startswith("- ")]
    assert len(lines) > 9
    assert not any("last checkpoint: distance" in line for line in lines)  # it is that itself

    app = start(measure="end", heads_kind="cross", heads_order="smallest first", heads_least="0.4")
    ends = by_head(measured[60], "end")
    kept = {head: end for head, end in ends.items() if head.kind == "cross" and end >= 0.4}
    expected = ranked(kept)[::-1]
    assert 0 < len(expected) < 6
    assert row_names(lists, "head_table") == expected
    app.choose(heads_least=2.0)
    assert "No head has a value of “on </s>” here of 2.000 or more." in app.said
    unknown = {kind: np.full((2, 3), np.nan, np.float32) for kind in KINDS}
    values = measured[60].values | {"mean_ablation": unknown}
    write_measures(own_root / "tiny", replace(measured[60], values=values))
    told = start(measure="mean_ablation").said
    assert "No head has a value of “cost of the mean in its place” here." in told
    assert re.search(r"measure --run tiny .*--steps 60 --only mean-ablation", told)

    start(measure="emergence", step="20")
    way = {step: by_head(measured[step], "from_first") for step in STEPS}
    half = {h: next(step for step in STEPS if way[step][h] >= way[60][h] / 2) for h in HEADS}
    assert row_names(lists, "head_table") == ranked(half)


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("encoder_self", "[key: Where] is [query: the]", "<s> ¿Dónde está el"),
        ("decoder_self", "Where is the", "<s> [key: ¿]Dónde [query: está] el"),
        ("cross", "[key: Where] is the", "<s> ¿Dónde está [query: el]"),
    ],
)
def test_examples_have_their_two_words_marked(
    start: Start, lists: Calls, monkeypatch: pytest.MonkeyPatch, kind: str, source: str, target: str
) -> None:
    """A click opens it with its target."""
    opened: list[Any] = []
    patch_views(monkeypatch, "session", open_page=lambda _, **given: opened.append(given))
    app = start(kind=kind, layer="2", head="3")
    sides = [f"{source} <b>old</b> dog? </s>", f"{target} perro viejo? </s>"]
    assert table(lists, "example_table")[0] == ["0.900", *sides]
    lists["example_table"]["on_click"]("0")
    shown = {"kind": kind, "layer": 2, "head": 3, "sentence": SENTENCES[1].source}
    assert (shown | {"target": SENTENCES[1].reference}).items() <= opened[0].items()
    assert opened[0].get("at") == (None if kind == "encoder_self" else 3)
    app.choose(layer=1)
    assert "No example of this head was kept." in app.said


def test_a_found_row_opens_translate_at_that_row(
    start: Start, lists: Calls, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of cross 2.3 that look at </s>, by weight, as the traces of the sentences have them."""
    opened: list[Any] = []
    patch_views(monkeypatch, "session", open_page=lambda _, **given: opened.append(given))
    where = {"kind": "cross", "layer": "2", "head": "3", "step": "20", "found_least": "0.05"}
    app = start(found_on="special", **where)
    expected, of = [], 0
    for sentence in SENTENCES:
        ids = tuple(run.tokenizers.encode_target(sentence.reference))
        on_end = traced(run, sentence.source, step=20, target=ids).attention["cross"][1, 2, :, -1]
        of += len(on_end)
        expected += [(weight, sentence, row) for row, weight in enumerate(on_end) if weight >= 0.05]
    expected.sort(key=lambda found: -found[0])
    assert [row[0] for row in table(lists, "found_table")] == [f"{w:.3f}" for w, *_ in expected]
    assert f"{len(expected)} of {of} rows" in app.said
    lists["found_table"]["on_click"]("0")
    _, sentence, row = expected[0]
    shown = {"sentence": sentence.source, "target": sentence.reference, "at": row}
    assert shown.items() <= opened[0].items()
    assert "Type a word" in start(found_on="token", **where).said


def test_heads_like_the_chosen_one_are_listed_and_opened(
    start: Start,
    own_root: Path,
    measured: dict[int, Measures],
    lists: Calls,
    run: TrainedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Examples that the model cannot take are named."""
    opened: list[Any] = []
    patch_views(monkeypatch, "heads", open_page=lambda _, **given: opened.append(given))
    where = {"kind": "cross", "layer": "2", "head": "3", "step": "20"}
    app = start(heads="search", **where)
    assert not lists
    app.button(key="find_rows").click().run()
    assert "found_table" in lists
    assert "alike_table" not in lists
    app.button(key="find_alike").click().run()
    others = {f"Cross {layer}.{head}" for layer in (1, 2) for head in (1, 2, 3)} - {"Cross 2.3"}
    found = {(head, step) for head, step, _ in table(lists, "alike_table")}
    assert found == {(head, "20") for head in others}
    start(alike_in="other checkpoints", **where)
    rows = table(lists, "alike_table")
    distances = []
    for sentence in SENTENCES:
        ids = tuple(run.tokenizers.encode_target(sentence.reference))
        here, there = (traced(run, sentence.source, step=step, target=ids) for step in (20, 60))
        of_head, others = here.attention["cross"][1, 2], there.attention["cross"]
        for row, weights in enumerate(of_head.astype(np.float64)):
            compared = others[:, :, row].reshape(-1, len(weights))
            distances.append([jensenshannon(weights, each, base=2) for each in compared])
    expected = np.mean(distances, axis=0).min()
    [at_60, *_] = [row for row in rows if row[1] == "60"]
    assert float(at_60[2].split(" ±")[0]) == pytest.approx(expected, abs=0.00051)  # three digits
    lists["alike_table"]["on_click"](str(rows.index(at_60)))
    assert opened[0]["step"] == 60
    [note] = start(alike_in="other runs", **where).info
    assert "no other run of this tokenizer" in note.value
    long = [replace(each, source=" ".join([each.source] * 20)) for each in SENTENCES]
    write_measures(own_root / "tiny", replace(measured[60], sentences=tuple(long)))
    app = start(alike_in="this checkpoint", found_on="special")
    assert len(app.errors) == 2  # in its place: rows cannot be searched, either
    assert all("2 too long for the model" in each for each in app.errors)


def test_what_is_most_striking_in_a_head_is_opened_over_training(start: Start) -> None:
    app = start(kind="encoder_self", layer="1", head="2", step="20", measure="cost")
    app.button(key="head-training").click().run()
    assert app.session_state["opening"] == "training"
    wanted = {"training": "heads", "kind": "encoder_self", "layer": 1, "head": 2}
    assert {name: chosen(app.view, name) for name in wanted} == wanted
    assert app.view.measure == "same"  # and not the cost any more


def test_alignment_errors_name_whose_links_they_are_against(
    start: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    sha256 = measured[60].corpus.sha256
    write_alignments(own_root / "tiny", Alignments("corpus", sha256, "by *hand*", {}))
    assert "The links are those of by *hand*." in start(measure="aer_consumed").said
    write_alignments(own_root / "tiny", Alignments("corpus", "other", "by *hand*", {}))
    assert "The links are those" not in start(measure="aer_consumed").said


def test_a_given_translation_stands_beside_references_and_unrelated_sentences(
    start_page: Start, own_root: Path, measured: dict[int, Measures], run: TrainedRun
) -> None:
    def a_token(source: str, target: str) -> float:
        scores = traced(run, source, target=target).predictions.log_probability
        return float(scores.mean())

    given, pairs = "El gato.", [(each.source, each.reference) for each in measured[60].sentences]
    own = a_token("The cat.", given)
    less = sum(a_token(*pair) < own for pair in pairs) / len(pairs)
    app = start_page("translate", own_root, q="The cat.", target=given)
    assert f"a token. {less:.0%} of {len(pairs)} references have less a token, " in app.captions
    tokens = [len(run.tokenizers.encode_target(target)) - 1 for _, target in pairs]
    app.choose(target=f"{pairs[tokens.index(max(tokens))][1]}.")
    told = f"None is as long: they have at most {max(tokens)} tokens, this one {max(tokens) + 1}."
    assert told in app.captions
