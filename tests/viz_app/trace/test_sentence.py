from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headwise.model.attention
from headwise.model.config import BOS, EOS
from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import edit, hook_names
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import DecoderCache, Transformer
from headwise.model.turned import PinnedRow, Turned
from headwise.model.turning import turn
from headwise.viz_app.records.trace import Tokens, Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near

MakeSpeaker = Callable[..., Transformer]
SOURCE, TARGET = "Don't worry, she sees him.", "No te preocupes, ella lo ve."
L, H, K, D, LONGEST = 2, 3, 5, 14, 31
NORMS = [("pre", True), ("pre", False), ("post", False)]

ONCE: dict[str, Any] = {"dtype": np.float32, "operations": 1}
"""What was computed in float64 and rounded to float32, as all that is recorded is."""


@pytest.fixture(scope="module")
def precise_trace(precise: Transformer, tokenizers: TokenizerPair) -> Trace:
    """As ``trace``, of the model that computes in float64."""
    return run_trace(precise, tokenizers, SOURCE, TARGET)


@pytest.fixture
def inputs(trace: Trace) -> tuple[Tensor, Tensor]:
    """What the model read: source (1, S), consumed (1, T)."""
    return torch.tensor([trace.source.ids]), torch.tensor([trace.consumed.ids])


def test_arrays_are_float32_or_int64_with_unique_names(trace: Trace) -> None:
    arrays = list(trace.arrays())
    assert len({name for name, _ in arrays}) == len(arrays) == 6 * 3 + 2 * 3 + 2 + 7
    for name, array in arrays:
        whole = name in ("rank", "top_ids", "lens_ids")
        assert array.dtype == (np.int64 if whole else np.float32), name
        assert np.isfinite(array).all(), name
        assert not array.flags.writeable, name


# Attention


