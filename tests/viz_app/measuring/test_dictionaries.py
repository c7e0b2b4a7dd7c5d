"""Dictionaries of heads: logits as NumPy computes them, scores by hand, and the copying task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import CHECKPOINTS, TrainedRun, load_weights, open_trained_run
from headwise.model.config import BOS, EOS, PAD
from headwise.model.interface import Head, attention_path
from headwise.model.training.data import Pair
from headwise.viz_app.measuring import dictionaries
from headwise.viz_app.measuring.batches import EncodedPair, LeftOutCounts, encode
from headwise.viz_app.measuring.dictionaries import (
    chosen_values,
    copying,
    head_dictionary,
    lexicon_of,
    lexicon_precision,
    mean_values,
    most_frequent,
    values_in,
    written_logits,
)
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.records.dictionary import Lexicon, TokenValues
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import FAMILY_NAMES, build
from tests.viz_app.trace.test_circuits import array, tiny_preset

PAIR = EncodedPair(0, Pair("", ""), [5, 17, 5, EOS], [BOS, 12, 7, EOS])
OTHER = EncodedPair(1, Pair("", ""), [17, EOS], [BOS, 9, 8, 7, 6, EOS])


@pytest.mark.parametrize("preset", ["default", "books-small"])
def test_logits_are_those_of_numpy(preset: str) -> None:
    """One preset has a norm at the end only, the other one after every sublayer."""
    model: Any = tiny_preset(preset).double()
    found = values_in(model, [PAIR], "cross")
    logits = written_logits(model, Head("cross", 0, 1), torch.tensor(found.values[0, 1]))
    path = attention_path("cross", 0)
    x = found.values[0, 1] @ array(model.linear(f"{path}.output_projection").weight)[5:10]
    norms = [model.final_norm("target")]
    if preset == "books-small":
        later = [path, "decoder.layers.0.feed_forward"]
        names = ("self_attention", "cross_attention", "feed_forward")
        later += [f"decoder.layers.1.{name}" for name in names]
        norms = [*map(model.norm, later), *norms]
    for norm in norms:
        if norm is not None:
            x = (x - x.mean(-1, keepdims=True)) * array(norm.gain)
    expected = x @ array(model.unembedding.weight).T
    expected = np.delete(expected, PAD, axis=1)
    expected = (expected - expected.mean(-1, keepdims=True)) / expected.std(-1, keepdims=True)
    assert np.isnan(logits.numpy()[:, PAD]).all()
    assert_near(np.delete(logits.numpy(), PAD, axis=1), expected, size=5, operations=PASS)


def test_values_are_means_over_all_places_of_a_token() -> None:
    model: Any = tiny_preset("default").double()
    together = values_in(model, [PAIR, OTHER], "cross")
    alone = [values_in(model, [each], "cross") for each in (PAIR, OTHER)]
    assert alone[0].ids.tolist() == [5, 17, 5, EOS]
    means = mean_values(together)
    assert (means.ids.tolist(), means.counts.tolist()) == ([EOS, 5, 17], [2, 2, 2])
    first = (alone[0].values[:, :, 0] + alone[0].values[:, :, 2]) / 2
    assert_near(means.values[:, :, 1], first, operations=PASS)
    both = (alone[0].values[:, :, 1] + alone[1].values[:, :, 0]) / 2
    assert_near(means.values[:, :, 2], both, operations=PASS)
    own = values_in(model, [PAIR], "decoder_self")
    assert own.ids.tolist() == [BOS, 12, 7]  # </s> is consumed by no step


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_has_dictionaries(family: str) -> None:
    """What is raised most has the largest logit, and padding is never named."""
    model: Any = build(family).ours
    if model.description.output_transform:
        values: Any = None
        with pytest.raises(ValueError, match="an activation function comes before the unembedding"):
            head_dictionary(model, Head("cross", 1, 0), values)
        return
    special = model.special_ids
    pair = EncodedPair(0, Pair("", ""), [5, 9, special.end], [special.start, 7, 8, special.end])
    for kind in ("cross", "decoder_self"):
        found = values_in(model, [pair], kind)
        assert np.isfinite(found.values).all()
        head = Head(kind, 1, 0)
        made = head_dictionary(model, head, found, named=3)
        logits = written_logits(model, head, torch.tensor(found.values[1, 0])).numpy()
        assert_near(made.raised_by[:, 0], np.nanmax(logits, axis=1), operations=PASS)
        assert_near(made.lowered_by[:, 0], np.nanmin(logits, axis=1), operations=PASS)
        named = {*made.raised.ravel().tolist(), *made.lowered.ravel().tolist()}
        assert not named & {special.padding, *special.never_generated}


def values_that_write(monkeypatch: pytest.MonkeyPatch, logits: list[list[float]]) -> TokenValues:
    """Values of the tokens 0, 1, 2 … for which the only head writes these logits."""
    monkeypatch.setattr(
        dictionaries, "written_logits", lambda *_: torch.tensor(logits, dtype=torch.float64)
    )
    count = len(logits)
    values = np.zeros((1, 1, count, 2), np.float32)
    return TokenValues(np.arange(count), np.ones(count, np.int64), values)


def test_precision_counts_first_tokens_and_chance_those_of_other_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first token is right, the second wrong, the third right, with the first one's word."""
    rows = [[0, 0, 0, 0, 9.0], [0, 9.0, 0, 0, 0], [0, 0, 0, 0, 9.0]]
    values = values_that_write(monkeypatch, rows)
    lexicon = Lexicon(*np.array([[0, 4, 2], [1, 3, 2], [2, 4, 2]]).T)
    model: Any = None  # what it writes is given
    found = lexicon_precision(model, values, lexicon)
    assert found.tokens == 3
    assert found.values[0, 0] == pytest.approx(2 / 3)
    assert found.chance[0, 0] == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
    apart = np.array([1 / 2, 0, 1 / 2])
    assert found.errors[0, 0] == pytest.approx(apart.std(ddof=1) / 3**0.5)


