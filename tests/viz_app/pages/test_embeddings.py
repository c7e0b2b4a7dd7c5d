"""The page Embeddings & positions, run without a browser on the tiny run."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import streamlit as st

from headwise.model.checkpoint import TrainedRun
from headwise.model.layers import sinusoidal_positions
from headwise.viz_app.analysis.embeddings import principal_components
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.components.scatter import Cloud
from headwise.viz_app.model.projection import umap_points
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.vocabulary import token_name
from tests.floats import assert_near
from tests.viz_app.pages.driver import Page, Start, array, embedding_table, patch_views, traced

D, SOURCE_SIZE, TARGET_SIZE = 14, 400, 420
PAGE = "model"


def write_counts(root: Path, source: list[int], target: list[int]) -> Path:
    (root / "tiny" / "counts.json").write_text(json.dumps({"source": source, "target": target}))
    return root


def labels_of(run: TrainedRun, side: str = "source") -> tuple[str, ...]:
    tokenizer = getattr(run.tokenizers, side)
    return vocabulary_labels(tokenizer.tokens(range(tokenizer.vocab_size)), spaced=True)


def cosines(vectors: Floats) -> Floats:
    """Return the cosine of every two rows."""
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows @ rows.T


def expect_neighbours(
    app: Page, run: TrainedRun, id: int, side: str = "source", among: slice = slice(None)
) -> None:
    """Twelve bars are those of the nearest other tokens of some, and have their names."""
    of_all = cosines(embedding_table(run, side))[id]
    candidates = [other for other in range(len(of_all))[among] if other != id]
    nearest = sorted(candidates, key=lambda other: -of_all[other])[:12]
    figure = app.charts["neighbours"]
    assert_near(array(figure["data"][0]["x"]), of_all[nearest], dtype=np.float32, size=1)
    labels = labels_of(run, side)
    escaped = [labels[id].replace("<", "&lt;").replace(">", "&gt;")[:3] for id in nearest]
    assert [name[:3] for name in figure["layout"]["yaxis"]["ticktext"]] == escaped


# Input


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_input_without_and_with_positions(start: Start, run: TrainedRun, side: str) -> None:
    app = start(section="input", side=side)
    embedding = getattr(traced(run), f"{side}_embedding")
    drawn = app.charts
    assert list(drawn) == ["tokens", "positions", "total"]
    for name in drawn:
        app.expect_cells(name, getattr(embedding, name))
    limits = {name: figure["data"][0]["zmax"] for name, figure in drawn.items()}
    assert limits["positions"] == 1
    assert limits["tokens"] == limits["total"] >= np.abs(embedding.tokens).max()
    lengths = [np.linalg.norm(part, axis=1).mean() for part in (embedding.tokens, embedding.total)]
    assert app.says("{:.1f} before, {:.1f} after", *lengths)


# Positions


def test_encodings_waves_and_distances_of_fifty_positions(start: Start, run: TrainedRun) -> None:
    app = start(section="positions")
    assert list(app.charts) == ["encodings", "waves", "two_positions_chart", "distances"]
    # Angles are up to 49, and those of the model have been rounded to float32 four times.
    encoded = sinusoidal_positions(50, D).numpy()
    assert_near(app.cells("encodings"), encoded, size=50, operations=4)
    tokens = len(traced(run).source)
    assert app.charts["encodings"]["layout"]["shapes"][0]["y0"] == tokens - 0.5
    assert f"the {tokens} tokens of this source end" in app.captions
    wavelengths = 10_000 ** (2 * np.arange(D // 2) / D)
    products = np.cos(np.arange(50)[:, None] / wavelengths).sum(axis=1)
    assert_near(array(app.charts["distances"]["data"][0]["y"]), products, dtype=np.float32, size=D)
    assert app.widget("dimensions").value == [0, 1, 2, 6]
    data = app.choose(dimensions=[5, 2]).run().charts["waves"]["data"]
    assert len(data) == 4
    for drawn, dimension in ((data[2]["y"], 5), (data[3]["y"], 2), (data[0]["y"], 5)):
        points = array(drawn)[:: 8 if drawn is data[0]["y"] else 1]
        assert_near(points, encoded[:, dimension], dtype=np.float32, size=50, operations=4)
    [legend] = app.markup('class="waves"')
    assert "PE(pos, 5) = cos(pos / 13.9)" in legend  # 10000^(4/14) = 13.895
    assert "wavelength 87.3" in legend
    app = app.choose(dimensions=[]).run()
    assert list(app.charts) == ["encodings", "two_positions_chart", "distances"]


def test_two_positions_are_compared(start: Start) -> None:
    app = start(section="positions").choose(positions=[5, 2])
    pair = sinusoidal_positions(50, D).numpy()[[5, 2]]
    lines = [*pair[:, 0::2], *pair[:, 1::2]]  # sines, then cosines
    for line, values in zip(app.charts["two_positions_chart"]["data"], lines, strict=True):
        assert_near(array(line["y"]), values, dtype=np.float32, size=5, operations=4)
    assert app.says("Their dot product is {:.3g}.", pair[0] @ pair[1], size=D / 2)
    # sin(5) = −0.96 and sin(2) = 0.91
    assert "differ most in dimension 0, the sine at i = 0: -0.96 and 0.91." in app.captions
    assert "Choose two positions" in app.choose(positions=[5]).captions


# Similarity


@pytest.mark.parametrize(("part", "side"), [("total", "source"), ("2", "target")])
def test_similarity_of_the_tokens(start: Start, run: TrainedRun, part: str, side: str) -> None:
    app = start(section="similarity", side=side, similarity_of=part)
    trace = traced(run)
    inputs = getattr(trace, f"{side}_embedding")
    expected = cosines(trace.decoder_stream[2] if part == "2" else getattr(inputs, part))
    app.expect_cells("similarity", expected)
    different = expected[~np.eye(len(expected), dtype=bool)].mean()
    assert app.says("Of two different places it is {:.2f} on average.", different, size=1)


def test_neighbours_are_of_the_training_data(start: Start, own_root: Path, run: TrainedRun) -> None:
    seen = [5 if id >= 270 and id % 3 == 0 else 0 for id in range(SOURCE_SIZE)]
    write_counts(own_root, seen, [0] * TARGET_SIZE)
    id = traced(run).source.ids[1]
    app = start(own_root, section="similarity", token=token_name(id))
    expect_neighbours(app, run, id, among=slice(270, None, 3))


def test_any_token_of_the_vocabulary_has_neighbours(start: Start, run: TrainedRun) -> None:
    app = start(section="similarity", side="target")
    box = app.widget("token")
    sentence = list(dict.fromkeys(traced(run).consumed.ids))
    labels = labels_of(run, "target")
    assert box.options[: len(sentence)] == [labels[id] for id in sentence]
    assert sorted(box.options) == sorted(labels)
    assert box.value == token_name(sentence[0])
    id = next(id for id in range(TARGET_SIZE) if id not in sentence and labels[id].isalpha())
    app = box.set_value(token_name(id)).run().run()
    expect_neighbours(app, run, id, "target")
    box = app.widget("token")
    box.options.append("<b>*a*</b>")
    app = box.set_value("<b>*a*</b>").run()
    read = " ".join(labels[id] for id in run.tokenizers.target.encode("<b>*a*</b>")[:12])
    assert app.errors == [
        f"“<b>*a*</b>” is no token of this vocabulary: it is read as {read}; choose one of the list"
    ]
    assert list(app.charts) == ["similarity"]


def test_pairs_are_of_frequent_tokens(start: Start, own_root: Path, run: TrainedRun) -> None:
    app = start(section="similarity")
    app.button(key="compare_pairs").click().run()  # each token occurs once
    assert "two tokens occur 10 times" in app.info[0].value
    write_counts(own_root, [*range(SOURCE_SIZE)], [*range(TARGET_SIZE)])
    app = start(own_root, section="similarity", all_pairs="true").choose(least=200).run()
    [table] = [element.value for element in app.dataframe]
    labels = labels_of(run)
    first, second = table["token occurs"].to_numpy(), table["other occurs"].to_numpy()
    assert table["token"].tolist() == [labels[id] for id in first]
    assert table["other token"].tolist() == [labels[id] for id in second]
    assert len({*zip(first, second, strict=True)}) == 300
    assert first.min() >= 200
    assert (first < second).all()
    # Pairs beside each other may be so nearly alike that rounding decides which is first.
    of_all = cosines(embedding_table(run, "source"))
    found = table["cosine"].to_numpy()
    assert_near(found, of_all[first, second], dtype=np.float32, size=1)
    alike = np.sort(of_all[200:, 200:][np.triu_indices(200, 1)])[::-1]
    assert_near(found, alike[:300], dtype=np.float32, size=1)


def test_missing_counts_are_named_below_what_needs_none(start: Start, own_root: Path) -> None:
    (own_root / "tiny" / "counts.json").unlink()
    app = start(own_root, section="similarity")
    named = "tiny/counts.json: cannot be read"
    assert [message.startswith(named) for message in app.errors] == [True] * 2
    assert list(app.charts) == ["similarity"]


# Projection


def test_the_most_frequent_tokens_by_their_components(
    start: Start, own_root: Path, run: TrainedRun, clouds: list[dict[str, Any]]
) -> None:
    write_counts(own_root, [*range(SOURCE_SIZE)], [3 * id for id in range(TARGET_SIZE)])
    app = start(own_root, section="projection", side="target").choose(number=100).run()
    given = clouds[-1]
    cloud: Cloud = given["cloud"]
    ids = range(TARGET_SIZE - 1, TARGET_SIZE - 101, -1)  # the most frequent first
    labels = labels_of(run, "target")
    components = principal_components(embedding_table(run, "target")[list(ids)])
    assert_near(cloud.points, components.points, dtype=np.float32)
    assert list(cloud.labels) == [labels[id] for id in ids]
    assert list(cloud.counts) == [3 * id for id in ids]
    names = [cloud.groups[group] for group in cloud.group]
    assert names == ["1,000 to 9,999 times" if id > 333 else "100 to 999 times" for id in ids]
    assert app.says("has {:.1%} of the variance", components.shares[0], size=1)
    sentence = dict.fromkeys(traced(run).consumed.ids)
    assert list(dict.fromkeys(given["sentence"])) == [ids.index(id) for id in sentence if id in ids]


def test_searched_tokens_are_marked(
    start: Start, run: TrainedRun, clouds: list[dict[str, Any]]
) -> None:
    [id] = run.tokenizers.source.encode("cat")
    searched = ["cat", "zebra", token_name(7)]
    app = start(section="projection", number=str(SOURCE_SIZE), searched=searched)
    assert clouds[-1]["searched"] == [id, 7]  # each occurs once: places are ids
    assert app.errors[0].startswith("“zebra” is no token of this vocabulary: it is read as ")


def test_umap_waits_to_be_asked_and_is_then_kept(
    start: Start, run: TrainedRun, clouds: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of UMAP, which takes half a minute to start, two dimensions."""
    patch_views(monkeypatch, "model", umap_points=lambda rows: rows[:, 3:5].copy())
    st.cache_resource.clear()

    def buttons(app: Page) -> list[str]:
        return [button.label for button in app.button if button.key == "compute"]

    at = {"section": "projection", "number": "50"}
    app = start(**at)
    clouds.clear()
    app = app.choose(projection_by="UMAP").run()
    assert not clouds
    assert buttons(app) == ["Compute UMAP of 50 tokens"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        app = app.run()
        assert (app.errors, clouds, buttons(app)) == ([], [], [])
        assert any("UMAP is not installed" in info.value for info in app.info)
        assert 'pip install -e ".[umap]"' in [code.value for code in app.code]
    app = app.run()
    app.button(key="compute").click().run()
    expected = embedding_table(run, "source")[:50, 3:5]
    np.testing.assert_array_equal(clouds[-1]["cloud"].points, expected)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        clouds.clear()
        app = start(projection_by="UMAP", **at)
        assert buttons(app) == []
        np.testing.assert_array_equal(clouds[-1]["cloud"].points, expected)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run UMAP without compiling it, which takes half a minute; a test in the browser compiles."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)


@pytest.mark.usefixtures("interpreted")
def test_umap_keeps_clusters_together_and_is_the_same_for_the_same_seed() -> None:
    generator = np.random.default_rng(5)
    rows = np.repeat(10 * np.eye(3, 11), 4, axis=0) + generator.standard_normal((12, 11))
    rows = rows.astype(np.float32)
    points = umap_points(rows, neighbours=3)
    assert points.shape == (12, 2)
    assert points.dtype == np.float32
    nearest = ((points[:, None] - points) ** 2).sum(-1) + np.eye(12) * 1e9
    np.testing.assert_array_equal(nearest.argmin(axis=1) // 4, np.arange(12) // 4)
    np.testing.assert_array_equal(umap_points(rows, neighbours=3), points)
    assert not np.array_equal(umap_points(rows, neighbours=3, seed=2), points)
    assert umap_points(rows[:5]).shape == (5, 2)
    with pytest.raises(ValueError, match=r"^expected at least 4 tokens for UMAP, got 3$"):
        umap_points(rows[:3])


def test_a_full_folder_of_what_umap_compiles_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_it(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("headwise.viz_app.model.projection._reducer", compile_it)
    with pytest.raises(ValueError, match=r"\(No space left .*\): free space .*NUMBA_CACHE_DIR"):
        umap_points(np.eye(6, dtype=np.float32))
