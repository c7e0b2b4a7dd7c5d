"""Runs, checkpoints and traces as a person uses them from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headwise
from headwise.model.checkpoint import CheckpointError, TrainedRun, load_weights
from headwise.model.decoding.greedy import greedy
from headwise.model.interface import Head
from headwise.model.turned import Turned
from headwise.model.turning import ablate
from headwise.viz_app.trace.sentence import run_trace
from tests.imports import ROOT

TEXT = "Where is the old dog?"


@pytest.fixture(scope="module")
def opened(run_root: Path) -> headwise.OpenedRun:
    return headwise.open("tiny", root=run_root)


def test_importing_it_imports_nothing_else() -> None:
    """And what it names is there, with a docstring."""
    code = (
        "import sys, headwise; before = set(sys.modules);"
        "print(sorted({'torch', 'streamlit', 'plotly', 'pandas', 'numpy'} & before),"
        "[name for name in headwise.__all__ if not getattr(headwise, name).__doc__],"
        "set(headwise.__all__) <= set(dir(headwise)), 'streamlit' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[] [] True False", done.stderr
    with pytest.raises(AttributeError, match="module 'headwise' has no attribute 'opne'"):
        headwise.opne  # noqa: B018


def test_a_run_is_the_sequence_of_its_checkpoints(opened: headwise.OpenedRun) -> None:
    assert (opened.steps, len(opened)) == ([0, 20, 60], 3)
    assert [checkpoint.step for checkpoint in opened] == [0, 20, 60]
    assert (opened[-1].step, opened[1].step, opened.at(20).step) == (60, 20, 20)
    assert [checkpoint.step for checkpoint in opened[1:]] == [20, 60]
    assert repr(opened) == "<run tiny: 3 checkpoints, steps 0 to 60>"
    assert repr(opened[0]).startswith("<checkpoint of tiny, step 0, sha256 ")
    with pytest.raises(IndexError, match="one of the 3 checkpoints of tiny, from 0, got 3"):
        opened[3]
    with pytest.raises(CheckpointError, match="no weights of step 7; there are those of: 0, 20"):
        opened.at(7)


def test_a_trace_names_its_checkpoint_and_is_short_in_print(
    opened: headwise.OpenedRun, run: TrainedRun, tmp_path: Path
) -> None:
    weights = load_weights(run, 20)
    trace = opened[1].trace(TEXT, ablated=("cross.2.3", Head("encoder_self", 0, 1)))
    assert (trace.run, trace.step, trace.sha256) == ("tiny", 20, run.sha256(20))
    expected = run_trace(
        weights.model,
        run.tokenizers,
        TEXT,
        turned=Turned.off([("cross", 1, 2), ("encoder_self", 0, 1)]),
    )
    assert trace == expected
    assert trace != opened[1].trace(TEXT)
    strong = Turned.of({("cross", 1, 2): 1.5})
    expected = run_trace(weights.model, run.tokenizers, TEXT, trace.target_ids, turned=strong)
    assert opened[1].trace(TEXT, trace.target_ids, strengths={"cross.2.3": 1.5}) == expected
    assert trace != run_trace(load_weights(run, 60).model, run.tokenizers, TEXT)
    assert (trace == TEXT) is False
    assert len(repr(trace)) < 300
    assert repr(trace).startswith("<Trace of tiny, step 20: 'Where is the old dog?' → ")
    assert repr(trace).endswith("tokens, 2 heads off>")
    for name in ("trace.npz", "trace.json"):
        read = headwise.read_trace(str(trace.save(tmp_path / name)))
        np.testing.assert_allclose(read.attention["cross"], trace.attention["cross"], atol=1e-7)
        assert (read.sha256, read.turned) == (trace.sha256, trace.turned)
    assert headwise.read_trace(tmp_path / "trace.npz") == trace
    assert trace.sha256 in trace.save(tmp_path / "trace.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected a name that ends in \.html, \.npz or \.json"):
        trace.save(tmp_path / "trace.txt")


def test_heads_that_are_off_are_so_in_decoding(opened: headwise.OpenedRun, run: TrainedRun) -> None:
    checkpoint, model = opened[-1], load_weights(run, 60).model
    source = [run.tokenizers.encode_source(TEXT)]
    off = [head for head in checkpoint.heads if head.kind == "cross"]
    with ablate(model, off):
        expected = run.tokenizers.target.decode(greedy(model, source)[0])
    with checkpoint.ablate(off):
        assert checkpoint.translate(TEXT) == expected
    as_it_is = run.tokenizers.target.decode(greedy(model, source)[0])
    assert checkpoint.translate([TEXT, TEXT]) == [as_it_is] * 2
    assert checkpoint.translate(TEXT) != expected


def test_edits_and_tensors_by_patterns(opened: headwise.OpenedRun) -> None:
    """Cross-attention that is spread evenly: every row of every map is the same."""
    checkpoint = opened[-1]
    seen: list[str] = []

    def even(weights: torch.Tensor, name: str) -> torch.Tensor:
        seen.append(name)
        return torch.full_like(weights, 1 / weights.shape[-1])

    with checkpoint.edit({"decoder.*.cross_attention.weights": even}):
        _, cache = checkpoint.run_with_cache(TEXT, "No sé.", names="*.weights")
    assert seen == [name for name in checkpoint.hook_names if "cross_attention.weights" in name]
    for name, weights in cache.items():
        assert bool((weights == 1 / weights.shape[-1]).all()) == ("cross" in name)


def test_an_account_is_of_the_word_that_is_named(opened: headwise.OpenedRun) -> None:
    checkpoint = opened[-1]
    trace = checkpoint.trace(TEXT)
    first = trace.predicted.texts[0].strip()
    account = checkpoint.why(TEXT, 1)
    top = trace.predictions.top_log_probability[0]
    assert account.difference == pytest.approx(float(top[0] - top[1]), abs=1e-4)
    assert sum(dict(account.named()).values()) == pytest.approx(account.difference, abs=1e-4)
    assert checkpoint.why(TEXT, first, instead="mean").word == account.word
    for at in (0, len(trace.predicted) + 1, "no such token"):
        with pytest.raises(ValueError, match="at: expected"):
            checkpoint.why(TEXT, at)


def test_contributions_and_the_decoder_lens_are_of_a_text(opened: headwise.OpenedRun) -> None:
    checkpoint = opened[-1]
    shares = checkpoint.contributions(TEXT, "El perro viejo.")
    trace = checkpoint.trace(TEXT, "El perro viejo.")
    assert shares.shape == (len(trace.predicted), len(trace.source))
    assert shares.sum(axis=1)[0] < 1 + 1e-5
    text = "The black dog sees the old cat."
    written = checkpoint.decoder_lens(text)
    assert len(written) == checkpoint.description.n_encoder_layers + 1
    assert written[-1] == checkpoint.translate(text) != written[0]


def test_what_is_asked_takes_the_options_of_its_trace(opened: headwise.OpenedRun) -> None:
    """The map that each of them sees is that of the trace with the same options."""
    checkpoint = opened[-1]
    options: dict[str, Any] = {
        "target": "El perro viejo.",
        "ablated": ["cross.1.1"],
        "strengths": {"encoder_self.1.2": 2.5},
        "pinned": [("cross.1.2", 1, 0), ("encoder_self.1.1", 3, None)],
    }
    maps = checkpoint.trace(TEXT, **options).attention["cross"][1, 2]
    for name in options:
        left = {each: value for each, value in options.items() if each != name}
        without = checkpoint.trace(TEXT, **left).attention["cross"][1, 2]
        assert without.shape != maps.shape or abs(without - maps).max() > 1e-3, name
    effects = checkpoint.path(TEXT, "encoder_self.2.1", "cross.2.3", **options)
    np.testing.assert_allclose(effects.weights, maps, atol=1e-5)
    grown = np.exp(checkpoint.score_parts(TEXT, "cross.2.3", 1, **options).scores)
    np.testing.assert_allclose(grown / grown.sum(), maps[1], atol=1e-5)
    account = checkpoint.why(TEXT, 2, instead="mean", **options)
    assert dict(account.named())["cross.1.1"] == 0
    whole = checkpoint.whole_effects(TEXT, 2, instead="mean", **options)
    assert abs(whole["decoder"]["cross.1.1"]) < 1e-4 < abs(whole["decoder"]["cross.1.2"])
    with pytest.raises(ValueError, match="top_k: expected at least 2"):
        checkpoint.why(TEXT, 1, top_k=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'strength'"):
        checkpoint.why(TEXT, 1, strength={})  # type: ignore[call-arg]


def test_a_token_has_a_number_or_its_text_everywhere(opened: headwise.OpenedRun) -> None:
    checkpoint, other = opened[-1], "Where is my dog?"
    texts = [text.strip() for text in checkpoint.trace(TEXT).predicted.texts]
    place = next(place for place, text in enumerate(texts) if texts.count(text) == 1)
    target = checkpoint.tokenizers.target
    every = target.tokens(range(target.vocab_size))
    first, second, *_ = (text for text in every if len(target.encode(text.strip())) == 1)
    found = [
        checkpoint.patch(TEXT, other, at=at, words=(first, second), attribution=True)
        for at in (place + 1, texts[place])
    ]
    assert [patching.step for patching in found] == [place, place]
    with pytest.raises(ValueError, match="at: expected one token of"):
        checkpoint.patch(TEXT, other, at="no such token")
    with pytest.raises(ValueError, match="text: expected one text, got a list"):
        checkpoint.trace([TEXT])  # type: ignore[arg-type]


def test_a_wrapped_model_has_the_same_abilities(run: TrainedRun) -> None:
    model = load_weights(run, 60).model
    checkpoint = headwise.wrap(model, run.tokenizers, name="mine", step=9)
    trace = checkpoint.trace(TEXT)
    assert (trace.run, trace.step) == ("mine", 9)
    assert trace.target_text == headwise.open("tiny", root=run.folder.parent)[-1].translate(TEXT)
    table = headwise.measure(checkpoint, [(TEXT, "¿Dónde?")], ours=["confidence"])
    assert set(table["step"]) == {9}
    with pytest.raises(ValueError, match="expected the name of a head, a reference, or measures"):
        headwise.align(checkpoint, [(TEXT, "¿Dónde?")])


# What heads write, and whom they feed


def test_what_heads_write_and_feed_is_that_of_the_pages(run: TrainedRun) -> None:
    checkpoint = headwise.open("tiny", root=run.folder.parent).at(60)
    pairs = [("The dog", "El perro"), ("The cat", "El gato")]
    found = checkpoint.dictionary("cross.2.1", pairs, named=3)
    ids = {id for source, _ in pairs for id in run.tokenizers.encode_source(source)}
    assert found.ids.tolist() == sorted(ids)
    assert found.raised.shape == (len(ids), 3)
    assert (np.diff(found.raised_by, axis=1) <= 0).all()
    with pytest.raises(ValueError, match=r"a head of the decoder, got encoder_self\.1\.1"):
        checkpoint.dictionary("encoder_self.1.1", pairs)
    with pytest.raises(ValueError, match="named: expected 1 token or more, got 0"):
        checkpoint.dictionary("cross.2.1", pairs, named=0)

    edges = checkpoint.composition()
    edge = edges.between(Head("encoder_self", 0, 1), Head("cross", 1, 2), "key")
    effects = checkpoint.path("The dog", edge.earlier, "cross.2.3", target="El perro")
    assert {*effects.maps} == {"key"}
    trace = checkpoint.trace("The dog", "El perro")
    weights = trace.attention["cross"][1, 2]
    np.testing.assert_allclose(effects.weights, weights, atol=1e-5)
    assert effects.maps["key"].shape == (3, *weights.shape)
