"""The room compare of the page Training, run without a browser on tiny runs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.checkpoint import (
    Run,
    create_run,
    load_weights,
    open_run,
    save_weights,
    tokenizer_sha256,
    weights_path,
)
from model.files import append_log
from model.run_info import Counts
from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.analysis.differences import head_distances, ranked
from viz_app.analysis.grid import Reading, make_grid
from viz_app.figures.mosaic import MASKED, tile
from viz_app.records import KINDS, Kind, Trace
from viz_app.trace import run_trace
from viz_app.views.choice import head_label

CATS = "The cats don't see the dog."
REFERENCE = "Los gatos no ven al perro."

Start = Callable[..., AppTest]


@pytest.fixture
def start(start_page: Callable[..., AppTest]) -> Start:
    """Open the room."""
    return partial(start_page, "training", training="compare")


@pytest.fixture
def word_root(own_root: Path, run: Run, make_model: Callable[..., Transformer]) -> Path:
    """Beside ``tiny`` a run of the same languages that reads words, of 2 layers of 2 heads."""
    pairs = [(CATS, REFERENCE), ("Where is the old dog?", "¿Dónde está el perro viejo?")]
    tokenizers = TokenizerPair.train(pairs, kind="word", vocab_sizes=(40, 43), shared=False)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = make_model(source_vocab_size=sizes[0], target_vocab_size=sizes[1], n_heads=2)
    info = replace(
        run.info,
        name="words",
        model=model.config,
        tokenizer_sha256=tokenizer_sha256(tokenizers),
    )
    counts = Counts([1] * sizes[0], [1] * sizes[1])
    create_run(own_root / "words", info, tokenizers, counts)
    save_weights(own_root / "words", model, run="words", step=7)
    other = replace(run.info, name="others", target_language="fr")
    create_run(own_root / "others", other, run.tokenizers, run.counts)
    save_weights(own_root / "others", load_weights(run, 0).model, run="others", step=0)
    return own_root


def traced(run: Run, step: int, target: Sequence[int] | str | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, CATS, target, step=step)


def shared_traces(run: Run, a: int, b: int) -> tuple[Trace, Trace]:
    """Of two steps, on what the newest makes of the sentence."""
    target = traced(run, run.steps()[-1]).target_ids
    return traced(run, a, target), traced(run, b, target)


def charts(app: AppTest) -> dict[str, Any]:
    """Key of each chart → its figure."""
    found = app.get("plotly_chart")
    return {chart.proto.id.split("-", 2)[2]: json.loads(chart.proto.spec) for chart in found}


def cells(app: AppTest, key: str) -> np.ndarray:
    written = charts(app)[key]["data"][0]["z"]
    if isinstance(written, list):
        return np.array(written)
    flat = np.frombuffer(base64.b64decode(written["bdata"]), written["dtype"])
    return flat.reshape([int(n) for n in str(written.get("shape", flat.size)).split(",")])


def unescaped(text: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def errors(app: AppTest) -> list[str]:
    assert not app.exception
    return [unescaped(error.value) for error in app.error]


def captions(app: AppTest) -> str:
    return unescaped(" ".join(caption.value for caption in app.caption))


def texts(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


# Two checkpoints


def test_the_chosen_head_of_both_and_the_signed_difference(start: Start, run: Run) -> None:
    app = start(step="0", other_step="20", kind="Decoder self", layer="2", head="3")
    assert errors(app) == []
    a, b = (trace.attention["decoder_self"][1, 2] for trace in shared_traces(run, 0, 20))
    np.testing.assert_allclose(cells(app, "map-A"), a, atol=1e-6)
    np.testing.assert_allclose(cells(app, "map-B"), b, atol=1e-6)
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)
    drawn = charts(app)["difference"]["data"]
    assert (drawn[0]["zmin"], drawn[0]["zmax"]) == (-1, 1)
    assert len(drawn) == 2  # masked cells lie over it


def test_translations_stand_side_by_side_with_their_log_probabilities(
    start: Start, run: Run
) -> None:
    app = start(step="60", other_step="20")
    own = [traced(run, step) for step in (60, 20)]
    shown = texts(app)
    assert [text for text in shown if text in {trace.target_text for trace in own}][:2] == [
        trace.target_text for trace in own
    ]
    notes = captions(app)
    for trace, forced in zip(own, shared_traces(run, 60, 20), strict=True):
        total, given = (float(t.predictions.log_probability.sum()) for t in (trace, forced))
        assert f"together {total:.2f} nats. The shared target has {given:.2f} nats here." in notes
    assert "the translation at step 60, given to both" in notes


@pytest.mark.parametrize(("step", "expected"), [("60", 20), ("20", 60), ("0", 60)])
def test_at_first_it_is_set_against_the_end_or_the_middle(
    start: Start, step: str, expected: int
) -> None:
    app = start(step=step)
    assert app.select_slider(key="other_step").value == expected


def test_a_checkpoint_is_never_compared_with_itself(start: Start) -> None:
    app = start(step="60", other_step="20")
    app.select_slider(key="step").set_value(20).run()
    assert errors(app) == []
    assert app.select_slider(key="other_step").options == ["0", "60"]


def test_all_kinds_are_ranked_and_a_button_opens_a_head(start: Start, run: Run) -> None:
    app = start(step="0", other_step="60")
    traces = shared_traces(run, 0, 60)
    distances: dict[Kind, Any] = {
        kind: head_distances(*(trace.attention[kind] for trace in traces)) for kind in KINDS
    }
    drawn = cells(app, "distances")
    np.testing.assert_allclose(
        drawn[:, [0, 1, 2, 4, 5, 6, 8, 9, 10]],
        np.hstack([distances[kind] for kind in KINDS]),
        atol=1e-5,
    )
    order = ranked(distances)[:5]
    named = [app.button(key=f"farthest-{place}").label for place in range(5)]
    assert named == [f"{head_label(head)} · {distance:.2f}" for head, distance in order]


@pytest.mark.parametrize("kind", KINDS)
def test_all_heads_of_a_kind_are_drawn_as_differences(start: Start, run: Run, kind: Kind) -> None:
    app = start(step="0", other_step="60")
    app.segmented_control(key="kind").set_value(kind).run()
    traces = shared_traces(run, 0, 60)
    a, b = (trace.attention[kind] for trace in traces)
    allowed = make_grid(traces[0], kind).allowed
    drawn = cells(app, "overview-mosaic")
    np.testing.assert_allclose(drawn, tile(((b - a + 1) / 2).astype(np.float32), allowed), atol=1)
    assert (MASKED in drawn) == (kind == "decoder_self")
    app.segmented_control(key="overview").set_value("A").run()
    np.testing.assert_allclose(cells(app, "overview-mosaic"), tile(a, allowed), atol=1)


def test_words_instead_of_pieces(start: Start, run: Run) -> None:
    app = start(step="0", other_step="60", units="words", layer="1", head="2")
    a, b = (
        make_grid(trace, "cross", Reading("words")).apply(trace.attention["cross"])[0, 1]
        for trace in shared_traces(run, 0, 60)
    )
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)


# The shared target


def test_a_sample_s_reference_can_be_shared(start: Start, own_root: Path, run: Run) -> None:
    row = {"step": 0, "source": CATS, "reference": REFERENCE, "shows": "reference"}
    append_log(own_root / "tiny" / "samples.jsonl", [row])
    app = start(own_root, q=CATS, shared="reference", step="0", other_step="60", layer="1")
    assert REFERENCE in texts(app)
    a, b = (traced(run, step, REFERENCE).attention["cross"][0, 0] for step in (0, 60))
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)


def test_without_a_reference_none_is_offered(start: Start) -> None:
    assert start().segmented_control(key="shared").options == [
        "newest checkpoint's output",
        "your own",
    ]


def test_a_translation_of_ones_own_can_be_shared(start: Start, run: Run) -> None:
    app = start(shared="your own", step="0", other_step="60", layer="2", head="1")
    assert "the translation at step 60, given to both" in captions(app)
    app.text_input(key="target").set_value("El perro <b>").run()
    assert "your translation, given to both" in captions(app)
    a, b = (traced(run, step, "El perro <b>").attention["cross"][1, 0] for step in (0, 60))
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)


# Two runs


def test_only_runs_of_the_same_languages_are_offered(start: Start, word_root: Path) -> None:
    assert start(word_root, run="tiny").selectbox(key="other_run").options == ["tiny", "words"]
    assert start(word_root, run="others", q=CATS).info[0].value == (
        "The run has one checkpoint only, and there is no other run of its languages."
    )


def test_runs_with_other_tokenizers_are_compared_by_words(
    start: Start, word_root: Path, run: Run
) -> None:
    app = start(
        word_root,
        run="tiny",
        q=CATS,
        other_run="words",
        shared="your own",
        target=REFERENCE,
        layer="2",
        head="2",
    )
    assert errors(app) == []
    words = open_run("words", root=word_root)
    a, b = (
        make_grid(trace, "cross", Reading("words")).apply(trace.attention["cross"])[1, 1]
        for trace in (traced(run, 60, REFERENCE), traced(words, 7, REFERENCE))
    )
    assert a.shape == b.shape
    np.testing.assert_allclose(cells(app, "map-B"), b, atol=1e-6)
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)
    notes = captions(app)
    assert "compared by words" in notes
    assert "do not compare their log-probabilities" in notes
    assert "Not ranked: A has 2 layers of 3 heads, B 2 of 2" in notes
    assert "distances" not in charts(app)

    app.toggle(key="unpaired").set_value(True).run()
    app.segmented_control(key="other_head").set_value(1).run()
    b = make_grid(traced(words, 7, REFERENCE), "cross", Reading("words")).apply(
        traced(words, 7, REFERENCE).attention["cross"]
    )[1, 0]
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)
    app.segmented_control(key="head").set_value(3).run()  # of which the other has none
    assert errors(app) == []
    np.testing.assert_allclose(cells(app, "map-B"), b, atol=1e-6)


def test_other_words_are_named_and_maps_stand_side_by_side(
    start: Start, word_root: Path, run: Run
) -> None:
    twice = "The  cats"  # a space is a piece, and no word of the other
    app = start(word_root, run="tiny", q=twice, other_run="words")
    assert errors(app) == []
    [info] = app.info
    assert unescaped(info.value).startswith("Word 2 of the source is “␣” for tiny and “cats” for")
    assert list(charts(app)) == ["map-A", "map-B"]


def test_a_broken_checkpoint_of_the_other_is_named(start: Start, own_root: Path) -> None:
    path = weights_path(own_root / "tiny", 0)
    path.write_bytes(path.read_bytes()[:-100])
    app = start(own_root, other_step="0")
    (message,) = errors(app)
    assert message.startswith(f"{path}: truncated")
    app.select_slider(key="other_step").set_value(20).run()
    assert errors(app) == []
    assert "difference" in charts(app)
