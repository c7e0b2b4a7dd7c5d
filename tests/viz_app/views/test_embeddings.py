"""The page Embeddings & positions, run without a browser on the tiny run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun
from headwise.model.layers import sinusoidal_positions
from headwise.viz_app.analysis.embeddings import (
    cosine_similarity,
    most_frequent,
    nearest_neighbours,
    principal_components,
    similar_pairs,
)
from headwise.viz_app.analysis.labels import token_label, vocabulary_labels
from headwise.viz_app.analysis.positions import encodings, similarity_by_distance
from headwise.viz_app.components.scatter import Cloud
from headwise.viz_app.views.embeddings import projection
from headwise.viz_app.views.shared.vocabulary import token_name
from tests.floats import assert_near, printed
from tests.viz_app.views.driver import (
    Start,
    array,
    assert_cells,
    captions,
    cells,
    charts,
    choose,
    embedding_table,
    errors,
    html,
    shown,
    traced,
    unescaped,
    widget,
)

D, SOURCE_SIZE, TARGET_SIZE = 14, 400, 420

PAGE = "embeddings"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and in place of UMAP, which takes half a minute to start, two dimensions."""
    monkeypatch.setattr(projection, "umap_points", lambda rows: rows[:, 3:5].copy())
    st.cache_resource.clear()


@pytest.fixture
def counted(own_root: Path) -> Path:
    """A run whose tokens occur differently often: id times in the source, 3 × id in the target."""
    counts = {"source": [*range(SOURCE_SIZE)], "target": [3 * id for id in range(TARGET_SIZE)]}
    (own_root / "tiny" / "counts.json").write_text(json.dumps(counts))
    return own_root


def labels_of(run: TrainedRun, side: str = "source") -> tuple[str, ...]:
    tokenizer = getattr(run.tokenizers, side)
    return vocabulary_labels(tokenizer.tokens(range(tokenizer.vocab_size)), spaced=True)


def bars(app: AppTest) -> tuple[list[str], np.ndarray]:
    """Labels and lengths of the neighbours' bars."""
    figure = charts(app)["neighbours"]
    return figure["layout"]["yaxis"]["ticktext"], array(figure["data"][0]["x"])


def type_token(app: AppTest, text: str) -> AppTest:
    """Type what is not in the list of tokens, of which AppTest knows nothing."""
    box = widget(app, "token")
    box.options.append(text)
    return box.set_value(text).run()


# Input


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_input_before_and_after_adding_positions(
    start: Start, run: TrainedRun, side: str
) -> None:
    app = start(side=side)
    assert errors(app) == []
    embedding = getattr(traced(run), f"{side}_embedding")
    drawn = charts(app)
    assert list(drawn) == ["tokens", "positions", "total"]
    limits = {}
    for name in ("tokens", "positions", "total"):
        assert_cells(app, name, getattr(embedding, name))
        limits[name] = drawn[name]["data"][0]["zmax"]
    assert limits["positions"] == 1
    assert limits["tokens"] == limits["total"] >= np.abs(embedding.tokens).max()
    assert "times √D = √14 = 3.74" in captions(app)
    lengths = [np.linalg.norm(part, axis=1).mean() for part in (embedding.tokens, embedding.total)]
    told = shown("{:.1f} before, {:.1f} after", *lengths)
    assert any(each in captions(app) for each in told)
    assert "√(D / 2) = 2.6" in captions(app)


# Positions


def test_encodings_of_fifty_positions_at_least(start: Start, run: TrainedRun) -> None:
    app = start(section="positions")
    assert errors(app) == []
    assert list(charts(app)) == ["encodings", "waves", "two_positions_chart", "distances"]
    # Angles are up to 49, and those of the model have been rounded to float32 four times.
    expected = sinusoidal_positions(50, D)
    assert_near(cells(app, "encodings"), expected, size=50, operations=4)
    tokens = len(traced(run).source)
    assert charts(app)["encodings"]["layout"]["shapes"][0]["y0"] == tokens - 0.5
    assert f"the {tokens} tokens of this source end" in captions(app)


