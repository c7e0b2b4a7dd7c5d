"""What heads write: logits as NumPy has them, means and scores by hand, and the copying task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import CHECKPOINTS, TrainedRun, load_weights, open_trained_run
from headwise.model.config import BOS, EOS, PAD
from headwise.model.interface import Head, Kind, attention_path
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.written import TokenValues, head_dictionary, values_in, written_logits
from headwise.viz_app.heads.dictionary import scores
from headwise.viz_app.heads.dictionary.scores import (
    Lexicon,
    WritingScores,
    copying,
    frequent,
    lexicon_of,
    lexicon_precision,
    mean_values,
    with_means,
)
from headwise.viz_app.measuring.files import read_measures
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import MAKES, build
from tests.viz_app.core.test_circuits import array, tiny_preset

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


@pytest.mark.parametrize("kind", ["cross", "decoder_self"])
def test_what_a_head_writes_goes_through_the_norm_of_its_sublayer_s_output(kind: Kind) -> None:
    """T5Gemma norms what a sublayer gives before it is added; its gains are kept less 1."""
    model: Any = build("t5gemma").ours
    special = model.special_ids
    pair = EncodedPair(0, Pair("", ""), [5, 9, special.end], [special.start, 7, 8, special.end])
    found = values_in(model, [pair], kind)
    values = torch.tensor(found.values[0, 1])
    logits = written_logits(model, Head(kind, 0, 1), values).numpy()
    decoder = model.inner.get_decoder()
    layer, name = decoder.layers[0], {"cross": "cross", "decoder_self": "self"}[kind]
    width = values.shape[-1]
    rows = getattr(layer, f"{name}_attn").o_proj.weight.T[width : 2 * width]
    after = getattr(layer, f"post_{name}_attn_layernorm").weight
    x = array(values) @ array(rows) * (1 + array(after)) * (1 + array(decoder.norm.weight))
    expected = x @ array(model.inner.get_output_embeddings().weight).T
    written = np.isfinite(logits).all(axis=0)
    expected = expected[:, written] - expected[:, written].mean(-1, keepdims=True)
    expected /= expected.std(-1, keepdims=True)
    of_model = logits[:, written].astype(np.float32)  # of which its numbers are
    assert_near(of_model, expected, size=5, operations=PASS)


class Named:
    """A vocabulary whose tokens are named by their ids."""

    kind = "word"

    def tokens(self, ids: list[int]) -> list[str]:
        return [f"t{id}" for id in ids]


TOKENIZERS: Any = SimpleNamespace(source=Named(), target=Named())


@pytest.mark.parametrize("family", MAKES)
def test_every_family_has_dictionaries(family: str) -> None:
    """What is raised most has the largest logit, and padding is never named."""
    model: Any = build(family).ours
    if model.description.output_transform:
        values: Any = None
        with pytest.raises(ValueError, match="an activation function comes before the unembedding"):
            head_dictionary(model, TOKENIZERS, Head("cross", 1, 0), values)
        return
    special = model.special_ids
    pair = EncodedPair(0, Pair("", ""), [5, 9, special.end], [special.start, 7, 8, special.end])
    kinds: tuple[Kind, ...] = ("cross", "decoder_self")
    for kind in kinds:
        found = values_in(model, [pair], kind)
        assert np.isfinite(found.values).all()
        head = Head(kind, 1, 0)
        made = head_dictionary(model, TOKENIZERS, head, found, named=3)
        logits = written_logits(model, head, torch.tensor(found.values[1, 0])).numpy()
        assert_near(made.raised_by[:, 0], np.nanmax(logits, axis=1), operations=PASS)
        assert_near(made.lowered_by[:, 0], np.nanmin(logits, axis=1), operations=PASS)
        named = {*made.raised.ravel().tolist(), *made.lowered.ravel().tolist()}
        assert not named & {special.padding, *special.never_generated}
        for names, ids in ((made.token, made.ids), (made.lowers, made.lowered)):
            assert names.ravel().tolist() == [f"t{id}" for id in ids.ravel()]
        assert [*made.arrays()][:3] == ["token", "places", "raises"]
        written = int(np.isfinite(logits).all(axis=0).sum())
        assert head_dictionary(model, TOKENIZERS, head, found, named=999).raised.shape[1] == written


# Values without a sentence


def test_values_are_means_over_all_places_of_a_token() -> None:
    model: Any = tiny_preset("default").double()
    alone = [values_in(model, [each], "cross") for each in (PAIR, OTHER)]
    assert alone[0].ids.tolist() == [5, 17, 5, EOS]
    means = mean_values(model, Sentences(TOKENIZERS, (PAIR, OTHER)), "cross")
    assert (means.ids.tolist(), means.counts.tolist()) == ([EOS, 5, 17], [2, 2, 2])
    first = (alone[0].values[:, :, 0] + alone[0].values[:, :, 2]) / 2
    assert_near(means.values[:, :, 1], first, operations=PASS)
    both = (alone[0].values[:, :, 1] + alone[1].values[:, :, 0]) / 2
    assert_near(means.values[:, :, 2], both, operations=PASS)
    own = values_in(model, [PAIR], "decoder_self")
    assert own.ids.tolist() == [BOS, 12, 7]  # </s> is consumed by no step


def values_of(kind: Kind, ids: Any, counts: Any, *, first: float = 0) -> TokenValues:
    """Values of one head: those of the first token are ``first``, each next one is one more."""
    values = np.broadcast_to(first + np.arange(len(ids))[:, None], (1, 1, len(ids), 2))
    return TokenValues(kind, np.array(ids), np.array(counts), values.astype(np.float32))


def test_frequent_tokens_are_those_of_the_training_data(run: TrainedRun) -> None:
    tokenizer = run.tokenizers.target
    text = tokenizer.encode("perro gato")
    ids = [*sorted(tokenizer.control_ids), *text]
    values = values_of("decoder_self", ids, np.arange(len(ids), 0, -1))
    assert frequent(values, run.tokenizers, None).ids.tolist() == text
    counts: Any = SimpleNamespace(source=(), target=np.arange(tokenizer.vocab_size).tolist())
    assert frequent(values, run.tokenizers, counts).ids.tolist() == sorted(text, reverse=True)


def test_typed_tokens_have_their_means_or_else_their_values_alone() -> None:
    here = values_of("cross", [7, 4, 7, EOS, 9], [1] * 5)
    means = values_of("cross", [2, 7, 9], [5, 6, 8], first=100)
    vocabulary = SimpleNamespace(control_ids={EOS})
    tokenizers: Any = SimpleNamespace(source=vocabulary)
    found = with_means(here, means, tokenizers)
    assert (found.ids.tolist(), found.counts.tolist()) == ([7, 4, 9], [6, 0, 8])
    assert found.values[0, 0, :, 0].tolist() == [101, 1, 102]


# Scores


def score_by(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, logits: list[list[float]], *more: Any
) -> WritingScores:
    """Score the only head of a model that writes these logits for the tokens 0, 1, 2 …."""
    monkeypatch.setattr(scores, "written_logits", lambda *_: torch.tensor(logits).double())
    values = values_of(kind, range(len(logits)), [1] * len(logits))
    model: Any = None  # what it writes is given
    return (lexicon_precision if more else copying)(model, values, *more)


def test_precision_is_of_first_tokens_and_chance_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first token is right, the second wrong, the third right, with the first one's word."""
    rows = [[0, 0, 0, 0, 9.0], [0, 9.0, 0, 0, 0], [0, 0, 0, 0, 9.0]]
    lexicon = Lexicon(Head("cross", 0, 0), *np.array([[0, 4, 2], [1, 3, 2], [2, 4, 2]]).T)
    found = score_by(monkeypatch, "cross", rows, lexicon)
    assert found.tokens == 3
    assert found.values[0, 0] == pytest.approx(2 / 3)
    assert found.chance[0, 0] == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
    apart = np.array([1 / 2, 0, 1 / 2])
    assert found.errors[0, 0] == pytest.approx(apart.std(ddof=1) / 3**0.5)


