"""The account of a word adds up exactly, and says what taking a part out changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.forced import forced_stream
from headwise.model.interface import Head, Stack, head_name
from headwise.model.layers import sinusoidal_positions
from headwise.model.masks import PADDING
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import ablate, turn
from headwise.viz_app.records.trace import Tokens, Word
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.word.account import (
    neuron_logits,
    pass_to,
    run_account,
    run_cell,
    run_drivers,
    run_neuron_words,
)
from headwise.viz_app.why.word.effects import run_source_effects, run_whole_effects
from tests.floats import PASS, assert_near, near, rounding
from tests.model.pretrained.tiny import MAKES, build

MakeModel = Callable[..., Transformer]
Ids = tuple[int, ...]
SOURCE, CONSUMED = (5, 17, 9, 30, 8, EOS), (BOS, 12, 7, 33)
STEP, WORD, INSTEAD = 2, 11, 29
PREDICTED = (12, 7, WORD, EOS)
OURS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre", "n_encoder_layers": 3},
    "post-norm": {"norm": "post", "final_norm": False},
    "no final norm": {"norm": "pre", "final_norm": False, "attention_bias": False, "d_k": 7},
    "nothing tied": {"norm": "pre", "tied": "none", "output_bias": True},
}


@pytest.fixture(scope="module", params=[*OURS, *MAKES])
def model(request: pytest.FixtureRequest, make_model: MakeModel) -> Any:
    """A tiny model in float64 of every preset's make, and of every family's."""
    if request.param in OURS:
        return make_model(**OURS[request.param]).double()
    return build(request.param, dtype=torch.float64).ours


def traced(source: Ids = SOURCE, turned: Turned = AS_IT_IS, word: int = WORD) -> Any:
    predicted = (*PREDICTED[:STEP], word, EOS)
    ids = {"source": source, "consumed": CONSUMED, "predicted": predicted}
    tokens = {name: Tokens(each, ("",) * len(each), ()) for name, each in ids.items()}
    return SimpleNamespace(**tokens, turned=turned)


def logit_difference(model: Any, source: Ids, consumed: Ids) -> float:
    logits = logits_at(model, source, consumed)
    return float(logits[WORD] - logits[INSTEAD])


def logits_at(model: Any, source: Ids, consumed: Ids) -> Tensor:
    """The logits that the model computes, before their cap."""
    with torch.inference_mode():
        stream = forced_stream(model, torch.tensor([source]), torch.tensor([consumed]))
        logits = model.unembed(stream)[0, STEP].double()
    cap = model.description.logit_cap
    return logits if cap is None else cap * torch.atanh(logits / cap)


@pytest.mark.parametrize(("padded", "strength"), [(False, 1.0), (True, 0.0), (False, -0.5)])
def test_all_parts_add_up(model: Any, padded: bool, strength: float) -> None:
    heads = Head("cross", 1, 1), Head("encoder_self", 0, 0)
    rows = [] if strength else [(Head("cross", 1, 0), STEP, 2)]
    turned = Turned.of(dict.fromkeys(heads, strength), rows)
    source = (*SOURCE, *[PADDING] * (2 * padded))
    with turn(model, turned):
        wanted = logit_difference(model, source, CONSUMED)
    trace = traced(source, turned)
    account = run_account(model, trace, STEP, INSTEAD)
    cross = account.parts.heads["cross"]
    size = sum(float(abs(part).sum()) for part in account.parts.heads.values()) + abs(wanted) + 10
    bound = rounding(np.float64, size, PASS)
    assert account.difference == pytest.approx(wanted, abs=bound)
    assert account.parts.total == pytest.approx(wanted, abs=bound)
    assert bool(cross[1, 1].any()) == (strength != 0)
    cells = np.sum([values for _, values in account.from_encoder.named()], axis=0)
    assert_near(cells, cross, size=size, operations=PASS)
    for key in (0, 4):
        cell = run_cell(model, trace, STEP, INSTEAD, 1, 0, key)
        assert cell.total == pytest.approx(cross[1, 0, key], abs=bound)
        assert_near(
            cell.heads["encoder_self"].sum(-1),
            account.from_encoder.heads["encoder_self"][1, 0, key],
            size=size,
            operations=PASS,
        )


def test_the_drivers_of_a_neuron_are_its_input(model: Any) -> None:
    """A gated neuron multiplies two inputs, the first of them through an activation function."""
    trace, layer, neuron = traced(), 1, 3
    forced = pass_to(model, trace, STEP)
    stacks: tuple[tuple[Stack, str], ...] = (
        ("encoder", "self_attention"),
        ("decoder", "cross_attention"),
    )
    for stack, attention in stacks:
        path = f"{stack}.layers.{layer}.feed_forward"
        is_pre = model.description.of(stack).norm == "pre"
        before = path if is_pre else f"{stack}.layers.{layer}.{attention}"
        token = 4 if stack == "encoder" else None
        given = forced.seen[f"{before}_residual.norm.after"][token or STEP]
        drivers = run_drivers(model, trace, STEP, layer, neuron, token)
        assert set(drivers) == ({"expand", "gate"} if model.description.gated else {"expand"})
        for name, parts in drivers.items():
            weight, bias = model.linear(f"{path}.{name}")
            with torch.no_grad():
                expected = float(given @ weight[:, neuron] + (0 if bias is None else bias[neuron]))
            assert parts.total == pytest.approx(expected, abs=rounding(np.float64, 20, PASS))
            assert len(parts.neurons) == layer
    with torch.inference_mode():
        words = neuron_logits(forced, STEP, layer, neuron)
    active = float(forced.seen[f"{path}.hidden"][STEP, neuron])
    account = run_account(model, trace, STEP, INSTEAD)
    assert float(words[WORD] - words[INSTEAD]) * active == pytest.approx(
        account.parts.neurons[layer, neuron], abs=rounding(np.float64, 20, PASS)
    )
    *found, activation = run_neuron_words(model, trace, STEP, layer, neuron, 1)
    assert (found, activation) == ([[int(words.argmax())], [int(words.argmin())]], active)


def test_against_the_mean_of_all_words(model: Any) -> None:
    logits = logits_at(model, SOURCE, CONSUMED)
    account = run_account(model, traced(), STEP, None)
    bound = rounding(np.float64, float(logits.abs().sum()) + 20, PASS)
    expected = pytest.approx(float(logits[WORD] - logits.mean()), abs=bound)
    assert (account.difference, account.parts.total) == (expected, expected)


def test_whole_effects_are_those_of_separate_passes(model: Any) -> None:
    trace, done = traced(), list[tuple[int, int]]()
    found = run_whole_effects(model, trace, STEP, INSTEAD, note_done=lambda *n: done.append(n))
    assert done[-1] == (sum(map(len, found.values())),) * 2
    consumed = CONSUMED[: STEP + 1]
    before = logit_difference(model, SOURCE, consumed)
    for stack, head in (("decoder", Head("cross", 0, 1)), ("encoder", Head("encoder_self", 1, 0))):
        with ablate(model, [head]):
            expected = before - logit_difference(model, SOURCE, consumed)
        bound = rounding(np.float64, 20, PASS)
        assert found[stack][head_name(head)] == pytest.approx(expected, abs=bound)
    assert abs(found["decoder"]["feed_forward.1"]) > 1e-6
    again = run_whole_effects(model, trace, STEP, INSTEAD, known={0: 77.0})  # it is not run again
    assert 77.0 in {**again["encoder"], **again["decoder"]}.values()


def test_source_effects_are_those_of_shorter_sentences(model: Any) -> None:
    spans = Word("", 1, 3), Word("", 4, 5), Word("", 0, 6)
    trace, consumed = traced(), CONSUMED[: STEP + 1]
    trace.source = replace(trace.source, words=spans)
    found = run_source_effects(model, trace, STEP, INSTEAD)
    before = logit_difference(model, SOURCE, consumed)
    for span, effect in zip(spans[:2], found[:2], strict=True):
        shorter = (*SOURCE[: span.start], *SOURCE[span.stop :])
        expected = before - logit_difference(model, shorter, consumed)
        assert effect == pytest.approx(expected, abs=rounding(np.float64, 20, PASS))
    assert np.isnan(found[2])


def test_words_of_the_source_are_left_out_with_strengths_but_not_with_pinned_rows(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    turned = Turned.of(
        {Head("cross", 0, 1): 0.0, Head("encoder_self", 1, 0): 2.0},
        [(Head("encoder_self", 0, 2), 1, 0)],
    )
    strengths = Turned(turned.strengths)
    text = "The cats don't see the dog.", "Ella lo ve. No te preocupes."
    a = run_trace(precise, tokenizers, *text, turned=strengths)
    loss, word = run_source_effects(precise, a, 3, None)[1], a.source.words[1]
    odds = []
    for ids in (a.source.ids, a.source.ids[: word.start] + a.source.ids[word.stop :]):
        with torch.inference_mode(), turn(precise, strengths):
            logits = precise(torch.tensor([ids]), torch.tensor([a.consumed.ids[:4]]))[0, -1]
        odds.append(float(logits[a.predicted.ids[3]] - logits.mean()))
    assert loss == near(odds[0] - odds[1], dtype=np.float64, size=40.0, operations=PASS)
    pinned = run_trace(precise, tokenizers, *text, turned=turned)
    with pytest.raises(ValueError, match="once a source word is left out"):
        run_source_effects(precise, pinned, 3, None)


def worked_in_numpy(model: Transformer) -> dict[str, Any]:
    """Carry every part forward through the decoder with NumPy, from the weights alone.

    A part is an array (…, T, D); heads are (heads, keys, T, D) and neurons (d_ff, T, D).
    """
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    config = model.config
    heads, d_k, width = config.n_heads, config.head_width, config.d_model
    pre = config.norm == "pre"

    def linear(path: str, x: Any) -> Any:
        return x @ weights[f"{path}.weight"].T + weights[f"{path}.bias"]

    def embedded(side: str, ids: Ids) -> tuple[Any, Any]:
        table = weights[f"{side}.embedding.table.weight"]
        positions = sinusoidal_positions(len(ids), width).double().numpy()
        return table[list(ids)] * width**0.5, positions

    def normed(path: str, stream: Any, x: Any) -> Any:
        """A part of the stream through a norm whose divisors are those of the stream."""
        deviation = np.sqrt(stream.var(axis=-1, keepdims=True) + 1e-5)
        return (x - x.mean(axis=-1, keepdims=True)) / deviation * weights[f"{path}.norm.weight"]

    def norm(path: str, x: Any) -> Any:
        return normed(path, x, x) + weights[f"{path}.norm.bias"]

    def attended(path: str, x: Any, y: Any, causal: bool) -> Any:
        query, key, value = (
            linear(f"{path}.{name}_projection", z).reshape(len(z), heads, d_k)
            for name, z in (("query", x), ("key", y), ("value", y))
        )
        scores = np.einsum("qhk,mhk->hqm", query, key) / d_k**0.5
        if causal:
            scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        projection = weights[f"{path}.output_projection.weight"].T.reshape(heads, d_k, width)
        return np.einsum("hqm,mhk,hkd->hmqd", scores, value, projection)

    def neurons(path: str, x: Any) -> Any:
        hidden = np.maximum(linear(f"{path}.expand", x), 0)
        return np.einsum("tf,df->ftd", hidden, weights[f"{path}.contract.weight"])

    def run(side: str, ids: Ids, memory: Any) -> dict[str, Any]:
        tokens, positions = embedded(side, ids)
        parts = {"token": tokens, "position": positions, "biases": np.zeros_like(tokens)}

        def total() -> Any:
            return sum(part.reshape(-1, *tokens.shape).sum(axis=0) for part in parts.values())

        def through(path: str) -> None:
            stream = total()
            for name, part in parts.items():
                parts[name] = normed(path, stream, part)
            parts["biases"] = parts["biases"] + weights[f"{path}.norm.bias"]

        for layer in range(len(getattr(model, side).layers)):
            at = f"{side}.layers.{layer}"
            names = ["self_attention", "cross_attention", "feed_forward"]
            for name in names if side == "decoder" else names[::2]:
                path = f"{at}.{name}"
                given = norm(f"{path}_residual.norm", total()) if pre else total()
                if name == "feed_forward":
                    written, last = neurons(path, given), "contract"
                else:
                    cross = name == "cross_attention"
                    read = memory if cross else given
                    written = attended(path, given, read, side == "decoder" and not cross)
                    last = "output_projection"
                parts[f"{name}.{layer}"] = written
                parts["biases"] = parts["biases"] + weights[f"{path}.{last}.bias"]
                if not pre:
                    through(f"{path}_residual.norm")
        if config.final_norm:
            through(f"{side}.final_norm")
        return parts

    encoded = run("encoder", SOURCE, None)
    memory = sum(part.reshape(-1, len(SOURCE), width).sum(axis=0) for part in encoded.values())
    parts = run("decoder", CONSUMED, memory)
    unembedding = weights["unembedding.weight"]
    reading = unembedding[WORD] - unembedding[INSTEAD]
    return {name: (part @ reading)[..., STEP] for name, part in parts.items()}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_account_worked_again_in_numpy(make_model: MakeModel, norm: str) -> None:
    model = make_model(norm=norm, final_norm=norm == "pre", output_bias=False).double()
    expected = worked_in_numpy(model)
    parts = run_account(model, traced(), STEP, INSTEAD).parts
    found = {"token": parts.token, "position": parts.position, "biases": parts.biases}
    for layer in range(model.config.n_decoder_layers):
        found[f"self_attention.{layer}"] = parts.heads["decoder_self"][layer]
        found[f"cross_attention.{layer}"] = parts.heads["cross"][layer]
        found[f"feed_forward.{layer}"] = parts.neurons[layer]
    assert set(found) == set(expected)
    for name, value in expected.items():
        if name.startswith("self_attention"):  # which is masked beyond this step
            assert not value[..., STEP + 1 :].any()
            value = value[..., : STEP + 1]
        assert_near(found[name], value, size=20, operations=PASS)


def test_words_steps_and_neurons_that_are_not_there_are_refused(make_model: MakeModel) -> None:
    model = make_model()
    for step, word, instead, said in (
        (STEP, 3, 3, "two different tokens, got 3 twice"),
        (STEP, 99, 3, "0 to 40, got 99"),
        (4, 3, 4, "a position from 0 to 3 of the target, got 4"),
    ):
        with pytest.raises(ValueError, match=said):
            run_account(model, traced(word=word), step, instead)
    with pytest.raises(ValueError, match="a neuron below 23, got 1 and 23"):
        run_drivers(model, traced(), 0, 1, 23)