def test_more_positions_than_fifty_where_the_sentence_has_them(
    start: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.viz_app.views.embeddings import positions

    monkeypatch.setattr(positions, "_FEWEST_POSITIONS", 3)
    app = start(section="positions")
    assert len(cells(app, "encodings")) == 12  # tokens of the sentence
    assert "shapes" not in charts(app)["encodings"]["layout"]


def test_chosen_dimensions_are_drawn_with_their_wavelengths(start: Start) -> None:
    app = start(section="positions")
    assert widget(app, "dimensions").value == [0, 1, 2, 6]
    app = choose(app, dimensions=[5, 2]).run()
    data = charts(app)["waves"]["data"]
    assert len(data) == 4
    encoded = encodings(np.arange(50), D)
    for drawn, dimension in (
        (array(data[2]["y"]), 5),
        (array(data[3]["y"]), 2),
        (array(data[0]["y"])[::8], 5),
    ):
        assert_near(drawn, encoded[:, dimension], size=1, operations=1)  # both float32 in the end
    [legend] = html(app, 'class="waves"')
    # 10000^(4/14) = 13.895 and 10000^(2/14) = 3.728; times 2π
    assert "PE(pos, 5) = cos(pos / 13.9)" in legend
    assert "wavelength 87.3" in legend
    assert "PE(pos, 2) = sin(pos / 3.73)" in legend
    assert "wavelength 23.4" in legend


def test_without_a_dimension_there_is_no_wave(start: Start) -> None:
    app = choose(start(section="positions"), dimensions=[]).run()
    assert errors(app) == []
    assert list(charts(app)) == ["encodings", "two_positions_chart", "distances"]


def test_two_positions_are_compared(start: Start) -> None:
    app = choose(start(section="positions"), positions=[5, 2])
    pair = encodings([5, 2], D)
    lines = [*pair[:, 0::2], *pair[:, 1::2]]  # sines, then cosines
    for line, values in zip(charts(app)["two_positions_chart"]["data"], lines, strict=True):
        assert_near(array(line["y"]), values, size=1, operations=1)
    said = captions(app)
    told = "pos 5 and pos 2, which are 3 apart. Their dot product is {:.2f};"
    products = printed(told, pair[0] @ pair[1], dtype=np.float32, size=D / 2)
    assert any(each in said for each in products)
    most = int(np.abs(pair[0] - pair[1]).argmax())
    first, second = pair[:, most]
    wave = f"the {'cosine' if most % 2 else 'sine'} at i = {most // 2}"
    assert f"differ most in dimension {most}, {wave}: {first:.2f} and {second:.2f}." in said
    assert "Choose two positions" in captions(choose(app, positions=[5]))


def test_more_choices_than_a_list_takes_are_dropped_with_a_note(start: Start) -> None:
    app = start(section="positions", positions=["1", "999", "2", "3"])
    assert widget(app, "positions").value == [1, 2]
    [note] = app.warning
    assert "positions=999 and positions=3, which cannot be used here." in unescaped(note.value)


def test_products_by_distance(start: Start) -> None:
    app = start(section="positions")
    drawn = array(charts(app)["distances"]["data"][0]["y"])
    assert_near(drawn, similarity_by_distance(50, D), dtype=np.float32)
    assert "D / 2 = 7." in captions(app)
    assert "Of the 1,275 pairs of these 50 positions" in captions(app)


# Similarity


@pytest.mark.parametrize(
    ("part", "side"), [("tokens", "target"), ("total", "source"), ("2", "target")]
)
def test_similarity_of_the_sentence_s_tokens(
    start: Start, run: TrainedRun, part: str, side: str
) -> None:
    app = start(section="similarity", side=side)
    app = choose(app, similarity_of=part).run()
    trace = traced(run)
    stream = trace.encoder_stream if side == "source" else trace.decoder_stream
    vectors = (
        stream[int(part)]
        if part.isdecimal()
        else getattr(getattr(trace, f"{side}_embedding"), part)
    )
    expected = cosine_similarity(vectors, vectors)
    assert_cells(app, "similarity", expected)
    different = expected[~np.eye(len(expected), dtype=bool)].mean()
    told = shown("Of two different places it is {:.2f} on average.", different, size=1)
    assert any(each in captions(app) for each in told)


def test_neighbours_come_from_the_training_data_only(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    counts = {"source": [0] * SOURCE_SIZE, "target": [0] * TARGET_SIZE}
    seen = [*range(270, SOURCE_SIZE, 3)]
    for id in seen:
        counts["source"][id] = 5
    (own_root / "tiny" / "counts.json").write_text(json.dumps(counts))

    id = traced(run).source.ids[1]
    app = choose(start(own_root, section="similarity"), token=token_name(id)).run()
    assert errors(app) == []
    found = nearest_neighbours(
        embedding_table(run, "source"), id, count=12, among=np.array(counts["source"]) > 0
    )
    assert set(found.ids.tolist()) <= set(seen)
    assert_near(bars(app)[1], found.cosine, dtype=np.float32, size=1)
    assert "among tokens that the training data has on the source side" in captions(app)


def test_any_token_of_the_vocabulary_has_neighbours(start: Start, run: TrainedRun) -> None:
    app = start(section="similarity", side="target")
    box = widget(app, "token")
    sentence = list(dict.fromkeys(traced(run).consumed.ids))
    labels = labels_of(run, "target")
    assert box.options[: len(sentence)] == [labels[id] for id in sentence]
    assert sorted(box.options) == sorted(labels)
    assert box.value == token_name(sentence[0])
    id = next(id for id in range(TARGET_SIZE) if id not in sentence and labels[id].isalpha())
    app = box.set_value(token_name(id)).run().run()
    everything = np.ones(TARGET_SIZE, bool)
    found = nearest_neighbours(embedding_table(run, "target"), id, count=12, among=everything)
    names, lengths = bars(app)
    assert_near(lengths, found.cosine, dtype=np.float32, size=1)
    escaped = [labels[id].replace("<", "&lt;").replace(">", "&gt;")[:40] for id in found.ids]
    assert [name[:3] for name in names] == [label[:3] for label in escaped]
    assert f"{labels[id]}: once in the training data" in captions(app)
    assert "the target side's table" in captions(app)


def test_a_token_typed_as_a_word_is_found(start: Start, run: TrainedRun) -> None:
    app = type_token(start(section="similarity"), " cat ")
    assert errors(app) == []
    [id] = run.tokenizers.source.encode("cat")
    found = nearest_neighbours(
        embedding_table(run, "source"), id, count=12, among=np.ones(SOURCE_SIZE, bool)
    )
    assert_near(bars(app)[1], found.cosine, dtype=np.float32, size=1)


@pytest.mark.parametrize("typed", ["zebra", "<b>*a*</b>"])
def test_what_is_no_token_says_how_it_is_read(start: Start, run: TrainedRun, typed: str) -> None:
    app = type_token(start(section="similarity"), typed)
    labels = labels_of(run)
    read = " ".join(labels[id] for id in run.tokenizers.source.encode(typed)[:12])
    assert errors(app) == [
        f"“{token_label(typed)}” is no token of this vocabulary: it is read as {read}; choose one "
        "of the list"
    ]
    assert list(charts(app)) == ["similarity"]


def test_pairs_are_those_of_tokens_that_occur_often_enough(
    start: Start, counted: Path, run: TrainedRun
) -> None:
    app = start(counted, section="similarity")
    app = choose(app, least=200).run()
    assert errors(app) == []
    among = np.arange(SOURCE_SIZE) >= 200
    vectors = embedding_table(run, "source")
    found = similar_pairs(vectors, count=300, among=among)
    [table] = [element.value for element in app.dataframe]
    labels = labels_of(run)
    # Pairs beside each other may be so nearly alike that rounding decides which is first.
    first, second = table["token occurs"].to_numpy(), table["other occurs"].to_numpy()
    assert table["token"].tolist() == [labels[id] for id in first]
    assert table["other token"].tolist() == [labels[id] for id in second]
    assert len({*zip(first, second, strict=True)}) == 300
    assert first.min() >= 200
    assert (first < second).all()
    cosines = table["cosine"].to_numpy()
    assert_near(cosines, found.cosine, dtype=np.float32, size=1)
    own = np.diag(cosine_similarity(vectors[first], vectors[second]))
    assert_near(cosines, own, dtype=np.float32, size=1)
    assert "Of the 19,900 pairs of 200 tokens the 300 with" in captions(app)


def test_without_pairs_it_says_what_to_do(start: Start) -> None:
    app = start(section="similarity")  # each token occurs once
    assert [info.value for info in app.info] == [
        "Fewer than two tokens occur 10 times: choose a smaller number."
    ]
    assert not app.dataframe


def test_missing_counts_are_named_below_what_needs_none(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "counts.json"
    path.unlink()
    app = start(own_root, section="similarity")
    named = "tiny/counts.json: cannot be read"
    assert [message.startswith(named) for message in errors(app)] == [True] * 2
    assert list(charts(app)) == ["similarity"]
    assert len(errors(start(own_root, section="projection"))) == 1
    assert errors(start(own_root)) == []


# Projection


def test_the_most_frequent_tokens_by_their_components(
    start: Start, counted: Path, run: TrainedRun, clouds: list[dict[str, Any]]
) -> None:
    app = start(counted, section="projection", side="target")
    app = choose(app, number=100).run()
    assert errors(app) == []
    given = clouds[-1]
    cloud: Cloud = given["cloud"]
    counts = 3 * np.arange(TARGET_SIZE)
    ids = most_frequent(counts, 100)
    assert ids[0] == TARGET_SIZE - 1
    components = principal_components(embedding_table(run, "target")[ids])
    assert_near(cloud.points, components.points, dtype=np.float32)
    assert list(cloud.labels) == [labels_of(run, "target")[id] for id in ids]
    assert list(cloud.counts) == counts[ids].tolist()
    names = [cloud.groups[group] for group in cloud.group]
    assert names == ["1,000 to 9,999 times" if n > 999 else "100 to 999 times" for n in counts[ids]]
    told = shown("has {:.1%} of the variance", components.shares[0], size=1)
    assert any(each in captions(app) for each in told)

    sentence = dict.fromkeys(traced(run).consumed.ids)
    places = {id: place for place, id in enumerate(ids.tolist())}
    assert list(dict.fromkeys(given["sentence"])) == [places[i] for i in sentence if i in places]
    missing = [labels_of(run, "target")[id] for id in sentence if id not in places]
    assert "Not among the 100 most frequent, and not drawn: " + missing[0] in captions(app)


def test_tokens_that_are_looked_for_are_marked(
    start: Start, run: TrainedRun, clouds: list[dict[str, Any]]
) -> None:
    app = start(section="projection", number=str(SOURCE_SIZE))
    assert clouds[-1]["searched"] == []
    [id] = run.tokenizers.source.encode("cat")
    searched = ["cat", "zebra", token_name(7)]
    app = start(section="projection", number=str(SOURCE_SIZE), searched=searched)
    assert clouds[-1]["searched"] == [id, 7]  # each occurs once: places are ids
    [message] = errors(app)
    assert message.startswith("“zebra” is no token of this vocabulary: it is read as ")
    assert clouds[-1]["cloud"].groups[1] == "1 to 9 times"


def test_umap_waits_to_be_asked_and_is_then_kept(
    start: Start, run: TrainedRun, cache: None, clouds: list[dict[str, Any]]
) -> None:
    app = start(section="projection")
    app = choose(app, number=50).run()
    clouds.clear()
    app = choose(app, projection_by="UMAP").run()
    assert not clouds
    assert app.button(key="compute").label == "Compute UMAP of 50 tokens"
    app.button(key="compute").click().run()
    assert errors(app) == []
    expected = embedding_table(run, "source")[:50, 3:5]
    np.testing.assert_array_equal(clouds[-1]["cloud"].points, expected)

    app = start(section="projection", projection_by="UMAP")
    app = choose(app, number=50).run()
    assert not [button for button in app.button if button.key == "compute"]
    np.testing.assert_array_equal(clouds[-1]["cloud"].points, expected)

    st.cache_resource.clear()
    clouds.clear()
    app = app.run()
    assert not clouds
    assert app.button(key="compute").label == "Compute UMAP of 50 tokens"


def test_without_umap_the_page_says_how_to_install_it(
    start: Start, run: TrainedRun, cache: None, clouds: list[dict[str, Any]]
) -> None:
    """What was computed before is shown all the same."""
    app = start(section="projection", projection_by="UMAP")
    app = choose(app, number=50).run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        clouds.clear()
        app = app.run()
        assert errors(app) == []
        assert not clouds
        assert not [button for button in app.button if button.key == "compute"]
        assert any("UMAP is not installed" in info.value for info in app.info)
        assert 'pip install -e ".[umap]"' in [code.value for code in app.code]
        app = choose(app, projection_by="PCA").run()
        assert clouds
    app = choose(app, projection_by="UMAP").run()
    app.button(key="compute").click().run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        clouds.clear()
        app = app.run()
        expected = embedding_table(run, "source")[:50, 3:5]
        np.testing.assert_array_equal(clouds[-1]["cloud"].points, expected)