def test_copying_is_the_share_of_tokens_raised_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token 0 is raised above all, 1 below all; the vocabulary has five tokens."""
    found = score_by(monkeypatch, "decoder_self", [[9.0, 1, 2, 3, 4], [2.0, 1, 3, 4, 5]])
    assert found.values[0, 0] == pytest.approx((1 + 0) / 2)
    assert found.chance[0, 0] == pytest.approx((1 / 4 + 0) / 2)


def test_the_copying_task_is_written_by_its_last_cross_attention() -> None:
    """All seven symbols are their own translation; at step 0 no head knows."""
    run = open_trained_run("copy", root=CHECKPOINTS)
    sentences = Sentences.examples(run, read_measures(run.folder, run.steps()[-1]))
    last, first = (load_weights(run, step).model for step in (run.steps()[-1], 0))
    lexicon = lexicon_of(last, sentences, 3)
    assert lexicon.head == Head("cross", 1, 1)
    lexicon = lexicon_of(last, sentences, 0)
    assert lexicon.source.tolist() == lexicon.target.tolist()
    assert len(lexicon.source) == 7
    means = [mean_values(model, sentences, "cross") for model in (first, last)]
    found = [lexicon_precision(*of, lexicon) for of in zip((first, last), means, strict=True)]
    assert found[1].values[1].tolist() == [1, 1]
    assert (found[0].values < 0.5).all()


# Scores in words


def made_up(kind: Kind, value: float, chance: float, error: float) -> WritingScores:
    """One layer of three heads, the second with this score; the third has none."""
    found = [np.array([[0.3, of, np.nan]], np.float32) for of in (value, chance, error)]
    return WritingScores(kind, *found, tokens=100)


def test_copying_is_said_above_chance() -> None:
    for value, chance, error, said in (
        (0.97, 0.6, 0.01, "it copies what it reads"),
        (0.97, 0.96, 0.01, "it neither copies nor suppresses"),
        (0.7, 0.5, 0.01, "it neither copies nor suppresses"),
        (0.12, 0.5, 0.01, "it suppresses what it reads"),
        (0.12, 0.13, 0.1, "it neither copies nor suppresses"),
    ):
        found = made_up("decoder_self", value, chance, error).said(Head("decoder_self", 0, 1))
        assert found.startswith(said)
        assert f"{value - chance:+.2f} ± {error:.2f}" in found


def test_precision_has_its_interval_and_chance() -> None:
    head, scored = Head("cross", 0, 1), made_up("cross", 0.5, 0.02, 0.05)
    assert "for 50 of 100 source tokens, 0.50 (95% interval 0.40 to 0.60)" in scored.said(head)
    assert scored.said(head).endswith("it would be 0.02.")
    assert scored.best_other(head) == Head("cross", 0, 0)