@pytest.mark.parametrize("kind", KINDS)
def test_weights_follow_from_queries_and_keys(trace: Trace, kind: Kind) -> None:
    scores = trace.queries[kind] @ trace.keys[kind].swapaxes(-1, -2) / np.sqrt(K)
    size = np.abs(scores).max()
    if kind == "decoder_self":  # none on future keys
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=-1, keepdims=True)
    assert_near(trace.attention[kind], expected, size=size)
    assert ((trace.attention[kind] == 0) == (expected == 0)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_value_norms_are_after_projecting(trained: Transformer, trace: Trace, kind: Kind) -> None:
    for layer in range(L):
        module = trained.get_submodule(attention_path(kind, layer))
        projection = module.get_parameter("output_projection.weight").numpy()  # (D, H K)
        for head in range(H):
            part = projection[:, head * K : (head + 1) * K]  # (D, K)
            expected = [np.linalg.norm(part @ value) for value in trace.values[kind][layer, head]]
            assert_near(trace.value_norms[kind][layer, head], expected)


# Embeddings and streams


def test_stack_input_is_scaled_embedding_and_position(trained: Transformer, trace: Trace) -> None:
    for stack, tokens, embedding, stream in (
        (trained.encoder, trace.source, trace.source_embedding, trace.encoder_stream),
        (trained.decoder, trace.consumed, trace.target_embedding, trace.decoder_stream),
    ):
        rows = stack.embedding.table.weight.numpy()[list(tokens.ids)]
        assert_near(embedding.tokens, rows * D**0.5)
        assert_near(embedding.positions[0], [0, 1] * (D // 2))  # sin 0, cos 0
        np.testing.assert_array_equal(embedding.tokens + embedding.positions, embedding.total)
        np.testing.assert_array_equal(stream[0], embedding.total)


# Predictions


def test_replay_matches_decoding_step_by_step(precise: Transformer, precise_trace: Trace) -> None:
    trace = precise_trace
    with torch.inference_mode():
        memory, mask = precise.encode(torch.tensor([trace.source.ids]))
        cache = DecoderCache(L)
        steps = []
        for consumed, predicted in zip(trace.consumed.ids, trace.predicted.ids, strict=True):
            stream = precise.decode(torch.tensor([[consumed]]), memory, mask, cache)
            log_probability = precise.unembed(stream)[0, 0].log_softmax(dim=-1)
            steps.append(log_probability[predicted].item())
    assert_near(trace.predictions.log_probability, steps, **ONCE)


def test_predictions_follow_from_the_logits(
    precise: Transformer, precise_trace: Trace, inputs: tuple[Tensor, Tensor]
) -> None:
    trace = precise_trace
    logits = precise(*inputs)[0].numpy()
    probability = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)  # (T, V)
    predictions = trace.predictions
    for t, actual in enumerate(trace.predicted.ids):
        order = np.argsort(-probability[t])
        assert predictions.rank[t] == 1 + list(order).index(actual)
        assert predictions.top_ids[t].tolist() == order[:10].tolist()
        best = np.log(probability[t, order[:10]])
        assert_near(predictions.top_log_probability[t], best, **ONCE)
    entropy = -(probability * np.log(probability)).sum(axis=-1)
    assert_near(predictions.entropy, entropy, **ONCE)
    assert len(set(predictions.rank.tolist())) > 2  # likely and unlikely tokens


def test_lens_norms_each_layer_as_the_last(precise: Transformer, precise_trace: Trace) -> None:
    """The last one has the prediction."""
    stream = torch.tensor(precise_trace.decoder_stream).double()
    logits = precise.unembed(precise.decoder.final_norm(stream))
    best = logits.log_softmax(dim=-1).max(dim=-1)
    predictions = precise_trace.predictions
    np.testing.assert_array_equal(predictions.lens_ids[..., 0], best.indices)
    np.testing.assert_array_equal(predictions.lens_ids[-1], predictions.top_ids)
    assert (predictions.lens_ids[0] != predictions.top_ids).any()
    size = float(logits.abs().max())
    assert_near(predictions.lens_log_probability[..., 0], best.values, size=size)


# Source and target


def test_without_a_target_it_is_greedy(trained: Transformer, tokenizers: TokenizerPair) -> None:
    trace = run_trace(trained, tokenizers, "  Where is the old dog? ")
    source = tokenizers.encode_source("Where is the old dog?")
    assert list(trace.source.ids) == source
    assert list(trace.target_ids) == greedy(trained, [source])[0]
    assert trace.source_text == "Where is the old dog?"
    assert trace.target_text == "¿Dónde está el perro viejo?"
    assert not trace.forced
    assert all(check.passed for check in trace.checks)


def test_target_by_text_or_ids(
    trained: Transformer, tokenizers: TokenizerPair, trace: Trace
) -> None:
    ids = tokenizers.encode_target(TARGET)
    by_ids = run_trace(trained, tokenizers, SOURCE, ids)
    assert trace.forced
    assert by_ids.forced
    assert trace.target_ids == by_ids.target_ids == tuple(ids)
    assert trace.target_text == by_ids.target_text == TARGET
    for (name, array), (_, same) in zip(trace.arrays(), by_ids.arrays(), strict=True):
        np.testing.assert_array_equal(array, same, err_msg=name)


def test_words(trace: Trace) -> None:
    def texts(tokens: Tokens) -> list[str]:
        return [word.text for word in tokens.words]

    english = ["Don", "'", "t", "worry", ",", "she", "sees", "him", ".", "</s>"]
    assert texts(trace.source) == english
    spanish = ["No", "te", "preocupes", ",", "ella", "lo", "ve", "."]
    assert texts(trace.consumed) == ["<s>", *spanish]
    assert texts(trace.predicted) == [*spanish, "</s>"]
    for tokens in (trace.source, trace.consumed, trace.predicted):
        inside = [i for word in tokens.words for i in range(word.start, word.stop)]
        assert inside == list(range(len(tokens)))


def test_every_hook_point_is_summarised(
    precise: Transformer, precise_trace: Trace, inputs: tuple[Tensor, Tensor]
) -> None:
    summaries = {summary.name: summary for summary in precise_trace.summary}
    assert list(summaries) == hook_names(precise)
    logits = precise(*inputs)
    summary = summaries["logits"]
    assert summary.shape == tuple(logits.shape)
    size = float(logits.abs().max())
    assert summary.mean == near(logits.mean().item(), dtype=np.float32, size=size)
    deviation = logits.numpy().std()
    assert summary.standard_deviation == near(deviation, dtype=np.float32, size=size)
    norm = np.linalg.norm(logits.numpy(), axis=-1).mean()
    assert summary.norm == near(norm, dtype=np.float32)


# Self-checks: each of four ways to break the pass turns one of them red

ROWS, CAUSAL, LOGITS, HEADS = range(4)
Breakage = Callable[[Transformer, pytest.MonkeyPatch], Iterator[None]]


def _edited(name: str, function: Callable[[Tensor], Tensor]) -> Breakage:
    def breakage(speaker: Transformer, patch: pytest.MonkeyPatch) -> Iterator[None]:
        with edit(speaker, {name: function}):
            yield

    return breakage


def _uniform_while_recording(speaker: Transformer, patch: pytest.MonkeyPatch) -> Iterator[None]:
    def uniform(scores: Tensor, mask: Tensor | None) -> Tensor:
        allowed = torch.ones_like(scores) if mask is None else mask.expand_as(scores)
        return allowed / allowed.sum(dim=-1, keepdim=True)

    patch.setattr(headwise.model.attention, "attention_weights", uniform)
    yield


@pytest.mark.parametrize(
    ("breakage", "red"),
    [
        (_edited("decoder.layers.1.cross_attention.weights", lambda w: 1.01 * w), ROWS),
        (_edited("decoder.layers.0.self_attention.weights", lambda w: w.flip(-1)), CAUSAL),
        (_uniform_while_recording, LOGITS),
        (_edited("encoder.layers.1.self_attention.heads", lambda x: 1.01 * x), HEADS),
    ],
    ids=["rows", "causal", "logits", "heads"],
)
def test_broken_pass_fails_its_check(
    trained: Transformer,
    tokenizers: TokenizerPair,
    monkeypatch: pytest.MonkeyPatch,
    breakage: Breakage,
    red: int,
) -> None:
    with contextmanager(breakage)(trained, monkeypatch):
        checks = run_trace(trained, tokenizers, SOURCE, TARGET).checks
    assert [place for place, check in enumerate(checks) if not check.passed] == [red]


def test_nan_weights_fail_checks(trained: Transformer, tokenizers: TokenizerPair) -> None:
    with edit(trained, {"decoder.layers.1.cross_attention.weights": lambda w: w * float("nan")}):
        checks = run_trace(trained, tokenizers, SOURCE, TARGET).checks
    assert not any(checks[place].passed for place in (ROWS, LOGITS, HEADS))


# Errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("", None), "there is nothing to translate: type a sentence"),
        (("  \n\t ", None), "there is nothing to translate: type a sentence"),
        *(
            ((SOURCE, empty), "the target is empty: type a translation, or leave it to the model")
            for empty in ("", " \n", [], [BOS])
        ),
        ((SOURCE, [7, 8, EOS]), r"target ids: expected <s> \(2\) first, got 7"),
        ((SOURCE, [BOS, -1, 8, EOS]), "target ids: expected 0 to 419, got -1"),
        ((SOURCE, [BOS, 7, 8, 420]), "target ids: expected 0 to 419, got 420"),
        ((" the" * LONGEST, None), "the sentence has 32 tokens, at most 31 are read; shorten it"),
        ((SOURCE, [BOS] + [7] * (LONGEST + 1)), "the target has 32 tokens, at most 31 .*"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    trained: Transformer,
    tokenizers: TokenizerPair,
    given: tuple[str, str | Sequence[int] | None],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        run_trace(trained, tokenizers, *given)


# Heads turned


@pytest.mark.parametrize(
    "turned",
    [
        Turned.off([("cross", 1, 0), ("encoder_self", 0, 2)]),
        Turned.of({("cross", 1, 0): -0.75, ("decoder_self", 0, 1): 2.5}),
        Turned.of(
            {("cross", 0, 0): 0.5}, [(("cross", 1, 0), 2, 1), (("encoder_self", 0, 2), 3, None)]
        ),
    ],
)
def test_turned_match(precise: Transformer, tokenizers: TokenizerPair, turned: Turned) -> None:
    trace = run_trace(precise, tokenizers, SOURCE, turned=turned)
    source = tokenizers.encode_source(SOURCE)
    with turn(precise, turned), torch.inference_mode():
        [target] = greedy(precise, [source])
        logits = precise(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
    assert list(trace.target_ids) == target
    assert trace.turned == turned
    expected = logits.log_softmax(dim=-1)[range(len(target) - 1), target[1:]]
    assert_near(trace.predictions.log_probability, expected, **ONCE)
    assert all(check.passed for check in trace.checks)
    assert not run_trace(precise, tokenizers, SOURCE).turned


def test_what_there_is_not_is_refused(trained: Transformer, tokenizers: TokenizerPair) -> None:
    with pytest.raises(ValueError, match="no head"):
        run_trace(trained, tokenizers, SOURCE, turned=Turned.off([("cross", 7, 0)]))
    far = Turned(pinned=(PinnedRow(Head("cross", 1, 0), 0, 900),))
    with pytest.raises(
        ValueError, match=r"row 1 of cross\.2\.1: expected one of \d+ keys, got 901"
    ):
        run_trace(trained, tokenizers, SOURCE, turned=far)


@pytest.mark.parametrize("bits", [(0, 0), (0, 1), (1, 0)])
def test_of_two_tokens_that_differ_by_a_last_bit_the_lower_id_is_first(
    make_speaker: MakeSpeaker, tokenizers: TokenizerPair, bits: tuple[int, int]
) -> None:
    """In the predictions and in the lens; each of the two has rank 1."""
    speaker = make_speaker(output_bias=True, tied="none")
    with torch.no_grad():
        speaker.unembedding.weight.zero_()
        speaker.unembedding.bias.copy_(-torch.arange(tokenizers.target.vocab_size) - 3.0)
        bias = 1 + torch.tensor(bits) * torch.finfo(torch.float32).eps
        speaker.unembedding.bias[[70, 90]] = bias
    found = run_trace(speaker, tokenizers, SOURCE, [BOS, 90, 70, 0], top_k=3).predictions
    assert found.top_ids.tolist() == [[70, 90, 0]] * 3
    assert found.lens_ids.tolist() == [[[70, 90, 0]] * 3] * 3
    assert found.rank.tolist() == [1, 1, 3]
    own = run_trace(speaker, tokenizers, SOURCE)
    assert set(own.predicted.ids) == {70}
    assert set(own.predictions.rank.tolist()) == {1}