def test_copying_is_the_share_of_tokens_that_are_raised_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Token 0 is raised above all, 1 below all; the vocabulary has five tokens."""
    values = values_that_write(monkeypatch, [[9.0, 1, 2, 3, 4], [2.0, 1, 3, 4, 5]])
    model: Any = None  # what it writes is given
    found = copying(model, values)
    assert found.values[0, 0] == pytest.approx((1 + 0) / 2)
    assert found.chance[0, 0] == pytest.approx((1 / 4 + 0) / 2)


def sentences_of(run: TrainedRun) -> list[EncodedPair]:
    measures = read_measures(run.folder, run.steps()[-1])
    pairs = (Pair(each.source, each.reference) for each in measures.sentences)
    return list(encode(pairs, run.tokenizers, max_length=20, left_out=LeftOutCounts()))


def test_the_copying_task_is_written_by_its_last_cross_attention() -> None:
    """All seven symbols are their own translation; at step 0 no head knows."""
    run = open_trained_run("copy", root=CHECKPOINTS)
    pairs = sentences_of(run)
    last, first = (load_weights(run, step).model for step in (run.steps()[-1], 0))
    lexicon = lexicon_of(last, run.tokenizers, pairs, 0)
    assert lexicon.source.tolist() == lexicon.target.tolist()
    assert len(lexicon.source) == 7
    scores = [
        lexicon_precision(model, mean_values(values_in(model, pairs, "cross")), lexicon)
        for model in (first, last)
    ]
    assert scores[1].values[1].tolist() == [1, 1]
    assert (scores[0].values < 0.5).all()


def test_frequent_tokens_are_those_of_the_training_data(run: TrainedRun) -> None:
    tokenizer = run.tokenizers.target
    ids = np.array([*sorted(tokenizer.control_ids), *tokenizer.encode("perro gato")])
    counts = np.arange(len(ids), 0, -1)
    values = TokenValues(ids, counts, np.zeros((1, 1, len(ids), 2), np.float32))
    of_values = most_frequent(values, run.tokenizers, None, "decoder_self")
    assert of_values == ids[len(tokenizer.control_ids) :].tolist()
    of_training = SimpleNamespace(source=(), target=np.arange(tokenizer.vocab_size).tolist())
    found = most_frequent(values, run.tokenizers, of_training, "decoder_self")  # type: ignore[arg-type]
    assert found == sorted(of_values, reverse=True)
    assert chosen_values(values, found).ids.tolist() == found
