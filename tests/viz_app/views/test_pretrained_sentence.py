"""One sentence with Hugging Face models: pages show what ``transformers`` itself computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.runs import open_folder
from headwise.viz_app.analysis.labels import next_token_label, token_label
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.views.embeddings import projection
from tests.floats import PASS, assert_near, near
from tests.model.pretrained.eager import Eager
from tests.viz_app.trace.by_key import lengths_by_key
from tests.viz_app.views.conftest import SENTENCE
from tests.viz_app.views.driver import (
    Folders,
    Start,
    array,
    assert_cells,
    assert_drawn,
    captions,
    cells,
    charts,
    choose,
    errors,
    html,
    shown,
    texts,
    texts_in,
    token_row,
    widget,
)

SPANISH = "El perro ve una casa."
both = pytest.mark.parametrize("family", ["marian", "t5"])


@pytest.fixture(scope="module")
def eager(folders: Folders) -> Callable[[str], Eager]:
    """Return a function that opens a family's model as ``transformers`` does, once."""
    return cache(lambda family: Eager.open(folders(family)))


def translated(eager: Eager, length: int, text: str = SENTENCE, **settings: Any) -> list[int]:
    """Return the ids of a translation of this many tokens, or fewer."""
    return eager.generate(eager.tokenizer(text)["input_ids"], length, **settings)


def traced(folder: Path) -> Trace:
    """Return the trace of the sentence."""
    run = open_folder(folder, "theirs")
    return run_trace(run.load(run.steps()[-1]).model, run.tokenizers, SENTENCE)


def length_of(app: AppTest) -> int:
    """Return the number of tokens of the translation that is shown."""
    return len(token_row(app, "target"))


@both
def test_maps_and_predictions_are_those_of_transformers(
    start_model: Start, folders: Folders, eager: Callable[[str], Eager], family: str
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), layer="2", head="2", at="3")
    source, target = theirs.tokenizer(SENTENCE)["input_ids"], translated(theirs, length_of(app))
    assert theirs.tokenizer.decode(target, skip_special_tokens=True).strip() in texts(app)
    for kind in KINDS:
        app = choose(app, kind=kind).run()
        weights = theirs.attention(source, target, kind)[1, 1]
        assert_cells(app, "large", weights, operations=PASS)

    app = choose(app, at=3).run()
    logits = theirs.forward(source, target).logits[0, 3]
    probabilities = np.sort(logits.softmax(dim=-1).numpy())[::-1]
    bars = array(charts(app)["top_tokens"]["data"][0]["x"])
    assert_drawn(bars, probabilities[: len(bars)], operations=PASS)
    rows = theirs.attention(source, target, "cross")[:, :, 3].reshape(-1, len(source))
    assert_cells(app, "rows_cross", rows, operations=PASS)


@both
def test_a_forced_target_and_a_fork(
    start_model: Start, folders: Folders, eager: Callable[[str], Eager], family: str
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), target=SPANISH)
    source = theirs.tokenizer(SENTENCE)["input_ids"]
    start = theirs.inner.config.decoder_start_token_id
    target = [start, *theirs.tokenizer(text_target=SPANISH)["input_ids"]]
    weights = theirs.attention(source, target, "cross")[-1, 0]
    assert_cells(app, "large", weights, operations=PASS)
    total = theirs.log_probabilities(source, target).sum()
    assert any(told in captions(app) for told in shown("{:.2f} nats", total, operations=PASS))

    app = choose(app, at=2).run()
    second = int(theirs.forward(source, target).logits[0, 2].argsort(descending=True)[1])
    tokenizer = open_folder(folders(family), "").tokenizers.target
    instead = next_token_label(tokenizer.tokens([second])[0], spaced=True)
    app = choose(app, fork=instead)
    assert errors(app) == []
    row = next(row for row in html(app, "bdi") if len(texts_in(row, "bdi")) > 4)
    prefix = [*target[:3], second]
    forked = theirs.generate(
        source,
        len(texts_in(row, "bdi")) + 1 - len(prefix),
        decoder_input_ids=torch.tensor([prefix]),
    )
    scores = [theirs.log_probabilities(source, ids).sum() for ids in (forked, target)]
    told = shown("Log-probability {:.2f} nats, against {:.2f}", *scores, operations=PASS)
    assert any(each in captions(app) for each in told)


@both
def test_a_beam_and_its_tree(
    start_model: Start, folders: Folders, eager: Callable[[str], Eager], family: str
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), decoding="beam", beam="3", below="beam")
    assert errors(app) == []
    drawn = charts(app)["tree"]["data"][3]["text"]
    tokens = [
        token_label(t)
        for t in open_folder(folders(family), "").tokenizers.target.tokens(
            range(theirs.inner.config.vocab_size)
        )
    ]
    for text in drawn:
        assert any(token.startswith(unescape(text).removesuffix("…")) for token in tokens)
    assert len(widget(app, "hypothesis").options) == 3
    assert "Log-probability of the chosen hypothesis" in captions(app)


@both
def test_heads_that_are_off_are_zeroed_in_the_output_projection(
    start_model: Start, folders: Folders, family: str
) -> None:
    theirs = Eager.open(folders(family))
    off = Head("cross", 1, 1)
    app = start_model("translate", folders(family), target=SPANISH, rank="true")
    app = choose(app, off=[off]).run()
    assert errors(app) == []
    source = theirs.tokenizer(SENTENCE)["input_ids"]
    start = theirs.inner.config.decoder_start_token_id
    target = [start, *theirs.tokenizer(text_target=SPANISH)["input_ids"]]
    before = theirs.log_probabilities(source, target).sum()
    theirs.zero(off)
    after = theirs.log_probabilities(source, target).sum()
    said = "{:.2f} nats with all heads, {:.2f} without these ({:+.2f})."
    size = float(max(abs(before), abs(after)))
    told = shown(said, before, after, after - before, size=size, operations=PASS)
    assert any(each in captions(app) for each in told)
    heads = theirs.attention(source, target, "cross").shape[1]
    drawn = cells(app, "costs")[:, -heads:]  # of cross-attention
    cost = float(before - after)
    # A sum of some nats a token: rounding of the logits is small beside that of the sum.
    assert drawn[off.layer, off.head] == near(cost, dtype=np.float32, size=size)


