"""Sections of the page Heads: heads that feed heads, queries and keys, and what a head writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run, save_weights
from headwise.model.interface import Head, head_name
from headwise.viz_app import export
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.core.written import HeadDictionary, head_dictionary
from headwise.viz_app.heads.composition.paths import path
from headwise.viz_app.heads.composition.scores import Edge, composition
from headwise.viz_app.heads.composition.section import course_sentence
from headwise.viz_app.heads.dictionary.scores import mean_values
from headwise.viz_app.records.trace import Tokens
from tests.viz_app.measures import SENTENCES
from tests.viz_app.pages.driver import (
    CATS,
    STEPS,
    Calls,
    Page,
    Start,
    array,
    assert_same_arrays,
    patch_views,
    record_calls,
    row_names,
    table,
    traced,
    write_made_up,
)

PAGE = "heads"
LAST = STEPS[-1]
PLANTED = (Head("encoder_self", 0, 1), Head("encoder_self", 1, 2), "key")
NAME = "encoder_self.1.2-encoder_self.2.3-key"


@pytest.fixture
def feeding(start_page: Start, own_root: Path) -> Start:
    """Open the page Heads on a run in whose last checkpoint one head reads another by its keys."""
    run = open_trained_run("tiny", root=own_root)
    model = load_weights(run, LAST).model
    with torch.no_grad():
        width = model.config.head_width
        written = model.encoder.layers[0].self_attention.output_projection.weight
        keys = model.encoder.layers[1].self_attention.key_projection.weight
        keys[2 * width :] = written[:, width : 2 * width].T
    save_weights(own_root / "tiny", model, run="tiny", step=LAST)
    write_made_up(own_root)
    return partial(start_page, "heads", own_root, heads="feeds")


def test_edges_are_listed_and_the_chosen_one_is_followed(
    feeding: Start, own_root: Path, lists: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = record_calls(monkeypatch, "heads", "head_graph")
    app = feeding(edge_training="true")
    run = open_trained_run("tiny", root=own_root)
    found = {step: composition(load_weights(run, step).model) for step in STEPS}
    assert row_names(lists, "edge_table") == [e.name for e in found[LAST].strongest(30)]
    assert lists["edge_table"]["chosen"] == NAME  # the strongest
    lines = [array(trace["y"]) for trace in app.charts["edge_lines"]["data"][:2]]
    edges = [found[step].between(*PLANTED) for step in STEPS]
    np.testing.assert_allclose(lines[0], [e.score / e.error for e in edges], rtol=1e-4)
    assert composition(load_weights(run, LAST).model).against_random in app.said
    assert f"stands out from checkpoint {LAST} on" in app.said.replace(",", "")

    frames = graphs["heads_graph"]["given"][3]
    for (at, frame), step, edge in zip(frames.items(), STEPS, edges, strict=True):
        assert at == step
        assert f" {found[step].below.sum()} below" in frame.said
        strongest = found[step].strongest(30)
        assert list(frame.edges[: len(strongest)]) == strongest
        assert edge in frame.edges  # also where it does not stand out
        assert len(frame.edges) <= len(strongest) + 1

    trace = traced(run)
    expected = path(load_weights(run, LAST).model, trace, *PLANTED[:2])
    drawn = array(app.charts["path_map"]["data"][0]["z"])
    change = expected.maps["key"][1] - expected.weights
    np.testing.assert_allclose(drawn, change, atol=1e-6)


def test_an_edge_of_an_address_is_shown_and_one_that_is_none_is_told(feeding: Start) -> None:
    name = "cross.1.1-decoder_self.2.1-value"
    app = feeding(edge=name)
    assert "path_map" not in app.charts  # values change no map
    assert "Without it in the values, the output changes by" in app.said
    for none in ("cross.1.1-decoder_self.1.1-value", "cross.9.1-cross.1.1-query"):
        [noted] = feeding(edge=none).warnings
        assert noted.endswith(f"cannot be used here. Edge between heads: {NAME}.")


def test_the_page_gives_the_files_that_the_command_writes(
    feeding: Start, own_root: Path, tmp_path: Path, downloads: dict[str, Callable[[], bytes]]
) -> None:
    for section in ("feeds", "writes"):
        feeding(heads=section, kind="cross", layer="1", head="2")
    ends = tuple(map(head_name, PLANTED[:2]))
    for content, heads, text, name in (
        ("composition", (), "", "edges"),
        ("path", ends, CATS, f"path-{ends[0]}-{ends[1]}"),
        ("dictionary", ("cross.1.2",), "", "writes-cross.1.2"),
    ):
        out = tmp_path / f"{content}.npz"
        export.main(
            export.ExportArguments(
                out,
                SentenceOptions(run="tiny", text=text, checkpoints=own_root),
                content=content,  # type: ignore[arg-type]
                heads=heads,
            )
        )
        assert_same_arrays(downloads[f"headwise-tiny-{LAST}-{name}.npz"](), out)


def test_a_step_is_alone_until_all_are_asked_for_and_clicks_choose(
    feeding: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, chosen = record_calls(monkeypatch, "heads", "head_graph"), dict[str, object]()
    patch_views(monkeypatch, "heads", change_view=lambda *_, **choices: chosen.update(choices))
    app = feeding()
    assert "edge_lines" not in app.charts
    given = graphs["heads_graph"]
    assert [*given["given"][3]] == [given["start"]] == [LAST]
    assert given["chosen"].name == NAME
    given["on_edge"](*PLANTED)
    given["on_open"](STEPS[0])
    assert chosen == {"edge": NAME, "step": STEPS[0]}


def test_the_course_of_an_edge_says_since_when_it_stands_out() -> None:
    """Since it did for the last time, by more than three times the error of 0.01."""
    for scores, said in (
        ((0.01, 0.04, 0.05, 0.1), "It stands out from checkpoint 500 on."),
        ((0.02, 0.1, 0.02, 0.1), "It stands out from checkpoint 2,000 on."),
        ((0.04, 0.05, 0.05, 0.1), "It stands out at every one."),
        ((0.04, 0.0, 0.0, -0.1), "does not stand out; at 1 of 4 checkpoints it does."),
    ):
        edges = [Edge(*PLANTED, score=score, chance=0.2, error=0.01) for score in scores]
        found = course_sentence(dict(zip((0, 500, 1000, 2000), edges, strict=True)))
        assert found.endswith(said)
        first = f"The edge has {scores[0]:+.3f} over 0.200 ± 0.010 at checkpoint 0 and "
        assert found.startswith(f"{first}{scores[-1]:+.3f} over 0.200 ± 0.010 at checkpoint 2,000")


# Queries and keys

CROSS = {"kind": "cross", "layer": "2", "head": "3", "step": "20"}


@pytest.fixture
def start(start_page: Start, own_root: Path, measured: object) -> Start:
    """Open the page Heads on a run whose checkpoints have been measured."""
    return partial(start_page, "heads", own_root)


def test_points_are_named_coloured_moved_and_opened(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds, opened = record_calls(monkeypatch, "heads", "scatter"), list[Any]()
    patch_views(monkeypatch, "session", open_page=lambda _, **given: opened.append(given))
    app = start(plane="through training", q=SENTENCES[1].source, **CROSS)
    traces = []
    for each in SENTENCES:
        ids = tuple(run.tokenizers.encode_target(each.reference))
        traces.append(traced(run, each.source, step=20, target=ids))

    def labels(tokens: Tokens) -> list[str]:
        special = [place for place, id in enumerate(tokens.ids) if id in tokens.special_ids]
        return list(vocabulary_labels(tokens.texts, spaced=True, control_ids=special))

    queries = [
        f"{read} → {predicted} (query)"
        for trace in traces
        for read, predicted in zip(labels(trace.consumed), labels(trace.predicted), strict=True)
    ]
    keys = [f"{label} (key)" for trace in traces for label in labels(trace.source)]
    drawn = clouds["plane_cloud"]
    [cloud] = drawn["given"]
    assert cloud.labels == [*queries, *keys]
    groups = ["query"] * len(queries) + ["key"] * len(keys)
    assert [cloud.groups[group] for group in cloud.group] == groups
    frames = drawn["frames"]
    assert list(frames.names) == [f"step {step:,}" for step in STEPS]
    np.testing.assert_array_equal(frames.points[-1], cloud.points)
    first = len(traces[0].consumed), len(traces[0].source)
    of_second = [*range(first[0], len(queries)), *range(len(queries) + first[1], len(cloud.labels))]
    assert drawn["sentence"] == of_second

    assert f"{len(queries)} queries and {len(keys)} keys of Cross 2.3 at checkpoint 20" in app.said
    assert len(app.charts["plane_lines"]["data"][0]["x"]) == len(STEPS)

    drawn["on_click"](first[0] + 1)
    drawn["on_click"](len(queries) + first[1] + 2)
    looks = int(traces[1].attention["cross"][1, 2, :, 2].argmax())
    common = {"sentence": SENTENCES[1].source, "target": SENTENCES[1].reference}
    head = {"kind": "cross", "layer": 2, "head": 3}
    for shown, at in zip(opened, (1, looks), strict=True):
        assert (common | head | {"at": at}).items() <= shown.items()


def test_one_checkpoint_stays_and_colours_are_by_position(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds = record_calls(monkeypatch, "heads", "scatter")
    start(plane="this checkpoint", plane_colour="position", **CROSS)
    drawn = clouds["plane_cloud"]
    [cloud] = drawn["given"]
    assert drawn["frames"] is None
    assert cloud.ordered
    assert cloud.groups[1:4] == ["place 1", "places 2 to 3", "places 4 to 7"]
    assert list(cloud.group[:4]) == [1, 2, 2, 3]


# What a head writes

WRITES = {"heads": "writes", "kind": "cross", "layer": "1", "head": "2"}


def dictionary(run: TrainedRun, head: Head) -> HeadDictionary:
    """Of all tokens of the example sentences."""
    model = load_weights(run, LAST).model
    pairs = [(each.source, each.reference) for each in SENTENCES]
    sentences = Sentences.of(run.tokenizers, pairs, max_length=31)
    return head_dictionary(model, run.tokenizers, head, mean_values(model, sentences, head.kind))


def first_named(row: list[str]) -> tuple[float, float]:
    """By how much the first named tokens of a row are raised and lowered, as it says."""
    return tuple(float(cell.split("  ")[0].rsplit(" ", 1)[1]) for cell in row[2:])  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["cross", "decoder_self"])
def test_the_dictionary_has_the_tokens_of_the_example_sentences(
    start: Start, run: TrainedRun, lists: Calls, kind: str
) -> None:
    start(**WRITES | {"kind": kind})
    rows = table(lists, "dictionary_table")
    expected = dictionary(run, Head(kind, 0, 1))  # type: ignore[arg-type]
    side = run.tokenizers.source if kind == "cross" else run.tokenizers.target
    text = [place for place, id in enumerate(expected.ids) if id not in side.control_ids]
    assert len(rows) == min(len(text), 40)
    found = sorted(first_named(row) for row in rows)
    known = zip(expected.raised_by[text, 0], expected.lowered_by[text, 0], strict=True)
    rounded = [(round(float(up), 1), round(float(down), 1)) for up, down in known]
    assert {*found} <= {*rounded}


def test_a_head_of_the_encoder_has_no_dictionary(start: Start, lists: Calls) -> None:
    assert (
        "A head of the encoder writes no target tokens"
        in start(**WRITES | {"kind": "encoder_self"}).said
    )
    assert "dictionary_table" not in lists


def test_tokens_here_and_typed_have_values(start: Start, run: TrainedRun, lists: Calls) -> None:
    start(**WRITES, q="The dog", dictionary_of="sentence")
    rows = table(lists, "dictionary_table")
    ids = run.tokenizers.encode_source("The dog")
    assert [row[1] for row in rows] == ["here"] * len(ids)
    for kind, known, words in (("cross", "dog", "dog zebra"), ("decoder_self", "perro", "perro å")):
        start(**WRITES | {"kind": kind}, dictionary_of="typed", dictionary_words=words)
        seen = {row[0]: row[1] for row in table(lists, "dictionary_table")}
        assert seen[known] == "2 places"
        assert "alone" in seen.values()


def test_scores_are_drawn_for_every_checkpoint_and_can_be_stopped(start: Start) -> None:
    app: Page = start(**WRITES | {"kind": "decoder_self"}, dictionary_training="true")
    lines = {trace["name"]: array(trace["y"]) for trace in app.charts["dictionary_lines"]["data"]}
    assert {*lines} == {"this head", "by chance", "largest of the other heads"}
    for values in lines.values():
        assert values.shape == (len(STEPS),)
        assert ((values >= 0) & (values <= 1)).all()
    [line] = [each.value for each in app.markdown if "the very token that it reads" in each.value]
    assert f"{lines['this head'][-1]:.2f} is raised less" in line
    assert np.isfinite(lines["by chance"]).all()