@both
def test_the_lens_reads_every_layer_as_the_last(
    start_model: Start, folders: Folders, eager: Callable[[str], Eager], family: str
) -> None:
    theirs = eager(family)
    app = start_model("architecture", folders(family), target=SPANISH)
    [table] = html(app, '<div class="lens"')
    source = theirs.tokenizer(SENTENCE)["input_ids"]
    start = theirs.inner.config.decoder_start_token_id
    target = [start, *theirs.tokenizer(text_target=SPANISH)["input_ids"]]
    hidden = theirs.forward(source, target).decoder_hidden_states[1][0]  # after the first layer
    if family == "t5":
        hidden = theirs.inner.decoder.final_layer_norm(hidden) * hidden.shape[-1] ** -0.5
    logits = theirs.inner.lm_head(hidden)
    if family == "marian":
        logits = logits + theirs.inner.final_logits_bias
    likeliest = logits.argmax(dim=-1)
    vocabulary = open_folder(folders(family), "").tokenizers.target
    expected = [token_label(token) for token in vocabulary.tokens(likeliest.tolist())]
    rows = [texts_in(row, "td") for row in table.split("<tr")[1:]]
    read = [row[1].removeprefix("✓ ") for row in rows if row]  # the first column is the embedding
    assert read[: len(expected)] == expected


@both
def test_a_saved_sentence_has_the_weights_of_transformers(
    folders: Folders, eager: Callable[[str], Eager], family: str, tmp_path: Path
) -> None:
    trace, theirs = traced(folders(family)), eager(family)
    for ending, write in (("npz", to_npz), ("json", to_json)):
        path = tmp_path / f"trace.{ending}"
        path.write_bytes(write(trace))
        read = read_trace(path)
        assert read.source == trace.source
        assert (read.source_embedding.positions is None) is (family == "t5")
        for kind in KINDS:
            expected = theirs.attention(read.source.ids, read.target_ids, kind)
            assert_drawn(read.attention[kind], expected, operations=PASS)
    page = to_html(trace).decode()
    assert all(token_label(token) in unescape(page) for token in trace.source.texts)


@both
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_sums_over_heads_are_what_the_model_adds_for_each_key(
    folders: Folders, family: str, kind: Kind
) -> None:
    run = open_folder(folders(family), "theirs")
    model = run.load(run.steps()[-1]).model
    trace = run_trace(model, run.tokenizers, SENTENCE, SPANISH)
    for layer, norms in enumerate(trace.head_sum_norms[kind]):
        expected = lengths_by_key(model, trace, kind, layer)
        assert_near(norms, expected, operations=PASS)


@both
def test_umap_of_the_vocabulary(
    start_model: Start,
    folders: Folders,
    eager: Callable[[str], Eager],
    clouds: list[dict[str, Any]],
    family: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In place of UMAP, which takes half a minute to start, two dimensions."""
    monkeypatch.setattr(projection, "umap_points", lambda rows: rows[:, 3:5].copy())
    app = start_model("embeddings", folders(family), section="projection", projection_by="UMAP")
    app = app.button(key="compute").click().run()
    assert errors(app) == []
    table = eager(family).inner.get_input_embeddings().weight.numpy(force=True)
    np.testing.assert_array_equal(clouds[-1]["cloud"].points, table[:, 3:5])


@pytest.mark.parametrize(
    ("family", "code"), [("m2m_100", "es"), ("nllb", "spa_Latn"), ("mbart", "de_DE")]
)
def test_the_target_s_language_is_that_of_transformers(
    start_model: Start,
    folders: Folders,
    eager: Callable[[str], Eager],
    family: str,
    code: str,
) -> None:
    theirs = eager(family)
    without = cells(start_model("translate", folders(family)), "large")
    app = start_model("translate", folders(family), to=code)
    assert errors(app) == []
    language = theirs.tokenizer.convert_tokens_to_ids(
        f"__{code}__" if family == "m2m_100" else code
    )
    settings = {"decoder_start_token_id" if family == "mbart" else "forced_bos_token_id": language}
    length = length_of(app)
    target = translated(theirs, length, **settings)
    assert language in target[:2]
    source = theirs.tokenizer(SENTENCE)["input_ids"]
    expected = theirs.attention(source, target, "cross")[-1, 0]
    drawn = cells(app, "large")
    assert_drawn(drawn, expected, operations=PASS)
    assert drawn.shape != without.shape or not np.allclose(drawn, without, atol=1e-3)


@pytest.mark.parametrize(
    ("family", "task"),
    [("marian", ">>cat<< "), ("t5_relu", "translate English to Spanish: ")],
)
def test_a_task_is_put_before_the_source(
    start_model: Start,
    folders: Folders,
    eager: Callable[[str], Eager],
    family: str,
    task: str,
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), task=task)
    assert errors(app) == []
    source = theirs.tokenizer(task + SENTENCE)["input_ids"]
    target = theirs.generate(source, length_of(app))
    weights = theirs.attention(source, target, "cross")[-1, 0]
    assert_cells(app, "large", weights, operations=PASS)
